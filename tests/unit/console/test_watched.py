"""Nodes that do not answer are told from those that have nothing to tell, and keep nobody waiting."""

import asyncio
from typing import Any

import pytest

from penstock.client.admin import BrokerDescription, ClusterDescription
from penstock.client.errors import ConnectionFailedError, UnsupportedByBrokerError
from penstock.client.settings import ClientSettings
from penstock.console.looks import Looks
from penstock.console.views.cluster import overview
from penstock.console.watched import WatchedCluster
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import Metric


class NoGroupsError(KafkaError):
    """What the rest of the page is not to fail by."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def refused(*_: Any) -> Any:
    raise NoGroupsError


async def metrics_of(node_id: int, **_: bool) -> list[Metric]:
    if node_id == 1:
        raise ConnectionFailedError("refused")
    if node_id == 2:
        raise UnsupportedByBrokerError("a broker of Apache Kafka")
    if node_id == 3:
        await asyncio.Event().wait()
    return [Metric(group="BrokerLease", name="IsLeaseOver", value="1")]


async def test_who_is_silent_who_is_fenced_and_whose_lease_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedCluster("127.0.0.1:1", ClientSettings())
    monkeypatch.setattr("penstock.console.watched.METRICS_S", 0.0)
    rows = [BrokerDescription(node, Address("h", node), None, node == 5) for node in range(1, 6)]

    async def brokers() -> ClusterDescription:
        return ClusterDescription("c", 2, rows)

    async def topics() -> dict[str, Any]:
        return {}

    monkeypatch.setattr(watched, "brokers", brokers)
    monkeypatch.setattr(watched, "topics", topics)
    for name in ("groups", "quorum"):
        monkeypatch.setattr(watched, name, refused)
    monkeypatch.setattr(watched.admin.quorum, "metrics_of", metrics_of)
    found = await overview(watched, {})
    assert [(row["state"], row["lease"]) for row in found["brokers"]] == [
        ("silent", None),
        ("in service", None),
        ("silent", None),
        ("in service", "over"),
        ("fenced", None),
    ]
    assert (found["controller"], found["groups"]) == (2, None)


async def test_what_is_reckoned_of_all_topics_is_kept_until_there_are_others() -> None:
    watched, reckoned = WatchedCluster("127.0.0.1:1", ClientSettings()), 0

    def reckon() -> int:
        nonlocal reckoned
        reckoned += 1
        return reckoned

    topics: dict[str, Any] = {}
    assert [watched.reckoned("a", topics, {1, 2}, reckon) for _ in range(3)] == [1, 1, 1]
    assert watched.reckoned("a", topics, {1}, reckon) == 2
    assert [watched.reckoned("a", {}, {1}, reckon) for _ in range(2)] == [3, 4], "as many are not the same"
    assert watched.reckoned("b", topics, {1}, reckon) == 5


async def test_figures_of_brokers_are_looked_at_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, now_s, asked = WatchedCluster("127.0.0.1:1", ClientSettings()), 0.0, 0
    watched.looks = Looks(lambda: now_s, lambda: now_s)

    async def metrics() -> dict[int, Any]:
        nonlocal asked
        asked += 1
        return {}

    monkeypatch.setattr(watched, "_metrics", metrics)
    for second in range(10):
        now_s = float(second)
        await watched.metrics()
        await watched.waiting("t")
    assert asked == 2
