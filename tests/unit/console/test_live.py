"""A stream costs the same however slow its reader is, and pages hear of changes alone."""

from typing import Any

import pytest

from penstock.client.settings import ClientSettings
from penstock.console.errors import ConsoleError
from penstock.console.looks import Looks
from penstock.console.query import Query
from penstock.console.serving import live
from penstock.console.serving.live import MAX_ALIVE, MAX_STREAMS, Live, Stream
from penstock.console.watched import WatchedCluster
from penstock.protocol.errors import ErrorCode, KafkaError


class Figures:
    def __init__(self) -> None:
        self.value = 1
        self.asked = 0

    async def view(self, _: WatchedCluster, query: Query) -> dict[str, Any]:
        self.asked += 1
        if self.value < 0:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody is active")
        return {"value": self.value, **query}


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def pages(figures: Figures) -> Live:
    return Live(WatchedCluster("127.0.0.1:1", ClientSettings()), {"figures": figures.view})


async def test_a_page_hears_of_what_has_changed_and_of_nothing_else(pages: Live, figures: Figures) -> None:
    stream = pages.open()
    body = await pages.ask("/api/figures", "figures", {})
    assert body.data == b'{"value":1}'
    await pages._look()
    assert await stream.next(0) == []
    figures.value = 2
    await pages._look()
    await pages._look()
    assert await stream.next(0) == ["/api/figures"]
    assert await stream.next(0) == []


async def test_a_cluster_that_does_not_answer_is_a_change_too(pages: Live, figures: Figures) -> None:
    stream = pages.open()
    await pages.ask("/api/figures", "figures", {})
    figures.value = -1
    await pages._look()
    assert await stream.next(0) == ["/api/figures"]
    body = await pages.ask("/api/figures", "figures", {})
    assert (body.is_known, body.data) == (False, b'{"error":"NOT_CONTROLLER: nobody is active"}')


async def test_a_view_that_nobody_has_asked_for_is_not_made(
    pages: Live, figures: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.open()
    await pages.ask("/api/figures", "figures", {})
    monkeypatch.setattr(live, "ALIVE_S", -1.0)
    await pages.ask("/api/figures", "figures", {})
    figures.asked = 0
    await pages._look()
    assert figures.asked == 0


async def test_a_reader_that_takes_nothing_costs_nothing(pages: Live) -> None:
    stream = Stream()
    for number in range(100_000):
        stream.tell(f"/api/{number % 7}")
    assert len(stream.due) == 7


async def test_views_and_streams_are_limited(pages: Live) -> None:
    for number in range(MAX_ALIVE + 10):
        await pages.ask(f"/api/figures?{number}", "figures", {"number": str(number)})
    assert len(pages._alive) == MAX_ALIVE
    streams = [pages.open() for _ in range(MAX_STREAMS)]
    with pytest.raises(ConsoleError, match="close some"):
        pages.open()
    pages.close(streams[0])
    pages.open()


async def test_a_view_is_made_again_when_a_look_of_it_is_over_or_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, made, now_s = WatchedCluster("127.0.0.1:1", ClientSettings()), 0, 0.0
    watched.looks = Looks(lambda: now_s, lambda: now_s)

    async def figure() -> int:
        return 1

    async def view(_: WatchedCluster, __: Query) -> dict[str, Any]:
        nonlocal made
        made += 1
        return {"figure": await watched.looks.at("figure", figure, 50)}

    pages = Live(watched, {"view": view})
    await pages.ask("/api/view", "view", {})
    await pages._look()
    assert made == 1
    now_s = 50
    await pages._look()
    await pages._look()
    assert made == 2
    monkeypatch.setattr(live, "REMADE_S", 0.0)
    await pages._look()
    assert made == 3
