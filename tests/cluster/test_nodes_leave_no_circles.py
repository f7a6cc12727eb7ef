"""What brokers let go of when leaders move leaves no circle: the collector need not look at what a node has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from uuid import uuid4

import pytest
from tests.wire.raw_client import TRANSACTION, RawClient
from tests.wire.unreachable import without_collector

from penstock.client.admin import Admin
from penstock.client.admin.partitions import ElectionType
from penstock.client.admin.topics import NewTopic
from penstock.client.metadata import TopicMetadata
from penstock.client.producer import Producer
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.testing import Cluster

COORDINATED = ("__consumer_offsets", "__transaction_state")
CONFIG = {
    f"{topic}.{key}": value
    for topic in ("offsets.topic", "transaction.state.log")
    for key, value in (("num.partitions", "3"), ("replication.factor", "3"))
}


def asked(bootstrap: str, question: Callable[[Admin], Awaitable[object]]) -> None:
    async def ask() -> None:
        async with Admin(bootstrap) as admin:
            await question(admin)

    asyncio.run(ask())


async def fill(admin: Admin) -> None:
    await admin.topics.create(NewTopic(name="a", partitions=6, replication_factor=3))
    for number in range(6):
        await admin.groups.set_offsets(f"plain-{number}", {TopicPartition("a", 0): OffsetAndMetadata(0)})


def join(addresses: list[str]) -> None:
    """Members and producers at each broker, of which the coordinator takes them."""
    for address in addresses:
        with RawClient(address) as client:
            client.find_coordinator("g-0")
            client.find_coordinator("t-0", TRANSACTION)
            for number in range(6):
                joining = ConsumerGroupHeartbeatRequest(
                    group_id=f"g-{number}",
                    member_id=str(uuid4()),
                    rebalance_timeout_ms=10_000,
                    subscribed_topic_names=["a"],
                    topic_partitions=[],
                )
                client.ask(joining)
                client.ask(InitProducerIdRequest(transactional_id=f"t-{number}", transaction_timeout_ms=60_000), 5)


async def come_and_go(bootstrap: str, admin: Admin) -> None:
    """Topics of other kinds."""
    kinds = {"consensus": {"replication.mode": "consensus"}, "delayed": {"penstock.delay.enable": "true"}}
    kinds["both"] = kinds["consensus"] | kinds["delayed"]
    for name, configs in kinds.items():
        await admin.topics.create(NewTopic(name=name, partitions=2, replication_factor=3, configs=configs))
    async with Producer(bootstrap) as producer:
        for name in kinds:
            await producer.send(name, b"x")
    for name in kinds:
        await admin.topics.delete(name)


async def partitions(admin: Admin) -> list[TopicMetadata]:
    return await admin.topics.describe(["a", *COORDINATED])


async def all_are_in_sync(admin: Admin) -> None:
    while any(len(row.isr) < 3 for topic in await partitions(admin) for row in topic.partitions.values()):
        pass


async def the_first_lead(admin: Admin) -> None:
    """Also the node that was away, which coordinates then."""
    topics = await partitions(admin)
    places = [row.topic_partition for topic in topics for row in topic.partitions.values()]
    await admin.partitions.elect_leaders(ElectionType.PREFERRED, places)
    while any(row.leader != row.replicas[0] for one in await partitions(admin) for row in one.partitions.values()):
        pass


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, list[str]]]:
    found: dict[str, list[str]] = {}
    with Cluster(nodes=3, config=CONFIG) as cluster, without_collector() as find:
        asked(cluster.bootstrap_servers, fill)
        join(cluster.bootstrap_servers.split(","))
        asked(cluster.bootstrap_servers, all_are_in_sync)
        found["clients came and went"] = find()
        asked(cluster.bootstrap_servers, partial(come_and_go, cluster.bootstrap_servers))
        asked(cluster.bootstrap_servers, all_are_in_sync)
        found["topics came and went"] = find()
        away, others = cluster.nodes[2], [node.address for node in cluster.nodes[:2] if node.address is not None]
        away.stop()
        join(others)
        find()  # a node that stops ends with its process; in this one there is all of it
        away.start()
        asked(cluster.bootstrap_servers, all_are_in_sync)
        found["a follower came back"] = find()
        asked(cluster.bootstrap_servers, the_first_lead)
        asked(cluster.bootstrap_servers, lambda admin: admin.topics.delete("a"))
        found["leaders moved"] = find()
        yield found


@pytest.mark.parametrize(
    "what", ["clients came and went", "topics came and went", "a follower came back", "leaders moved"]
)
def test_nothing_is_left_to_the_collector(shown: dict[str, list[str]], what: str) -> None:
    assert shown[what] == []
