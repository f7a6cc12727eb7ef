"""Where it takes long to hear of all topics, the first ones are shown, and what is counted is not said yet."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from penstock.client.admin import BrokerDescription, ClusterDescription
from penstock.client.errors import UnsupportedByBrokerError
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.console.views.cluster import overview
from penstock.console.views.topics import topics
from penstock.console.watched import WatchedCluster
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode

NAMES = ("clicks", "orders", "views")


def named(*names: str) -> list[TopicMetadata]:
    return [
        TopicMetadata(
            name,
            UUID(int=1),
            False,
            ErrorCode.NONE,
            {
                index: PartitionMetadata(name, index, 1 + index, 5, [1, 2], [1, 2], [], ErrorCode.NONE)
                for index in (0, 1)
            },
        )
        for name in names
    ]


class Brokers:
    """Tell of the first topic at once, and of all when they are let."""

    def __init__(self, first: Any) -> None:
        self.let = asyncio.Event()
        self._first = first

    async def first(self, _: int) -> tuple[list[TopicMetadata], bool]:
        if isinstance(self._first, Exception):
            raise self._first
        return named(*self._first), len(self._first) == len(NAMES)

    async def all(self) -> dict[str, TopicMetadata]:
        await self.let.wait()
        return {topic.name: topic for topic in named(*NAMES)}

    async def none(self, *_: Any) -> Any:
        return []


def watched_by(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> WatchedCluster:
    watched = WatchedCluster("127.0.0.1:1", ClientSettings())
    monkeypatch.setattr("penstock.console.looks.PATIENCE_S", 0.0)
    monkeypatch.setattr(watched.admin.topics, "first", brokers.first)
    monkeypatch.setattr(watched, "_topics", brokers.all)
    monkeypatch.setattr(watched, "log_dirs_soon", brokers.none)
    return watched


def shown(found: dict[str, Any]) -> tuple[int | None, list[str]]:
    return found["total"], [row["name"] for row in found["topics"]]


async def test_the_first_topics_do_not_wait_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(["clicks"])
    watched = watched_by(brokers, monkeypatch)
    assert shown(await topics(watched, {})) == (None, ["clicks"])
    searched = asyncio.create_task(topics(watched, {"q": "s", "sort": "partitions"}))
    await asyncio.sleep(0)
    assert not searched.done()
    brokers.let.set()
    assert shown(await searched) == (3, list(NAMES))
    assert shown(await topics(watched, {})) == (3, list(NAMES))


@pytest.mark.parametrize("query", [{"q": "s"}, {"sort": "partitions"}, {"sort": "bytes"}, {"from": "1"}, {"desc": "1"}])
async def test_who_searches_or_wants_another_order_waits_for_all(
    monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    brokers = Brokers(["clicks"])
    watched = watched_by(brokers, monkeypatch)
    monkeypatch.setattr(watched, "log_dirs", brokers.none)
    searched = asyncio.create_task(topics(watched, query))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not searched.done()
    brokers.let.set()
    assert (await searched)["total"] == 3


async def test_where_the_first_ones_are_all_internal_all_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(["clicks"])
    watched = watched_by(brokers, monkeypatch)

    async def internal(_: int) -> tuple[list[TopicMetadata], bool]:
        return [named("__offsets")[0].replace(is_internal=True)], False

    monkeypatch.setattr(watched.admin.topics, "first", internal)
    shows = asyncio.create_task(topics(watched, {}))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not shows.done()
    brokers.let.set()
    assert shown(await shows) == (3, list(NAMES))


@pytest.mark.parametrize("first", [NAMES, UnsupportedByBrokerError("a broker of long ago")])
async def test_where_the_first_ones_are_all_or_cannot_be_had(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(first)
    brokers.let.set()
    assert shown(await topics(watched_by(brokers, monkeypatch), {})) == (3, list(NAMES))


async def test_the_overview_says_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(["clicks"])
    watched = watched_by(brokers, monkeypatch)

    async def described() -> ClusterDescription:
        return ClusterDescription("c", 1, [BrokerDescription(1, Address("h", 1), None, is_fenced=False)])

    async def metrics() -> dict[int, Any]:
        return {}

    monkeypatch.setattr(watched, "brokers", described)
    monkeypatch.setattr(watched, "metrics", metrics)
    for name in ("groups", "quorum"):
        monkeypatch.setattr(watched, name, brokers.none)
    monkeypatch.setattr("penstock.console.views.cluster._controller", brokers.none)
    found = await overview(watched, {})
    assert (found["topics"], found["partitions"], found["problems"]["offline"]["count"]) == (None, None, None)
    assert (found["brokers"][0]["leads"], found["brokers"][0]["holds"]) == (None, None)
    brokers.let.set()
    await watched.topics()
    found = await overview(watched, {})
    assert (found["topics"], found["partitions"]) == (3, 6)
    assert (found["brokers"][0]["leads"], found["brokers"][0]["holds"]) == (3, 6)
