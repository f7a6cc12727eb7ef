"""The console over real sockets, against a real node: what it shows, what it changes, and whom it refuses."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, web
from aiohttp.test_utils import TestServer

from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ConsumerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.console.serving.assets import FOLDER
from penstock.console.serving.guard import TOKEN
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings
from penstock.protocol.secret import Secret
from penstock.testing import Cluster

HOSTILE = '<img src=x onerror="alert(1)">\u202egnp.exe\x07'
QUICK = ClientSettings(default_api_timeout_ms=2_000, request_timeout_ms=2_000)


class Browser:
    """Asks as our own page does, unless told otherwise."""

    def __init__(self, url: str, session: ClientSession) -> None:
        self.url = url
        self.session = session

    async def get(self, path: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
        async with self.session.get(f"{self.url}{path}", headers=headers) as answer:
            body = await answer.read()
            assert answer.status == status, body
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert (
                "require-trusted-types-for 'script'; trusted-types 'none'" in answer.headers["Content-Security-Policy"]
            )
            return json.loads(body) if answer.content_type == "application/json" else body

    async def post(self, path: str, document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
        own = {TOKEN: (await self.get("/api/session"))["token"], "Content-Type": "application/json"}
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        given = {name: value for name, value in {**own, **(headers or {})}.items() if value}
        async with self.session.post(f"{self.url}{path}", data=data, headers=given) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    async def change(self, status: int = 200, **asked: Any) -> Any:
        return await self.post("/api/change", asked, status)


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster() as cluster:
        yield cluster


async def browser_of(settings: ConsoleSettings) -> AsyncIterator[Browser]:
    async with ConsoleServer(settings, sample_s=0) as server, ClientSession() as session:
        yield Browser(server.url, session)


@pytest.fixture
async def browser(cluster: Cluster) -> AsyncIterator[Browser]:
    async for browser in browser_of(ConsoleSettings(bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0)):
        yield browser


async def fill(cluster: Cluster, topic: str, count: int) -> None:
    async with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        await admin.topics.create_unless_there(NewTopic(name=topic, partitions=2))
        for number in range(count):
            await producer.send(topic, b'{"n": %d}' % number, key=b"key-%d" % number, partition=number % 2)


async def test_what_there_is(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "shown", 40)
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.groups.set_offsets(HOSTILE, {TopicPartition("shown", 0): OffsetAndMetadata(5)})
    overview = await browser.get("/api/overview")
    assert [(one["state"], one["lease"]) for one in overview["brokers"]] == [("in service", "held")]
    assert overview["controller"] == 1
    listed = await browser.get("/api/topics?q=SHO&sort=bytes&desc=1")
    assert [(row["name"], row["partitions"]) for row in listed["topics"]] == [("shown", 2)]
    topic = await browser.get("/api/topic?name=shown&limit=1")
    assert (topic["total"], len(topic["partitions"]), topic["partitions"][0]["end"]) == (2, 1, "20")
    (group,) = (await browser.get("/api/groups?sort=lag&desc=1"))["groups"]
    assert (group["name"], group["lag"], group["state"]) == (HOSTILE, "15", "Empty")
    assert (await browser.get("/api/consumers?name=shown"))["groups"][0]["group"] == HOSTILE
    for view in ("quorum", "broker?id=1", "configs?name=shown", "moves", "leaders", "storage-groups", "security"):
        await browser.get(f"/api/{view}")
    assert (await browser.get("/api/connect"))["worker"] is None


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        ("limit=3", ["19", "19", "18"]),
        ("place=earliest&partition=1&limit=2", ["0", "1"]),
        ("place=offset&at=17&partition=0", ["17", "18", "19"]),
        ("place=offset&at=9223372036854775807", []),
        ("place=time&at=9999999999999", []),
        ("q=%22n%22:%2033&limit=500", ["16"]),
        ("key=KEY-7&place=earliest", ["3"]),
    ],
)
async def test_records_from_a_place(cluster: Cluster, browser: Browser, query: str, offsets: list[str]) -> None:
    await fill(cluster, f"read-{abs(hash(query))}", 40)
    found = await browser.get(f"/api/records?topic=read-{abs(hash(query))}&{query}")
    assert [row["offset"] for row in found["records"]] == offsets
    assert found["whole"]


async def test_why_a_group_rebalanced(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "watched", 2)
    settings = ConsumerSettings(group_id="watchers", auto_offset_reset="earliest")
    async with Consumer(cluster.bootstrap_servers, settings) as consumer:
        await consumer.subscribe(["watched"])
        async with asyncio.timeout(20):
            while not await consumer.poll(200):
                pass
    rebalances = (await browser.get("/api/group?name=watchers"))["rebalances"]
    assert "left" in rebalances[0]["why"]
    assert "joined" in rebalances[-1]["why"]
    assert (rebalances[-1]["members"], rebalances[-1]["moved"]) == (1, 2)


async def test_a_share_group_is_shown_with_what_is_still_to_be_delivered(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "shared-out", 20)
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.features.update({"share.version": 1}, UpgradeType.UPGRADE)
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.share_groups.set_offsets("workers", {TopicPartition("shared-out", 0): OffsetAndMetadata(4)})
    group = await browser.get("/api/group?name=workers")
    assert [(row["partition"], row["committed"], row["lag"]) for row in group["offsets"]] == [(0, "4", "6")]
    (row,) = (await browser.get("/api/groups?q=workers&sort=lag"))["groups"]
    assert (row["type"], row["lag"]) == ("share", "6")


async def test_a_large_value_comes_cut_whole_and_as_a_file(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "large", 1)
    async with Producer(cluster.bootstrap_servers) as producer:
        where = await producer.send_and_wait("large", b"x" * 500_000, partition=1)
    value = (await browser.get(f"/api/records?topic=large&partition=1&place=offset&at={where.offset}"))["records"][0][
        "value"
    ]
    assert (value["cut"], value["size"], len(value["text"])) == (True, 500_000, 4_096)
    path = f"/api/value?topic=large&partition=1&offset={where.offset}"
    assert len((await browser.get(path))["text"]) == 500_000
    assert await browser.get(f"{path}&as=file") == b"x" * 500_000
    await browser.get("/api/value?topic=large&partition=1&offset=99", 404)


async def test_export_is_json_lines_with_all_digits(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "exported", 300)
    lines = (await browser.get("/api/export?topic=exported&place=earliest&limit=1000")).splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 300
    assert sorted((row["partition"], int(row["offset"])) for row in rows) == [
        (p, n) for p in (0, 1) for n in range(150)
    ]


async def test_records_are_seen_as_they_come(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "tailed", 2)
    async with browser.session.get(f"{browser.url}/api/tail?topic=tailed&q=seen") as answer:
        assert answer.content_type == "text/event-stream"
        assert await event(answer) == []
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("tailed", b"passed over")
            await producer.send_and_wait("tailed", b"seen")
        while not (seen := await event(answer)):
            pass
    assert [row["value"]["text"] for row in seen] == ["seen"]


async def event(answer: ClientResponse) -> Any:
    """The next one of a stream."""
    async with asyncio.timeout(20):
        while not (line := await answer.content.readline()).startswith(b"data: "):
            pass
    return json.loads(line[6:])


async def test_changes_are_made_written_down_and_told(
    cluster: Cluster, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.console.audit")
    await browser.change(action="create-topic", topic="made", partitions="2")
    await browser.change(action="alter-config", topic="made", key_name="retention.ms", value_of_key="12345")
    configs = {row["name"]: row["value"] for row in (await browser.get("/api/configs?name=made"))["configs"]}
    assert configs["retention.ms"] == "12345"
    for value in ("s3cret", "another"):
        await browser.change(action="produce", topic="made", key="k", value=value, headers={"h": "1"})
    (record, _) = (await browser.get("/api/records?topic=made&place=earliest"))["records"]
    assert (record["value"]["text"], record["headers"][0][0]) == ("s3cret", "h")
    await browser.change(action="reset-offsets", group="g", topic="made", to="earliest", typed="g")
    assert (await browser.get("/api/group?name=g"))["lag"] == "2"
    await browser.change(action="elect-leader", topic="made", partition="0")
    await browser.change(action="delete-group", group="g", typed="g")
    await browser.change(400, action="delete-topic", topic="made", typed="mad")
    await browser.change(action="delete-topic", topic="made", typed="made")
    assert (await browser.change(502, action="delete-topic", topic="made", typed="made"))["error"]
    told = [json.loads(record.getMessage()) for record in caplog.records if record.name == "penstock.console.audit"]
    assert [(row["action"], row["outcome"]) for row in told][-3:] == [
        ("delete-topic", "failed"),
        ("delete-topic", "done"),
        ("delete-topic", "failed"),
    ]
    assert len(told) == 10
    assert "anybody from 127.0.0.1" in told[0]["who"]
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8085"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "192.168.0.1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_pages_of_others_are_not_heard(browser: Browser, headers: dict[str, str]) -> None:
    status = 421 if "Host" in headers else 403
    for path in ("/", "/api/session", "/api/overview", "/api/events"):
        await browser.get(path, status, headers)


async def test_a_link_elsewhere_leads_to_our_page_and_starts_nothing(browser: Browser) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    await browser.get("/", headers=headers)
    await browser.get("/api/export?topic=shown", 403, headers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({TOKEN: ""}, 403),
        ({TOKEN: "x" * 43}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_a_change_needs_our_own_page(browser: Browser, headers: dict[str, str], status: int) -> None:
    for path in ("/api/change", "/api/preview"):
        await browser.post(path, {"action": "create-topic", "topic": "forged"}, status, headers)
    assert (await browser.get("/api/topics?q=forged"))["total"] == 0


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/../pyproject.toml", 404),
        ("/%2e%2e/%2e%2e/server.py", 404),
        ("/..%2fserving%2fserver.py", 404),
        ("/assets/index.html", 404),
        ("/index.html%00.js", 404),
        ("/__init__.py", 404),
        ("/api/", 404),
        ("/api/nothing", 404),
        ("/api/topics?limit=501", 400),
        ("/api/topics?from=-1", 400),
        ("/api/topics?sort=__class__", 400),
        (f"/api/topics?q={'x' * 2_000}", 400),
        (f"/api/topics?q={'x' * 9_000}", 400),
        ("/api/topic", 400),
        ("/api/broker?id=1e9", 400),
        ("/api/broker?id=77", 400),
        ("/api/broker?id=%c2%b2", 400),
        ("/api/tail?topic=is-not-there", 502),
        ("/api/export?topic=is-not-there", 502),
        ("/api/topic?name=is-not-there", 502),
        ("/api/records?topic=is-not-there", 502),
        ("/api/records?topic=a&at=99999999999999999999", 400),
    ],
)
async def test_what_is_not_there_and_what_is_too_much(browser: Browser, path: str, status: int) -> None:
    reader, writer = await asyncio.open_connection(*browser.url.removeprefix("http://").split(":"))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.split(b" ")[1] == str(status).encode(), answer
    assert answer.count(b"HTTP/1.1 ") <= 1


NO_SENSE = [b"", b"[]", b"{", b"[" * 100_000, b'{"action": 1}', b'"x"']
NO_SENSE += [b'{"action": "delete-topic", "topic": "\\ud800", "typed": "\\ud800"}']
NO_SENSE += [
    json.dumps({"action": action, "topic": "t", "group": "g", "typed": "g", **asked}).encode()
    for action, asked in (
        ("create-topic", {"partitions": "9" * 5_000}),
        ("create-topic", {"partitions": str(2**31)}),
        ("create-topic", {"replication_factor": str(2**15)}),
        ("elect-leader", {"partition": str(2**63 - 1)}),
        ("reset-offsets", {"to": "time", "at": str(2**63 - 1)}),
        ("reset-offsets", {"to": "somewhere"}),
        ("alter-config", {"key_name": "retention.ms", "value_of_key": {"a": 1}}),
    )
]


@pytest.mark.parametrize("body", NO_SENSE, ids=range(len(NO_SENSE)))
async def test_a_body_that_makes_no_sense(browser: Browser, body: bytes) -> None:
    await browser.post("/api/change", body, 400)


async def test_a_body_that_is_too_large(browser: Browser) -> None:
    await browser.post("/api/change", b'{"action": "' + b"x" * 2_000_000 + b'"}', 413)


async def test_nobody_writes_a_line_of_the_log_but_the_console(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.console.audit")
    forged = {"who": "ada from 10.0.0.1", "outcome": "done", "topic": "x" * 100_000}
    await browser.change(400, action="delete-topic", **forged)
    await browser.change(400, action={"a": [1]}, **forged)
    for record in caplog.records:
        told = json.loads(record.getMessage())
        assert (told["who"], told["outcome"]) == ("anybody from 127.0.0.1", "failed")
        assert len(record.getMessage()) < 2_000


async def test_strangers_do_not_fill_the_log(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_connection(*browser.url.removeprefix("http://").split(":"))
    writer.write(b"G\x00T / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.read()).split(b" ")[1] == b"400"
    writer.close()
    await browser.post("/api/change", {}, 403, {TOKEN: "\udcff\udcfe"})
    assert caplog.text == ""


async def test_records_in_a_list_are_cut_and_their_headers_counted(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "headers", 1)
    headers = [("n" * 1_000, b"v" * 1_000)] * 150
    async with Producer(cluster.bootstrap_servers) as producer:
        where = await producer.send_and_wait("headers", b"x", partition=1, headers=headers)
    path = f"/api/records?topic=headers&partition=1&place=offset&at={where.offset}"
    (row,) = (await browser.get(path))["records"]
    assert row["headers_total"] == 150
    assert len(json.dumps(row)) < 50_000


async def test_a_file_for_a_consumer_of_a_group_commits_nothing_for_it(cluster: Cluster) -> None:
    await fill(cluster, "left-alone", 10)
    properties = {"group.id": "theirs", "enable.auto.commit": "true", "auto.commit.interval.ms": "1"}
    settings = ConsoleSettings(bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0, properties=properties)
    async for browser in browser_of(settings):
        assert len((await browser.get("/api/records?topic=left-alone"))["records"]) == 10
        assert (await browser.get("/api/groups?q=theirs"))["total"] == 0


async def test_read_only_is_held_by_the_server(cluster: Cluster) -> None:
    settings = ConsoleSettings(bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0, read_only=True)
    async for browser in browser_of(settings):
        assert "read-only" in (await browser.change(403, action="create-topic", topic="no"))["error"]
        assert (await browser.get("/api/session"))["read_only"]
        await browser.get("/api/topics")


async def test_where_there_are_users_nobody_else_is_shown_anything(cluster: Cluster) -> None:
    settings = ConsoleSettings(
        bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0, users={"ada": Secret("lovelace")}
    )
    async for browser in browser_of(settings):
        await browser.get("/")
        for path in (
            "overview",
            "events",
            "records?topic=a",
            "tail?topic=a",
            "export?topic=a",
            "value?topic=a",
            "connect",
        ):
            await browser.get(f"/api/{path}", 401)
        await browser.change(401, action="create-topic", topic="no")
        assert (await browser.get("/api/session"))["bootstrap_servers"] is None
        for user, password in (("ada", "wrong"), ("eve", "lovelace"), ("eve", ""), ("", "")):
            await browser.post("/api/login", {"user": user, "password": password}, 401)
        async with browser.session.post(
            f"{browser.url}/api/login",
            json={"user": "ada", "password": "lovelace"},
            headers={TOKEN: (await browser.get("/api/session"))["token"]},
        ) as answer:
            cookie = answer.headers["Set-Cookie"]
            value = answer.cookies["penstock-console"].value
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Secure" not in cookie
        logged_in = {"Cookie": f"penstock-console={value}"}
        await browser.get("/api/overview", headers=logged_in)
        await fill(cluster, "secret", 2)
        async with browser.session.get(f"{browser.url}/api/tail?topic=secret", headers=logged_in) as tail:
            assert await event(tail) == []
            await browser.post("/api/logout", {}, headers=logged_in)
            async with Producer(cluster.bootstrap_servers) as producer:
                await producer.send_and_wait("secret", b"not for you")
            assert await tail.content.read() == b"\n"
        await browser.get("/api/overview", 401, logged_in)
        for _ in range(6):
            await browser.post("/api/login", {"user": "ada", "password": "guess"}, 401)
        await browser.post("/api/login", {"user": "ada", "password": "lovelace"}, 429)


async def test_a_cluster_that_is_not_there_is_said() -> None:
    client = ClientSettings(default_api_timeout_ms=300, request_timeout_ms=300)
    async for browser in browser_of(ConsoleSettings(bootstrap_servers="127.0.0.1:1", client=client, port=0)):
        await browser.get("/")
        assert "127.0.0.1:1" in (await browser.get("/api/overview", 502))["error"]


async def test_a_stream_tells_what_has_changed(cluster: Cluster, browser: Browser) -> None:
    async with browser.session.get(f"{browser.url}/api/events") as events:
        await browser.get("/api/topics?q=told")
        await browser.change(action="create-topic", topic="told")
        assert await event(events) == ["/api/topics?q=told"]
    assert (await browser.get("/api/topics?q=told"))["total"] == 1


def test_the_page_is_small_and_asks_nobody_else() -> None:
    files = [path for path in FOLDER.iterdir() if path.name != "licenses.txt"]
    assert sum(path.stat().st_size for path in files) <= 150_000
    ours = [path for path in files if path.name not in ("uplot.js", "uplot.css", "preact-htm.js")]
    for path in ours:
        text = path.read_text()
        assert "innerHTML" not in text
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert " style=" not in text
        assert "eval(" not in text


async def test_a_reader_that_stops_is_left_and_nothing_is_read_for_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.console.serving.streaming.STUCK_S", 0.2)
    await fill(cluster, "flood", 1)
    settings = ConsoleSettings(bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0)
    async with ConsoleServer(settings, sample_s=0) as server, Producer(cluster.bootstrap_servers) as producer:
        host, port = server.url.removeprefix("http://").split(":")
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stuck.setblocking(False)
        await asyncio.get_running_loop().sock_connect(stuck, (host, int(port)))
        request = b"GET /api/tail?topic=flood HTTP/1.1\r\nHost: localhost\r\n\r\n"
        await asyncio.get_running_loop().sock_sendall(stuck, request)
        async with asyncio.timeout(60):
            while server._reading.tails == 0:
                await asyncio.sleep(0)
            while server._reading.tails > 0:  # what is written to it fills the buffers between
                for _ in range(200):
                    await producer.send("flood", b"x" * 4_096)
                await producer.flush()
        stuck.close()


async def test_connectors_are_shown_without_their_configurations(cluster: Cluster) -> None:
    async def answer(_: web.Request) -> web.Response:
        tasks = [{"id": 0, "state": "FAILED", "worker_id": "w", "trace": "x" * 9_000}]
        status = {"name": "c", "connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": tasks, "type": "sink"}
        return web.json_response({"c": {"status": status, "info": {"config": {"password": "s3cret"}}}, "odd": None})

    app = web.Application()
    app.router.add_get("/connectors", answer)
    async with TestServer(app) as worker:
        settings = ConsoleSettings(
            bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0, worker=str(worker.make_url("/"))
        )
        async for browser in browser_of(settings):
            found = await browser.get("/api/connect")
            assert [(row["name"], row["state"]) for row in found["connectors"]] == [("c", "RUNNING"), ("odd", "")]
            assert found["connectors"][0]["tasks"][0]["state"] == "FAILED"
            assert len(json.dumps(found)) < 4_000
            assert "s3cret" not in json.dumps(found)
            await worker.close()
            assert "no worker at" in (await browser.get("/api/connect", 502))["error"]
