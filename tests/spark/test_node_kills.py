"""Nodes are killed behind each step of a decision, by what they do for it, and leaders move: each row is there once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from tests.killed_nodes import OF_KILLED_NODES
from tests.spark.once_campaign import (
    PARTITIONS,
    PATIENCE_S,
    QUERIES,
    begin,
    check,
    keeping_cluster,
    steps_of,
    topic_of,
    written,
)
from tests.spark.topics import cluster_at, new_topic

from penstock.client.messages import TRANSACTION_COORDINATOR
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.once.deciding import Step
from penstock.pipeline.once.names import decider_of
from penstock.testing import Cluster
from penstock.testing.cluster_node import ClusterNode

pytestmark = [pytest.mark.soak, pytest.mark.timeout(10_000)]
ROLES: Final = ("any", "leader", "coordinator")
KILLED: Final = int(os.environ.get("KILLS", "5"))
"""So many nodes, each while all queries wait at their steps."""
NODES, BATCHES = 3, 2
CONFIG: Final = {
    **OF_KILLED_NODES,
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}


class Killer:
    """Where all queries have come to their steps, the last one kills a node; the one before is in sync again then."""

    def __init__(self, cluster: Cluster, role: str, targets: list[str]) -> None:
        self._cluster, self._role, self._targets = cluster, role, targets
        self._client = cluster_at(cluster.bootstrap_servers)
        self._random = Random(role)
        self._all_there = threading.Barrier(QUERIES, self._kill_one)
        self._down: ClusterNode | None = None
        self._queries: dict[str, str] = {}
        self.killed = 0

    def took(self, query: str, step: Step) -> None:
        target = topic_of(query)
        self._queries[target] = query
        if self.killed < KILLED and type(step).__name__ == steps_of(self.killed)[self._targets.index(target)]:
            self._all_there.wait()

    def heal(self) -> None:
        if self._down is not None:
            self._down.start()
            self._down = None
        while not self._is_in_sync():
            time.sleep(0.2)

    def _kill_one(self) -> None:
        self.heal()
        self._down = self._cluster.node(self._next())
        self._down.kill()
        self.killed += 1

    def _next(self) -> int:
        target = self._random.choice(self._targets)
        self._client.forget_everything()
        self._client.look_at_brokers()
        if self._role == "leader":
            address = self._client.leader_of(target, self._random.randrange(PARTITIONS))
        elif self._role == "coordinator":
            address = self._client.coordinator_of(decider_of(self._queries[target]), TRANSACTION_COORDINATOR).address
        else:
            return self._random.choice(self._cluster.nodes).id
        return next(number for number, one in self._client.metadata.brokers.items() if one.address == address)

    def _is_in_sync(self) -> bool:
        self._client.all_topics(with_internal=True)
        topics = self._client.metadata.topics.values()
        return all(len(one.isr) == NODES for topic in topics for one in topic.partitions.values())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with keeping_cluster(NODES, CONFIG) as three:
        yield three


@pytest.mark.parametrize("role", ROLES)
def test_each_row_is_there_once_whichever_node_dies(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    servers = cluster.bootstrap_servers
    targets = [new_topic(servers, PARTITIONS, NODES) for _ in range(QUERIES)]
    killer, take = Killer(cluster, role, targets), Decider._take

    def taken(decider: Decider, step: Step) -> Any:
        answer = take(decider, step)
        killer.took(decider._query, step)
        return answer

    monkeypatch.setattr(Decider, "_take", taken)
    queries = begin(spark, servers, tmp_path, targets)
    until_ms = time.monotonic() + PATIENCE_S * (KILLED + 1)
    while killer.killed < KILLED or any(written[target] < BATCHES for target in targets):
        assert time.monotonic() < until_ms, "the queries do not go on"
        assert [query.exception() for query in queries if not query.isActive] == []
        time.sleep(0.2)
    killer.heal()
    for query in queries:
        query.stop()
    for target in targets:
        check(servers, target, BATCHES)
