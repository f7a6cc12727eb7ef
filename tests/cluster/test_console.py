"""The console over real sockets, against a real node: what it shows, and what it changes."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cluster.console_browser import QUICK, Browser, browser_of, event, fill
from tests.cluster.console_shown import report
from tests.wire.stub_worker import stub_worker

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ConsumerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.console.serving.assets import FOLDER
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings
from penstock.testing import Cluster

HOSTILE = '<img src=x onerror="alert(1)">\u202egnp.exe\x07'


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
async def browser(cluster: Cluster) -> AsyncIterator[Browser]:
    async for browser in browser_of(ConsoleSettings(bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0)):
        yield browser


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
        ("where=value.n%20%3E%20%6036%60&partition=1&place=earliest", ["18", "19"]),
    ],
)
async def test_records_from_a_place(cluster: Cluster, browser: Browser, query: str, offsets: list[str]) -> None:
    await fill(cluster, f"read-{abs(hash(query))}", 40)
    found = await browser.get(f"/api/records?topic=read-{abs(hash(query))}&{query}")
    assert [row["offset"] for row in found["records"]] == offsets
    assert found["whole"]


async def test_an_expression_that_cannot_be_read_is_refused_everywhere(cluster: Cluster, browser: Browser) -> None:
    await fill(cluster, "asked", 1)
    for what in ("records", "tail", "export"):
        assert "cannot be read" in (await browser.get(f"/api/{what}?topic=asked&where=value.", 400))["error"]


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


async def test_the_first_topics_come_by_name_and_none_in_part(cluster: Cluster) -> None:
    for name in ("first-1", "first-2"):
        await fill(cluster, name, 0)
    async with Admin(cluster.bootstrap_servers) as admin:
        every = await admin.topics.describe()
        count = sum(len(topic.partitions) for topic in every)
        assert await admin.topics.first(count) == (every, True)
        assert await admin.topics.first(count - 1) == (every[:-1], False)


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
    ours = [path for path in files if path.name != "preact-htm.js"]
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


async def test_connectors_and_pipelines_are_shown_without_their_configurations(cluster: Cluster) -> None:
    async with stub_worker({"c": 1, "d": 1}, report, trace="x" * 9_000) as worker:
        settings = ConsoleSettings(
            bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0, worker=str(worker.make_url("/"))
        )
        async for browser in browser_of(settings):
            found = await browser.get("/api/connect")
            assert [(row["name"], row["state"]) for row in found["connectors"]] == [("c", "RUNNING"), ("d", "RUNNING")]
            assert found["connectors"][0]["tasks"][0]["state"] == "FAILED"
            queries = await browser.get("/api/pipelines?topic=orders&limit=1")
            assert (queries["total"], queries["queries"][0]["sink"]) == (2, "plain")
            assert len(json.dumps([found, queries])) < 9_000
            assert "s3cret" not in json.dumps([found, queries])
    async for browser in browser_of(settings):
        assert "no worker at" in (await browser.get("/api/connect", 502))["error"]


async def test_a_key_is_looked_for_in_its_partition_or_in_all(cluster: Cluster, browser: Browser) -> None:
    async with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        await admin.topics.create(NewTopic(name="keyed", partitions=7))
        for number in range(30):
            await producer.send("keyed", b"%d" % number, key=b"user-%d" % number)
        own = (await producer.send_and_wait("keyed", b"again", key=b"User-1")).partition
        await producer.send_and_wait("keyed", b"elsewhere", key=b"User-1", partition=(own + 1) % 7)

    async def found(words: str) -> tuple[set[str], Any, int]:
        answer = await browser.get(f"/api/records?topic=keyed&place=earliest&key=User-1{words}")
        return {row["value"]["text"] for row in answer["records"]}, answer["reckoned"], int(answer["read"])

    texts, reckoned, read = await found("&match=whole")
    assert (texts, reckoned) == ({"again"}, own)
    assert read < 32
    assert await found("&match=anywhere") == ({"again", "elsewhere"}, None, 32)
    assert (await found(f"&match=whole&partition={(own + 1) % 7}"))[:2] == ({"elsewhere"}, None)
    texts, reckoned, _ = await found("")
    assert (len(texts), reckoned) == (13, None)  # a part of it: user-1, user-10 to user-19, and both others
    lines = (await browser.get("/api/export?topic=keyed&place=earliest&key=User-1&match=whole")).decode()
    assert [json.loads(line)["value"] for line in lines.splitlines()] == ["again"]


async def test_a_file_is_looked_at_and_then_sent(
    cluster: Cluster, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(cluster, "imported", 0)
    lines = "".join(json.dumps({"key": f"k{n}", "value": f"v{n}", "headers": [["h", None]]}) + "\n" for n in range(9))
    asked = {"topic": "imported", "kind": "jsonl", "shape": "records", "text": lines}
    seen = await browser.post("/api/import", asked | {"dry": True})
    assert (seen["records"], len(seen["first"]), seen["first"][0]["key"]["text"]) == (9, 5, "k0")
    assert (await browser.get("/api/records?topic=imported"))["records"] == []
    with caplog.at_level(logging.INFO, logger="penstock.console.audit"):
        assert (await browser.post("/api/import", asked))["records"] == 9
        await browser.post("/api/import", asked | {"text": lines + "{"}, 400)
    told = [json.loads(record.message) for record in caplog.records]
    assert [(one["outcome"], one["action"], one["topic"]) for one in told] == [
        ("done", "import", "imported"),
        ("failed", "import", "imported"),
    ]
    assert "v1" not in caplog.text
    found = (await browser.get("/api/records?topic=imported&place=earliest"))["records"]
    assert {(row["key"]["text"], row["value"]["text"], row["headers"][0][0]) for row in found} == {
        (f"k{n}", f"v{n}", "h") for n in range(9)
    }, "and nothing of the piece that had a wrong line"
    failed = await browser.post("/api/import", asked | {"topic": "not-there"}, 502)
    assert "not-there" in failed["error"]


async def test_how_many_records_of_a_topic_wait_until_they_are_due(cluster: Cluster, browser: Browser) -> None:
    async with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        configs = {"penstock.delay.enable": "true"}
        await admin.topics.create(NewTopic(name="later", partitions=2, configs=configs))
        for partition in (0, 1, 1):
            headers = [("penstock-delay", b"3600000")]
            await producer.send_and_wait("later", b"not yet", headers=headers, partition=partition)
    await fill(cluster, "at-once", 1)
    async with asyncio.timeout(30):
        while (await browser.get("/api/topic?name=later"))["waiting"] != "3":
            pass
    assert (await browser.get("/api/topic?name=at-once"))["waiting"] is None
