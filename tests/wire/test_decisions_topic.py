"""The topic of decisions at real nodes: how it is made, what is refused, and that the last decision is found."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from tests.wire import test_exactly_once_sink as once

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.topics import NewTopic
from penstock.client.blocking import BlockingCluster, Pauses
from penstock.client.values import TransactionName
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.datasource.decisions_topic import PARTITIONS, DecisionsTopic, new_topic
from penstock.pipeline.once.deciding import Fence, Step, Write
from penstock.pipeline.once.decision import Decision
from penstock.pipeline.once.names import ids_of
from penstock.pipeline.options.sink import SinkOptions
from penstock.protocol.errors import KafkaError
from penstock.protocol.hashing import partition_for_key

keeping, servers, sink, cluster = once.keeping, once.servers, once.sink, once.cluster


def test_what_is_forgotten_leaves_nothing_but_others_stay(sink: SinkOptions, cluster: BlockingCluster) -> None:
    query, other = uuid4().hex, uuid4().hex
    for name in (query, other):
        Decider(cluster, sink.decisions_topic, name).decide(0, [])
    Decider(cluster, sink.decisions_topic, query).forget()
    last = {name: DecisionsTopic(cluster, sink.decisions_topic, name).last() for name in (query, other)}
    assert last == {query: None, other: Decision(0, ())}


async def test_a_topic_for_decisions_that_deletes_is_refused(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    name = f"{sink.topic}-deletes"
    async with Admin(servers) as admin:
        configs = {"cleanup.policy": "compact,delete"}
        await admin.topics.create(NewTopic(name=name, partitions=PARTITIONS, configs=configs))
        with pytest.raises(KafkaError, match=f"--alter --topic {name} --add-config cleanup.policy=compact"):
            Decider(cluster, name, "some").decide(0, [])
        await admin.configs.alter(
            ResourceType.TOPIC, name, [ConfigChange("cleanup.policy", ConfigOperation.SET, "compact")]
        )
    Decider(cluster, name, "some").decide(0, [])


async def test_a_topic_for_decisions_with_few_partitions_is_refused(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    """It might get more, and the partition of a query would be another one then."""
    name = f"{sink.topic}-few"
    async with Admin(servers) as admin:
        await admin.topics.create(NewTopic(name=name, partitions=PARTITIONS - 1, configs={"cleanup.policy": "compact"}))
        with pytest.raises(KafkaError, match=f"--alter --topic {name} --partitions {PARTITIONS}"):
            Decider(cluster, name, "some").decide(0, [])
        await admin.topics.create_partitions(name, PARTITIONS)
        while len(cluster.partitions_there([name])[name]) < PARTITIONS:
            pass
    Decider(cluster, name, "some").decide(0, [])


async def test_a_decision_about_very_many_tasks_is_taken_also_where_records_are_small(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    name, query = f"{sink.topic}-by-hand", uuid4().hex
    async with Admin(servers) as admin:
        configs = {"cleanup.policy": "compact", "max.message.bytes": "1000000"}
        await admin.topics.create(NewTopic(name=name, partitions=PARTITIONS, configs=configs))
    ids = (f"{ids_of(query)}{uuid4().hex}-1" for _ in range(20_000))
    decision = Decision(0, tuple(TransactionName(one, number, 0, True) for number, one in enumerate(ids)))
    decider = Decider(cluster, name, query)
    decider._take(Fence())
    decider._take(Write(decision))
    assert DecisionsTopic(cluster, name, query).last() == decision


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(0, 1, "1"), (1, 1, "1"), (2, 2, "1"), (5, 3, "2")])
def test_decisions_have_replicas_as_there_are_brokers(brokers: int, replicas: int, in_sync: str) -> None:
    topic = new_topic("decisions", brokers)
    configs = {config.name: config.value for config in topic.configs}
    assert (topic.replication_factor, configs["min.insync.replicas"]) == (replicas, in_sync)


def test_a_decision_is_found_behind_another_querys_that_is_under_way(
    sink: SinkOptions, cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries of one partition: the first decider dies as it writes, and the second one dies after it has."""
    first, second = _of_one_partition()
    dead = Decider(cluster, sink.decisions_topic, first)

    class Outlived(Decider):
        def _take(self, step: Step) -> Any:
            if isinstance(step, Write):
                dead._take(Fence())
                assert dead._topic is not None
                assert dead._identity is not None
                dead._topic.write(dead._identity, Decision(0, ()))
            return super()._take(step)

    Outlived(cluster, sink.decisions_topic, second).decide(4, [])
    waits: list[None] = []

    def end_it(pauses: Pauses) -> None:
        waits.append(None)
        dead._take(Fence())

    monkeypatch.setattr(Pauses, "take", end_it)
    assert DecisionsTopic(cluster, sink.decisions_topic, second).last() == Decision(4, ())
    assert waits


async def test_a_decision_is_found_where_the_topic_has_got_more_partitions(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    name = f"{sink.topic}-decisions"
    queries = [uuid4().hex for _ in range(9)]
    for query in queries:
        Decider(cluster, name, query).decide(0, [])
    async with Admin(servers) as admin:
        await admin.topics.create_partitions(name, PARTITIONS + 1)
        while len(cluster.partitions_there([name])[name]) == PARTITIONS:
            pass
    assert [DecisionsTopic(cluster, name, query).last() for query in queries] == [Decision(0, ())] * 9


async def test_a_decision_is_found_that_was_written_while_the_topic_had_fewer_partitions(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    name, queries, counts = f"{sink.topic}-grows", [_placed_anew() for _ in range(9)], (3, 5, PARTITIONS)
    async with Admin(servers) as admin:
        await admin.topics.create(NewTopic(name=name, partitions=counts[0], configs={"cleanup.policy": "compact"}))
        for batch, (count, next_count) in enumerate(pairwise(counts)):
            for query in queries[batch:]:
                _decide_at(cluster, DecisionsTopic(cluster, name, query, (name, _place(query, count))), query, batch)
            await admin.topics.create_partitions(name, next_count)
            while len(cluster.partitions_there([name])[name]) < next_count:
                pass
    last = [DecisionsTopic(cluster, name, query).last() for query in queries]
    assert last == [Decision(0, ()), *[Decision(1, ())] * 8]
    assert DecisionsTopic(cluster, name, uuid4().hex).last() is None
    Decider(cluster, name, queries[0]).decide(2, [])
    assert DecisionsTopic(cluster, name, queries[0]).last() == Decision(2, ())
    DecisionsTopic(cluster, name, queries[0]).forget()
    assert DecisionsTopic(cluster, name, queries[0]).last() is None


def _place(query: str, partitions: int) -> int:
    return partition_for_key(query.encode(), partitions)


def _placed_anew() -> str:
    """A query that is at home in another partition after each growth."""
    while True:
        query = uuid4().hex
        if len({_place(query, count) for count in (3, 5, PARTITIONS)}) == 3:
            return query


def _decide_at(cluster: BlockingCluster, topic: DecisionsTopic, query: str, batch: int) -> None:
    """As earlier states did, which took topics with few partitions."""
    decider = Decider(cluster, topic.partition[0], query)
    decider._topic = topic
    decider._take(Fence())
    decider._take(Write(Decision(batch, ())))


def _of_one_partition() -> tuple[str, str]:
    first = uuid4().hex
    while True:
        second = uuid4().hex
        if len({partition_for_key(name.encode(), PARTITIONS) for name in (first, second)}) == 1:
            return first, second
