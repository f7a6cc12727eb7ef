"""What a client of a cluster remembers does not grow with all that ever was: coordinators, topics and connections."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client import known_coordinators
from penstock.client.cluster import ClusterClient, _Purpose
from penstock.client.known_coordinators import KnownCoordinators
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

HOME = Address("home", 9)
SETTINGS = ClientSettings(metadata_max_age_ms=10_000, metadata_max_idle_ms=20_000)


class Broker:
    """Nodes 1 and 2, topics with one partition that are not among those that are gone, and coordinators at node 1."""

    def __init__(self) -> None:
        self.topics, self.nodes = ["a", "b", "c"], [1, 2]
        self.refused: set[str] = set()
        self.closed, self.address, self.in_flight = False, HOME, 0
        self.asked = 0

    def version_for(self, key: object) -> int:
        return 4

    def serves(self, key: object) -> bool:
        return True

    async def request(self, message: Any, answer: object) -> Any:
        self.asked += 1
        if isinstance(message, FindCoordinatorRequest):
            rows = [
                Coordinator(key=key, node_id=1, error_code=15 * (key in self.refused))
                for key in message.coordinator_keys
            ]
            return FindCoordinatorResponse(coordinators=rows)
        names = self.topics if message.topics is None else [one.name for one in message.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node, host="h", port=node) for node in self.nodes],
            topics=[self._row(name) for name in names],
        )

    def _row(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)])


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.broker = 0.0, Broker()
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now_s)
        self.cluster = ClusterClient([HOME], SETTINGS)
        self.cluster._seed = self.broker  # type: ignore[assignment]

    async def looks(self, at_s: float, topics: list[str] | None) -> list[str]:
        """The topics that are known then."""
        self.now_s = at_s
        return sorted((await self.cluster.refresh(topics)).topics)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_a_topic_of_no_use_is_forgotten(world: World) -> None:
    """Who had used it until 20 s ago would have looked at it again since 30 s ago."""
    await world.looks(0, ["a", "b"])
    assert await world.looks(10, ["a"]) == ["a", "b"]
    assert await world.looks(30, ["c"]) == ["a", "b", "c"]
    assert await world.looks(31, []) == ["a", "c"]
    assert world.cluster.old_at_s(["b"]) == float("-inf"), "nothing is known of it at all"
    assert await world.looks(41, []) == ["c"]


async def test_all_topics_are_known_as_long_as_somebody_wants_them_all(world: World) -> None:
    await world.looks(0, None)
    await world.looks(5, ["a"])
    assert await world.looks(30, []) == ["a", "b", "c"]
    assert await world.looks(31, []) == ["a"]


async def test_of_a_topic_that_is_gone_nothing_stays_behind_the_next_look(world: World) -> None:
    await world.looks(0, ["a", "b"])
    world.broker.topics.remove("a")
    assert await world.looks(1, ["a"]) == ["a", "b"], "who has asked is told"
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: partition a-0"):
        world.cluster.metadata.led(TopicPartition("a", 0))
    assert await world.looks(2, ["b"]) == ["b"]
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: partition a-0"):
        world.cluster.metadata.led(TopicPartition("a", 0))
    assert world.cluster.old_at_s(["a"]) == 11, "it is not asked for all the time"


async def test_links_to_nodes_that_are_gone_are_dropped_when_they_are_closed(world: World) -> None:
    links: Any = world.cluster._links
    for node, is_idle in ((1, True), (2, False), (3, True), (4, False)):
        links[_Purpose(node, coordinator=True)] = SimpleNamespace(is_idle=is_idle, connection=None)
    await world.looks(0, [])
    assert [purpose.node_id for purpose in links] == [1, 2, 4]
    world.broker.nodes = [1]
    links[_Purpose(4, coordinator=True)].is_idle = True
    await world.looks(1, [])
    assert [purpose.node_id for purpose in links] == [1, 2]


def test_so_many_coordinators_are_known_and_long_names_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_coordinators, "MOST_COORDINATORS", 3)
    monkeypatch.setattr(known_coordinators, "MOST_CHARACTERS", 10)
    known = KnownCoordinators[int]()
    for number, name in enumerate(("a", "b", "a", "c", "d")):
        known[0, name] = number
    assert known == {(0, "a"): 2, (0, "c"): 3, (0, "d"): 4}, "what was told last stays"
    known[0, "8 of them"[:8]] = 5
    assert known == {(0, "c"): 3, (0, "d"): 4, (0, "8 of the"): 5}
    known[1, "two"] = 6
    assert known == {(1, "two"): 6}
    known.clear()
    known[0, "ten of them"[:10]] = 7
    assert len(known) == 1, "what was forgotten does not count"


async def test_the_coordinators_of_more_than_are_remembered_are_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_coordinators, "MOST_COORDINATORS", 3)
    await world.looks(0, [])
    keys = [f"g{number}" for number in range(10)]
    assert await world.cluster.coordinators(keys) == dict.fromkeys(keys, 1)
    assert list(world.cluster._coordinators) == [(0, key) for key in keys[-3:]]


async def test_who_has_no_coordinator_any_more_is_forgotten(world: World) -> None:
    await world.looks(0, [])
    for key in ("g", "h"):
        world.cluster._coordinators[0, key] = 9
    world.broker.refused, world.broker.nodes = {"g", "h"}, [1, 9]
    with pytest.raises(KafkaError):
        await world.cluster.coordinator("h")
    assert await world.cluster.coordinators(["g"]) == {}
    assert not world.cluster._coordinators
