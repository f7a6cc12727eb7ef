"""What a page hears of, when a view is made again, and that streams of who has gone are forgotten."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.stand_in import stand_in

from penstock.client.settings import ClientSettings
from penstock.console.errors import ConsoleError
from penstock.console.looks import Looks
from penstock.console.query import Query
from penstock.console.serving import live, sampling, streaming
from penstock.console.serving.live import ALIVE_S, MAX_ALIVE, PAUSE_S, REMADE_S, Live
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings, is_address, is_loopback
from penstock.console.watched import WatchedCluster
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.secret import Secret


class Views:
    """`a` shows a figure; it may fail. All is on a clock of the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.figure, self.made = 0.0, 1, list[str]()
        self.error: Exception | None = None
        self.watched = WatchedCluster("127.0.0.1:1", ClientSettings())
        self.watched.looks = Looks(lambda: self.now_s, lambda: 0.0)
        self.live = Live(self.watched, {"a": self.view, "b": self.view})
        monkeypatch.setattr(live, "time", stand_in(time, monotonic=lambda: self.now_s))

    async def view(self, watched: WatchedCluster, query: Query) -> dict[str, Any]:
        self.made.append(query.get("n", ""))
        if self.error is not None:
            raise self.error
        return {"figure": await watched.looks.at("figure", self.look, 1.0), **query}

    async def look(self) -> int:
        return self.figure

    async def ask(self, number: int) -> live.Body:
        return await self.live.ask(f"/a?n={number}", "a", {"n": str(number)})


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Views:
    return Views(monkeypatch)


async def test_who_asks_again_is_last_in_the_order(views: Views) -> None:
    for number in (0, 1, 0):
        await views.ask(number)
    assert list(views.live._alive) == ["/a?n=1", "/a?n=0"]


async def test_who_asked_longest_ago_is_forgotten_first(views: Views) -> None:
    for number in range(MAX_ALIVE):
        await views.ask(number)
    await views.ask(0)
    await views.ask(MAX_ALIVE)
    assert list(views.live._alive) == [f"/a?n={n}" for n in (*range(2, MAX_ALIVE), 0, MAX_ALIVE)]


async def test_a_view_lives_for_so_long_and_is_made_so_often(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    views.live.open()
    await views.ask(1)
    views.made.clear()
    await views.live._look()
    assert views.made == [], "nothing of it is to be looked at anew"
    views.now_s = 1.0
    await views.live._look()
    assert views.made == ["1"], "its look is over"
    monkeypatch.setattr(views.watched.looks, "are_good", lambda _: True)
    views.now_s = 1.0 + REMADE_S - 0.01
    await views.live._look()
    assert views.made == ["1"]
    views.now_s = 1.0 + REMADE_S
    await views.live._look()
    assert views.made == ["1"] * 2
    views.now_s = ALIVE_S
    await views.live._look()
    assert views.made == ["1"] * 3
    views.now_s = ALIVE_S + 0.01
    await views.live._look()
    assert (views.made, views.live._alive) == (["1"] * 3, {})


async def test_every_stream_hears_of_each_change_once(views: Views) -> None:
    first, second = views.live.open(), views.live.open()
    for number in (1, 2):
        await views.ask(number)
    views.live.tell_all()
    assert [await one.next(0) for one in (first, second)] == [["/a?n=1", "/a?n=2"]] * 2
    views.figure, views.now_s = 2, 1.0
    await views.live._look()
    assert await first.next(0) == ["/a?n=1", "/a?n=2"]
    views.now_s = 2.0
    await views.live._look()
    assert await first.next(0) == []
    assert await second.next(0) == ["/a?n=1", "/a?n=2"]
    assert views.live.is_watched
    for one in (first, second, second):
        views.live.close(one)
    assert not views.live.is_watched


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER, "nobody"), b'{"error":"NOT_CONTROLLER: nobody"}'),
        (TimeoutError(), b'{"error":"the cluster has not answered in time"}'),
        (ConsoleError(HTTPStatus.BAD_GATEWAY, "no worker"), b'{"error":"no worker"}'),
        (ConsoleError(HTTPStatus.INTERNAL_SERVER_ERROR, "x"), b'{"error":"x"}'),
    ],
)
async def test_what_is_not_answered_elsewhere_is_said_in_the_body(views: Views, error: Exception, body: bytes) -> None:
    views.error = error
    found = await views.ask(1)
    assert (found.data, found.is_known) == (body, False)


async def test_a_wrong_question_is_the_one_of_who_asks(views: Views) -> None:
    stream = views.live.open()
    views.error = ConsoleError(HTTPStatus.NOT_FOUND, "no such thing")
    with pytest.raises(ConsoleError):
        await views.ask(1)
    assert views.live._alive == {}
    views.error = None
    before = await views.ask(1)
    assert (before.data, before.is_known, len(before.tag)) == (b'{"figure":1,"n":"1"}', True, 24)
    views.error, views.now_s = ConsoleError(HTTPStatus.BAD_REQUEST, "gone"), 5.0
    await views.live._look()
    assert await stream.next(0) == []


