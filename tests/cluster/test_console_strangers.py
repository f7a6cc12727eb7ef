"""Whom the console refuses, over real sockets: pages of others, strangers, what makes no sense, what is too much."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector
from tests.cluster.console_browser import QUICK, Browser, browser_of, event, fill

from penstock.client.producer import Producer
from penstock.console.serving.guard import TOKEN
from penstock.console.serving.passwords import hashed
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings
from penstock.protocol.secret import Secret
from penstock.testing import Cluster
from penstock.tls.authority import new_authority, signed_by


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
async def browser(cluster: Cluster) -> AsyncIterator[Browser]:
    async for browser in browser_of(ConsoleSettings(bootstrap_servers=cluster.bootstrap_servers, client=QUICK, port=0)):
        yield browser


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
        ("/docs/../server.py", 404),
        ("/docs/%2e%2e/%2e%2e/server.py", 404),
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


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", b"400"),
        (
            b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"X-Penstock-Token: \xff\xfe\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
            b"403",
        ),
    ],
)
async def test_strangers_do_not_fill_the_log(
    browser: Browser, caplog: pytest.LogCaptureFixture, asked: bytes, status: bytes
) -> None:
    reader, writer = await asyncio.open_connection(*browser.url.removeprefix("http://").split(":"))
    writer.write(asked)
    assert (await reader.read()).split(b" ")[1] == status
    writer.close()
    assert caplog.text == ""


@pytest.fixture
def secured(cluster: Cluster, tmp_path: Path) -> ConsoleSettings:
    """With TLS; who signed its certificate is in the file `authority`."""
    now = datetime.now(UTC)
    authority = new_authority("test", now, 2)
    signed = signed_by(authority, "console", ["127.0.0.1"], now, 2)
    for name, text in (("certificate", signed.certificate), ("key", signed.key), ("authority", authority.certificate)):
        (tmp_path / name).write_text(text)
    (tmp_path / "key").chmod(0o600)
    return ConsoleSettings(
        bootstrap_servers=cluster.bootstrap_servers,
        client=QUICK,
        port=0,
        users={"ada": Secret(hashed("lovelace"))},
        certificate=tmp_path / "certificate",
        key=tmp_path / "key",
    )


async def test_tls_of_its_own(secured: ConsoleSettings, tmp_path: Path) -> None:
    """With it, a cookie goes by https alone, pages in the clear are others', and who does not speak it is left."""
    context = ssl.create_default_context(cafile=str(tmp_path / "authority"))
    async with (
        ConsoleServer(secured, sample_s=0) as server,
        ClientSession(connector=TCPConnector(ssl=context)) as client,
    ):
        assert server.url.startswith("https://127.0.0.1:")
        browser = Browser(server.url, client)
        token = {TOKEN: (await browser.get("/api/session"))["token"]}
        ada = {"user": "ada", "password": "lovelace"}
        for scheme, status in (("http", 403), ("https", 200)):
            origin = {"Origin": server.url.replace("https", scheme)}
            async with client.post(f"{server.url}/api/login", json=ada, headers=token | origin) as answer:
                assert answer.status == status
                assert ("Secure" in answer.headers.get("Set-Cookie", "")) == (status == 200)
        reader, writer = await asyncio.open_connection(*server.url.removeprefix("https://").split(":"))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in await reader.read()
        writer.close()


async def test_a_handshake_is_a_connection(secured: ConsoleSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.serving.server.MAX_CONNECTIONS", 2)
    async with ConsoleServer(secured, sample_s=0) as server, asyncio.timeout(10):
        where = server.url.removeprefix("https://").split(":")
        silent = [await asyncio.open_connection(*where) for _ in range(2)]
        one_too_many, _ = await asyncio.open_connection(*where)
        with suppress(ConnectionResetError):
            assert await one_too_many.read() == b""
        for _, writer in silent:
            writer.close()


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
        file = {"topic": "no", "kind": "jsonl", "shape": "values", "text": "1"}
        assert "read-only" in (await browser.post("/api/import", file, 403))["error"]
        assert (await browser.get("/api/session"))["read_only"]
        await browser.get("/api/topics")


async def test_where_there_are_users_nobody_else_is_shown_anything(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.console.audit")
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
        assert '"who": "ada from 127.0.0.1", "outcome": "done", "action": "log-in"' in caplog.text
        assert '"who": "eve from 127.0.0.1", "outcome": "failed", "action": "log-in"' in caplog.text
        async with browser.session.post(
            f"{browser.url}/api/login",
            json={"user": "ada", "password": "lovelace"},
            headers={
                TOKEN: (await browser.get("/api/session"))["token"],
                "Origin": browser.url.replace("http:", "https:"),  # a proxy passes it on in the clear
            },
        ) as answer:
            assert "Secure" in answer.headers["Set-Cookie"]
        for _ in range(6):
            await browser.post("/api/login", {"user": "ada", "password": "guess"}, 401)
        await browser.post("/api/login", {"user": "ada", "password": "lovelace"}, 429)
