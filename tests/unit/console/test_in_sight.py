"""Of a large cluster what is in sight is as it is now, by few questions; the rest is looked at rarely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.client.admin import Admin, LogDirDescription, ReplicaSize
from penstock.client.admin.groups import SHARE, GroupListing
from penstock.client.admin.share_groups import SharePosition
from penstock.client.errors import UnsupportedByBrokerError
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.console.looks import A_WHILE_S, FRESH_S, Looks
from penstock.console.views.groups import groups
from penstock.console.views.topics import consumers, topics
from penstock.console.watched import LARGE_S, OLD_S, WatchedCluster
from penstock.protocol.errors import ErrorCode, KafkaError

GROUPS = [f"g{number}" for number in range(6)]
SHARED = ["shared", "shared-too"]


def named(name: str, isr: list[int], epoch: int = 5) -> TopicMetadata:
    rows = {n: PartitionMetadata(name, n, 1, epoch, [1, 2], isr, [], ErrorCode.NONE) for n in (0, 1)}
    return TopicMetadata(name, UUID(int=1), False, ErrorCode.NONE, rows)


class Brokers:
    """Group `gN` reads `tN` of two partitions. A look at all takes so long, on the clock that the test has."""

    def __init__(self, takes_s: float) -> None:
        self.now_s, self.takes_s, self.end, self.isr = 0.0, takes_s, 10, [1, 2]
        self.asked: list[tuple[str, int]] = []
        self.sized: list[list[str] | None] = []
        self.shared: list[list[str]] = []
        self.without_pages = False
        self.refused: dict[str, KafkaError] = {}
        self.endless: dict[TopicPartition, KafkaError] = {}
        self.watched = WatchedCluster("127.0.0.1:1", ClientSettings())
        self.watched.looks = Looks(lambda: self.now_s, lambda: self.now_s)
        parts = {
            "groups": SimpleNamespace(listings=self.listings, offsets_of=self.offsets_of),
            "share_groups": SimpleNamespace(offsets_of=self.share_offsets_of),
            "topics": SimpleNamespace(pages=self.pages, first=self.first),
            "cluster": SimpleNamespace(retrying=self.retrying, refresh=self.refresh),
            "offsets_that_can_be_had": self.ends,
            "describe_log_dirs": self.log_dirs,
            "describe_cluster": self.brokers,
        }
        self.watched.admin = self.watched._of_all = cast("Admin", SimpleNamespace(**parts))

    def _take(self, what: str, count: int) -> None:
        self.asked += [(what, count)] if count else []
        if count >= len(GROUPS):
            self.now_s += self.takes_s

    async def listings(self) -> list[GroupListing]:
        self.asked.append(("groups", len(GROUPS)))
        return [GroupListing(name, "consumer", "Empty", "classic") for name in GROUPS] + [
            GroupListing(name, SHARE, "Empty", SHARE) for name in SHARED
        ]

    async def offsets_of(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        self._take("offsets", len(names))
        found = {
            name: {TopicPartition(f"t{name[1:]}", n): OffsetAndMetadata(3 - int(name[1:]) % 2) for n in (0, 1)}
            for name in names
            if name not in self.refused
        }
        return found, {name: error for name, error in self.refused.items() if name in names}

    async def share_offsets_of(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        self.shared += [list(names)] if names else []
        return {name: {TopicPartition("t0", 0): SharePosition(1, 0, 2)} for name in names}, {}

    async def ends(self, asked: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, Any], dict[Any, Any]]:
        self.asked.append(("ends", len(asked)))
        failures = {one: error for one, error in self.endless.items() if one in asked}
        return {one: SimpleNamespace(offset=self.end) for one in asked if one not in failures}, failures

    async def pages(self, _: int) -> Any:
        if self.without_pages:
            raise UnsupportedByBrokerError("of long ago")
        for number in range(6):
            yield [named(f"t{number}", [1, 2])]
        self._take("topics", 6)

    async def first(self, _: int) -> Any:
        raise UnsupportedByBrokerError("of long ago")

    async def refresh(self, names: Sequence[str] | None = None) -> Any:
        self._take("topics", 6 if names is None else len(names))
        shown = GROUPS if names is None else names
        return SimpleNamespace(topics={f"t{one[1:]}": named(f"t{one[1:]}", self.isr) for one in shown})

    async def retrying(self, attempt: Any) -> Any:
        return await attempt()

    async def log_dirs(
        self, _: Any, topics: Mapping[str, Any] | None, *, with_compaction: bool
    ) -> list[LogDirDescription]:
        assert not with_compaction
        self.sized.append(None if topics is None else list(topics))
        sizes = {TopicPartition(name, 0): ReplicaSize(7, 0, is_future=False) for name in topics or ("t0",)}
        return [LogDirDescription(1, "/d", ErrorCode.NONE, 9, 9, sizes)]

    async def brokers(self, **_: Any) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=1, is_fenced=False)])

    async def lags(self, **query: str) -> dict[str, str | None]:
        return {row["name"]: row["lag"] for row in (await groups(self.watched, query))["groups"]}

    async def told(self, **query: str) -> dict[str, tuple[str | None, int | None, str | None]]:
        """Lag, since when where that is long ago, and why."""
        rows = (await groups(self.watched, query))["groups"]
        return {row["name"]: (row["lag"], row["lag_was_so"], row["lag_why"]) for row in rows}


async def test_lag_in_sight_is_that_of_now_where_it_takes_a_while_to_look_at_all() -> None:
    brokers = Brokers(A_WHILE_S)
    await brokers.watched.lags()
    assert brokers.asked == [("groups", 6), ("offsets", 6), ("ends", 12)]
    brokers.asked.clear()
    brokers.end = 11
    assert await brokers.lags(limit="2", **{"from": "1"}) == {"g1": "18", "g2": "16"}
    assert brokers.asked == [("offsets", 2), ("ends", 4)]
    assert await brokers.lags(sort="lag", desc="1", limit="2") == {"g5": "18", "g3": "18"}
    shared = dict.fromkeys(SHARED, "2")
    assert await brokers.lags(limit="9") | shared == await brokers.lags(sort="lag")
    assert brokers.shared == [SHARED] * 3, "all of them are asked for in one round"


async def test_where_all_is_looked_at_quickly_nothing_is_asked_twice() -> None:
    brokers = Brokers(0.0)
    assert await brokers.lags(limit="2") == {"g0": "14", "g1": "16"}
    brokers.end = 11
    assert await brokers.lags(limit="2") == {"g0": "14", "g1": "16"}
    assert brokers.asked == [("groups", 6), ("offsets", 6), ("ends", 12)]
    brokers.now_s += FRESH_S
    assert await brokers.lags(limit="2") == {"g0": "16", "g1": "18"}


async def test_ends_of_very_many_partitions_are_asked_a_part_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.watched.PARTITIONS_AT_ONCE", 5)
    brokers = Brokers(0.0)
    lags = await brokers.watched.lags()
    assert [count for what, count in brokers.asked if what == "ends"] == [5, 5, 2]
    assert sum(map(len, lags.lags.values())) == 14


async def test_a_lag_that_is_not_told_now_says_since_when_it_is_known_and_why() -> None:
    brokers = Brokers(2 * A_WHILE_S)
    brokers.watched.epoch_s = 1000.0
    brokers.now_s = 7.0
    await brokers.watched.lags()
    brokers.refused = {"g1": KafkaError(ErrorCode.NOT_COORDINATOR, "moved")}
    brokers.now_s += 1
    assert await brokers.told(limit="2") == {"g0": ("14", None, None), "g1": ("16", None, "NOT_COORDINATOR: moved")}
    brokers.now_s += OLD_S
    brokers.end = 11
    found = await brokers.told(limit="2")
    assert found == {"g0": ("16", None, None), "g1": ("16", 1007_000, "NOT_COORDINATOR: moved")}


async def test_where_nothing_is_known_of_a_lag_it_says_why() -> None:
    brokers = Brokers(0.0)
    brokers.refused = {"g1": KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)}
    assert (await brokers.told(limit="2"))["g1"] == (None, None, "GROUP_AUTHORIZATION_FAILED")


async def test_a_lag_without_some_of_its_partitions_says_so() -> None:
    brokers = Brokers(0.0)
    brokers.endless = {TopicPartition("t1", n): KafkaError(ErrorCode.LEADER_NOT_AVAILABLE) for n in (0, 1)}
    del brokers.endless[TopicPartition("t1", 1)]
    brokers.endless |= {TopicPartition("t2", n): KafkaError(ErrorCode.LEADER_NOT_AVAILABLE) for n in (0, 1)}
    found = await brokers.told(limit="3")
    assert found["g1"] == ("8", None, "1 of 2 partitions do not count: LEADER_NOT_AVAILABLE")
    assert found["g2"] == (None, None, "2 of 2 partitions do not count: LEADER_NOT_AVAILABLE")


async def test_an_order_that_was_so_long_ago_says_when() -> None:
    brokers = Brokers(1.0)
    brokers.watched.epoch_s = 1000.0
    views = {
        (groups, "name"): None,
        (groups, "lag"): 1000_000,
        (topics, "name"): None,
        (topics, "partitions"): 1000_000,
    }
    for (view, sort), was_so in views.items():
        brokers.watched.looks, brokers.now_s = Looks(lambda: brokers.now_s, lambda: brokers.now_s), 0.0
        assert (await view(brokers.watched, {"sort": sort}))["order_was_so"] is None
        brokers.now_s += OLD_S
        assert (await view(brokers.watched, {"sort": sort}))["order_was_so"] == was_so, sort


async def test_readers_of_a_topic_have_the_lag_of_now() -> None:
    brokers = Brokers(A_WHILE_S)
    assert (await consumers(brokers.watched, {"name": "t1"}))["groups"][0]["lag"] == "16"
    brokers.now_s += LARGE_S
    brokers.end = 11
    brokers.asked.clear()
    assert (await consumers(brokers.watched, {"name": "t1"}))["groups"][0]["lag"] == "18"
    assert ("offsets", 1) in brokers.asked
    assert ("offsets", 6) not in brokers.asked


@pytest.mark.parametrize("without_pages", [False, True])
async def test_topics_in_sight_are_those_of_now(without_pages: bool) -> None:
    brokers = Brokers(A_WHILE_S)
    brokers.without_pages = without_pages
    await brokers.watched.topics()
    brokers.isr = [1]
    query = {"sort": "partitions", "from": "2", "limit": "2"}
    rows = (await topics(brokers.watched, query))["topics"]
    assert [(row["name"], row["under_replicated"]) for row in rows] == [("t2", 2), ("t3", 2)]
    assert brokers.asked == [("topics", 6), ("topics", 2)]
    brokers.now_s += LARGE_S - 0.1
    await topics(brokers.watched, query)
    assert brokers.asked == [("topics", 6), ("topics", 2)]
    brokers.now_s += 0.1
    await topics(brokers.watched, query)
    assert brokers.asked == [("topics", 6), ("topics", 2), ("topics", 2)]


async def test_what_is_known_of_a_later_epoch_stays() -> None:
    brokers = Brokers(0.0)
    brokers.watched._all_topics = {"t1": named("t1", [1], epoch=6)}
    known = await brokers.watched.topics()
    assert [known[name].partitions[0].isr for name in ("t0", "t1")] == [[1, 2], [1]]


async def test_sizes_are_asked_for_of_topics_in_sight_unless_they_are_the_order() -> None:
    brokers = Brokers(0.0)
    rows = (await topics(brokers.watched, {"sort": "partitions", "from": "2", "limit": "2"}))["topics"]
    assert [(row["name"], row["bytes"]) for row in rows] == [("t2", "7"), ("t3", "7")]
    (largest,) = (await topics(brokers.watched, {"sort": "bytes", "desc": "1", "limit": "1"}))["topics"]
    assert (largest["name"], largest["bytes"]) == ("t0", "7")
    assert brokers.sized == [["t2", "t3"], None]