async def test_a_view_that_was_forgotten_meanwhile_is_told_nobody(views: Views) -> None:
    stream = views.live.open()
    await views.ask(1)
    make = views.live._make

    async def forget(name: str, query: Query) -> live.Body:
        body = await make(name, query)
        views.live._alive.clear()
        return body

    views.live._make = forget  # type: ignore[method-assign]
    views.figure, views.now_s = 2, 1.0
    await views.live._look()
    assert (await stream.next(0), views.live._alive) == ([], {})


async def test_views_are_looked_at_now_and_then_while_a_stream_is_open(
    views: Views, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    looks: list[bool] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            views.live.open()
        if len(pauses) == 5:
            raise asyncio.CancelledError

    async def look() -> None:
        looks.append(views.live.is_watched)
        raise ValueError("a fault")

    monkeypatch.setattr(live, "asyncio", stand_in(asyncio, sleep=sleep))
    monkeypatch.setattr(views.live, "_look", look)
    with pytest.raises(asyncio.CancelledError):
        await views.live.run()
    assert (pauses, looks) == ([PAUSE_S] * 5, [True] * 3)
    assert [one.getMessage() for one in caplog.records] == ["a view cannot be made"] * 3


@pytest.mark.parametrize(
    ("unwatched_s", "watched", "asked"),
    [
        (0.0, [False, True, False, True], ["", "m l", "", "m l"]),
        (60.0, [False, False, True, False], ["f t m l", "", "m l", ""]),
        (10.0, [False, False, False, False], ["f t m l", "", "m l", ""]),
        (5.0, [False, False, False, False], ["f t m l", "m l", "m l", "m l"]),
    ],
)
async def test_figures_are_sampled_seldom_while_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, unwatched_s: float, watched: list[bool], asked: list[str]
) -> None:
    rounds: list[list[str]] = [[]]

    def noted(name: str) -> Any:
        async def look() -> None:
            rounds[-1].append(name)
            if name == "t":
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            if name == "m":
                raise ValueError

        return look

    async def sleep(seconds: float) -> None:
        assert seconds == 5.0
        rounds.append([])
        if len(rounds) > len(watched):
            raise asyncio.CancelledError

    monkeypatch.setattr(sampling, "asyncio", stand_in(asyncio, sleep=sleep))
    monkeypatch.setattr(sampling, "time", stand_in(time, monotonic=lambda: 5.0 * (len(rounds) - 1)))
    of_all: Any = type("Watched", (), {name: noted(name[0]) for name in ("first_topics", "topics", "metrics", "lags")})
    pages: Any = type("Pages", (), {"is_watched": property(lambda _: watched[len(rounds) - 1])})()
    for name in ("first_topics", "topics", "metrics", "lags"):
        setattr(of_all, name, staticmethod(getattr(of_all, name)))
    with pytest.raises(asyncio.CancelledError):
        await sampling.keep_sampling(of_all, pages, unwatched_s)
    assert [" ".join(one) for one in rounds[:-1]] == asked


async def test_a_browser_hears_until_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "QUIET_S", 0.001)
    settings = ConsoleSettings(bootstrap_servers="127.0.0.1:1", client=ClientSettings(), port=0)
    async with ConsoleServer(settings, 0.0) as server, ClientSession() as session:
        async with session.get(f"{server.url}/api/events") as answer:
            assert answer.content_type == "text/event-stream"
            lines = [await answer.content.readuntil(b"\n\n") for _ in range(2)]
            server._live._alive["/api/x"] = server._live._alive["/api/y"] = live.Alive("x", {}, 0.0, "", {}, 0.0)
            monkeypatch.setattr(streaming, "QUIET_S", 60.0)
            server._live.tell_all()
            while lines[-1] == b": quiet\n\n":
                lines.append(await answer.content.readuntil(b"\n\n"))
            assert (lines[0], lines[1], lines[-1]) == (
                b"retry: 1000\n\n",
                b": quiet\n\n",
                b'data: ["/api/x", "/api/y"]\n\n',
            )
            assert len(server._live._streams) == 1
        async with asyncio.timeout(20):
            while server._live._streams:
                server._live.tell_all()
                await asyncio.sleep(0)


async def test_who_logs_out_hears_no_more() -> None:
    users = {"ada": Secret("lovelace")}
    settings = ConsoleSettings(bootstrap_servers="127.0.0.1:1", client=ClientSettings(), port=0, users=users)
    async with ConsoleServer(settings, 0.0) as server, ClientSession() as session:
        cookie = await server._guard.log_in("ada", "lovelace", "here")
        headers = {"Cookie": f"penstock-console={cookie}"}
        async with session.get(f"{server.url}/api/events", headers=headers) as answer:
            await answer.content.readuntil(b"\n\n")
            server._guard._sessions.clear()
            server._live._alive["/api/x"] = live.Alive("x", {}, 0.0, "", {}, 0.0)
            server._live.tell_all()
            assert await answer.content.read() == b'data: ["/api/x"]\n\n'
        assert server._live._streams == {}


@pytest.mark.parametrize(
    ("host", "loops", "is_one"),
    [
        ("localhost", True, False),
        ("127.0.0.1", True, True),
        ("127.9.9.9", True, True),
        ("::1", True, True),
        ("192.0.2.1", False, True),
        ("::", False, True),
        ("a.b", False, False),
        ("", False, False),
    ],
)
def test_addresses(host: str, loops: bool, is_one: bool) -> None:
    assert (is_loopback(host), is_address(host)) == (loops, is_one)
