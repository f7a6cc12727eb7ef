"""A leader moves under real clients: the answer that refuses them says where it is now (KIP-951)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as Place
from tests.cluster.nodes_in_a_loop import Nodes, nodes

from penstock.client.admin.partitions import ElectionType
from penstock.client.admin.topics import NewTopic
from penstock.client.values import TopicPartition
from penstock.metadata.image import PartitionImage
from penstock.node.api.broker import metadata
from penstock.node.api.partition_views import ListenerView
from penstock.protocol.messages.metadata import MetadataResponsePartition

TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)
PATIENCE_S = 30.0


async def lead(cluster: Nodes, *replicas: int) -> None:
    """Make the first of these brokers the leader."""
    async with cluster.admin() as admin:
        await admin.partitions.reassign({PARTITION: replicas})
        await admin.partitions.elect_leaders(ElectionType.PREFERRED, [PARTITION])
    await cluster.until_everywhere(lambda image: image.topics[TOPIC].partitions[0].leader == replicas[0])


class Sender:
    """A producer with acks=all; a record is delivered or the test fails."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"}
        self._producer = Producer(settings)

    def send(self, value: str) -> None:
        outcomes: list[object] = []
        self._producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
        assert self._producer.flush(PATIENCE_S) == 0
        assert outcomes == [None]


def poll(consumer: Consumer) -> str | bytes | None:
    message: Message | None = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None
    return message.value()


@pytest.fixture
def old_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata tells of a partition what it told at first, with the epoch of then: clients learn nothing from it."""
    told: dict[int, MetadataResponsePartition] = {}
    described = metadata._partition

    def first(index: int, partition: PartitionImage, view: ListenerView) -> MetadataResponsePartition:
        return told.setdefault(index, described(index, partition, view))

    monkeypatch.setattr(metadata, "_partition", first)


@pytest.mark.usefixtures("old_news")
async def test_clients_go_where_the_refusal_sends_them(tmp_path: Path) -> None:
    async with nodes(tmp_path, auto_leader_rebalance_enable="false") as cluster, cluster.admin() as admin:
        await admin.topics.create(NewTopic(name=TOPIC, assignments={0: [1, 2, 3]}))
        await cluster.until_everywhere(lambda image: TOPIC in image.topics)
        sender = Sender(cluster.address())
        consumer = Consumer({"bootstrap.servers": cluster.address(), "group.id": "g"})
        consumer.assign([Place(TOPIC, 0, 0)])
        try:
            for leader in (1, 2, 3, 1):
                await lead(cluster, leader, *({1, 2, 3} - {leader}))
                await asyncio.to_thread(sender.send, f"to {leader}")
                assert await asyncio.to_thread(poll, consumer) == f"to {leader}".encode()
        finally:
            await asyncio.to_thread(consumer.close)
