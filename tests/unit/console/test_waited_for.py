"""What a page waits for and what it does not, and what the server does with who asks and what it has begun."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.golden.console_cluster import ShownCluster

from penstock.client.settings import ClientSettings
from penstock.client.values import ConsumedRecord
from penstock.console.looks import A_WHILE_S, FRESH_S
from penstock.console.matching import Found
from penstock.console.serving.live import Stream
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings
from penstock.console.views import groups
from penstock.console.watched import LAGS, LARGE_S, WatchedCluster, count_name

WAITING = "delayed-records", "topic-t.waiting"
SETTINGS = ConsoleSettings(bootstrap_servers="127.0.0.1:1", client=ClientSettings(), port=0)


async def test_an_order_of_lags_waits_for_them_and_names_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.looks.PATIENCE_S", 0.0)
    watched, let = ShownCluster().watched, asyncio.Event()
    offsets_of = watched.admin.groups.offsets_of

    async def slowly(names: Any) -> Any:
        await let.wait()
        return await offsets_of(names)

    monkeypatch.setattr(watched.admin.groups, "offsets_of", slowly)
    named = await groups.groups(watched, {})
    assert {row["lag"] for row in named["groups"]} == {None}
    ordered = asyncio.create_task(groups.groups(watched, {"sort": "lag"}))
    for _ in range(9):
        await asyncio.sleep(0)
    assert not ordered.done()
    let.set()
    assert [row["lag"] for row in (await ordered)["groups"]][-1] == "41"


@pytest.mark.parametrize(("slow", "list_s"), [("", FRESH_S), ("topics", LARGE_S), (LAGS, LARGE_S), ("x", FRESH_S)])
def test_lists_of_a_large_cluster_are_good_for_longer(
    monkeypatch: pytest.MonkeyPatch, slow: str, list_s: float
) -> None:
    watched = WatchedCluster("127.0.0.1:1", ClientSettings())
    monkeypatch.setattr(watched.looks, "is_slow", lambda key: key == slow)
    assert watched._list_s == list_s


@pytest.mark.parametrize(("work_s", "took_s", "slow"), [(0.0, 0.0, False), (A_WHILE_S, 0.0, True), (0.0, 1.0, True)])
async def test_what_is_slow(work_s: float, took_s: float, slow: bool) -> None:
    watched = ShownCluster().watched
    now = [0.0, 0.0]
    looks = type(watched.looks)(lambda: now[0], lambda: now[1])

    async def look() -> None:
        now[0] += took_s
        now[1] += work_s

    assert not looks.is_slow("a")
    await looks.at("a", look)
    assert looks.is_slow("a") is slow


@pytest.mark.parametrize(
    ("told", "waiting"),
    [
        ({}, None),
        ({1: None, 2: {}}, None),
        ({1: {WAITING: "0"}}, 0),
        (
            {
                1: {WAITING: "3"},
                2: None,
                3: {WAITING: "4"},
            },
            7,
        ),
        ({1: {("delayed-records", "topic-u.waiting"): "3"}}, None),
    ],
    ids=range(5),
)
async def test_records_that_wait(monkeypatch: pytest.MonkeyPatch, told: Any, waiting: int | None) -> None:
    watched = WatchedCluster("127.0.0.1:1", ClientSettings())

    async def metrics() -> Any:
        return told

    monkeypatch.setattr(watched, "_metrics", metrics)
    assert await watched.waiting("t") == waiting


async def test_counts_of_brokers_are_remembered_by_their_names() -> None:
    watched = ShownCluster().watched
    await watched.metrics()
    assert {name: watched.counts.of(name)[1] for name in ("records in of 1", "bytes out of 1", "records in of 2")} == {
        count_name("records in", 1): [10.0],
        count_name("bytes out", 1): [70.0],
        count_name("records in", 2): [5.0],
    }
    assert watched.counts.of("bytes in of 1")[1] == [None]


async def test_a_stream_tells_each_path_once() -> None:
    stream = Stream()
    for path in ("a", "b", "a"):
        stream.tell(path)
    assert await stream.next(0) == ["a", "b"]
    stream.tell("c")
    assert await stream.next(0) == ["c"]
    assert await stream.next(0) == []


async def test_a_log_in_counts_for_its_address_and_ends_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    async def log_in(*who: str) -> str:
        tried.append(who)
        return "cookie"

    async with ConsoleServer(SETTINGS, 0.0) as server, ClientSession() as session:
        monkeypatch.setattr(server._guard, "log_in", log_in)
        monkeypatch.setattr(server._guard, "log_out", lambda _: tried.append("out"))
        headers = {"X-Penstock-Token": server._guard.token}
        for path, asked in (("login", {"user": "ada", "password": "x"}), ("logout", {})):
            async with session.post(f"{server.url}/api/{path}", json=asked, headers=headers) as answer:
                assert answer.status == 200
    assert tried == [("ada", "x", "127.0.0.1"), "out", "out"]


@pytest.mark.parametrize(("part", "text"), [("value", "decoded"), ("key", "k")])
async def test_a_value_is_shown_as_a_schema_made_it(monkeypatch: pytest.MonkeyPatch, part: str, text: str) -> None:
    asked: list[Any] = []

    async def one(*where: Any) -> Found:
        asked.append(where)
        return Found(ConsumedRecord("t", 0, 7, 0, b"k", b"v"), None, {"text": "decoded"})

    async with ConsoleServer(SETTINGS, 0.0) as server, ClientSession() as session:
        monkeypatch.setattr(server._reading._records, "one", one)
        async with session.get(f"{server.url}/api/value?topic=t&partition=3&offset=7&part={part}") as answer:
            assert (await answer.json())["text"] == text
    assert asked == [("t", 3, 7, 1024 * 1024)]


async def test_a_server_that_stops_has_stopped_all_that_it_began() -> None:
    async with ConsoleServer(SETTINGS, 0.0) as server:
        host, _, port = server.url.partition("//")[2].partition(":")
        assert host == "127.0.0.1"
        tasks = list(server._tasks)
        assert [task.get_name() for task in tasks] == ["live views", "samples"]
    assert all(task.cancelled() for task in tasks)
    assert server._runner is not None
    assert server._runner.server is None
    with pytest.raises(OSError, match=r"\w"):
        await asyncio.open_connection(host, int(port))
    with pytest.raises(RuntimeError):
        server._schemas._threads.submit(int)


async def test_one_connection_too_many_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.serving.server.MAX_CONNECTIONS", 2)
    async with ConsoleServer(SETTINGS, 0.0) as server:
        host, _, port = server.url.partition("//")[2].partition(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        for reader, writer in opened[:2]:
            writer.write(b"GET /api/session HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        with suppress(ConnectionError):
            assert await opened[2][0].read() == b""
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (TimeoutError(), 502, "the cluster has not answered in time"),
        (TimeoutError("late"), 502, "late"),
        (ZeroDivisionError("x"), 500, "ZeroDivisionError: a fault of the console, see its log"),
    ],
)
async def test_what_fails_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, words: str) -> None:
    async with ConsoleServer(SETTINGS, 0.0) as server, ClientSession() as session:

        async def fails(*_: Any) -> None:
            raise error

        monkeypatch.setattr(server, "_schemas", SimpleNamespace(subjects=fails, close=server._schemas.close))
        async with session.get(f"{server.url}/api/subjects") as answer:
            assert (answer.status, await answer.json()) == (status, {"error": words})
