"""Consumers that say in which rack they are read from the replica there (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place
from tests.cluster.nodes_in_a_loop import BOTH, Nodes

from penstock.client import consumer as ours
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.log.log_slice import LogSlice
from penstock.node.api.fetching import FetchReader
from penstock.node.assembly.start import RunningNode
from penstock.replication.read_replica import RACK_AWARE

TOPIC = "orders"
PATIENCE_S = 30.0
RACKS = {1: "a", 2: "b", 3: "c"}


class Served:
    """How many records' slices each node gave to consumers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by: dict[int, int] = dict.fromkeys(RACKS, 0)
        read_log = FetchReader._read_log

        def noted(reader: FetchReader, *asked: Any) -> LogSlice:
            found = read_log(reader, *asked)
            if found and reader._replica_id < 0:
                self.by[reader.broker.node_id] += 1
            return found

        monkeypatch.setattr(FetchReader, "_read_log", noted)


def all_have_fetched(node: RunningNode) -> bool:
    """Whether it leads the partition, and knows of each follower where its log ends."""
    partition = node.broker.partitions.get(TOPIC, 0)
    leader = None if partition is None else partition.leader
    return leader is not None and all(state.log_end_offset >= 0 for state in leader.followers.values())


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Nodes]:
    """Three nodes, each in a rack of its own; the topic is led by the first."""
    three = Nodes(tmp_path, dict.fromkeys(RACKS, BOTH), replica_selector_class=RACK_AWARE)
    configured = three.config
    three.config = lambda node_id, **more: configured(node_id, broker_rack=RACKS[node_id], **more)  # type: ignore[method-assign]
    try:
        await three.start()
        await three.until_everywhere(lambda image: all(broker.active for broker in image.brokers.values()))
        await three.until_everywhere(lambda image: len(image.brokers) == len(RACKS))
        async with three.admin() as admin:
            await admin.topics.create(NewTopic(name=TOPIC, assignments={0: [1, 2, 3]}))
        await three.until_everywhere(lambda image: TOPIC in image.topics)
        async with asyncio.timeout(PATIENCE_S):
            while not all_have_fetched(three.running[1]):  # until then consumers are not sent to them
                await asyncio.sleep(0.01)
        yield three
    finally:
        await three.stop()
        three.give_back()


def poll(consumer: Consumer) -> bytes:
    message: Message | None = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None
    value = message.value()
    assert isinstance(value, bytes)
    return value


async def test_librdkafka_reads_from_its_rack(cluster: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    consumer = Consumer({"bootstrap.servers": cluster.address(), "group.id": "g", "client.rack": "b"})
    consumer.assign([Place(TOPIC, 0, 0)])
    try:
        async with Producer(cluster.address()) as producer:
            for number in range(20):
                await producer.send(TOPIC, b"%d" % number, partition=0)
                assert await asyncio.to_thread(poll, consumer) == b"%d" % number
    finally:
        await asyncio.to_thread(consumer.close)
    assert served.by[2] > 0
    assert (served.by[1], served.by[3]) == (0, 0)


async def test_our_consumer_reads_from_its_rack_and_from_the_leader_when_that_is_gone(
    cluster: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(monkeypatch)
    settings = ConsumerSettings(client_rack="c", auto_offset_reset="earliest", retry_backoff_ms=20)
    async with ours.Consumer(cluster.address(), settings) as consumer, Producer(cluster.address()) as producer:
        await consumer.assign([TopicPartition(TOPIC, 0)])
        for number in range(10):
            await producer.send(TOPIC, b"%d" % number, partition=0)
            async with asyncio.timeout(PATIENCE_S):
                assert (await anext(aiter(consumer))).value == b"%d" % number
        assert served.by[3] > 0
        assert (served.by[1], served.by[2]) == (0, 0)
        await cluster.stop(3)
        await producer.send(TOPIC, b"last", partition=0)
        async with asyncio.timeout(PATIENCE_S):
            assert (await anext(aiter(consumer))).value == b"last"
        assert served.by[1] > 0
