"""Three nodes with storage groups, and what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.cluster.nodes_in_a_loop import PATIENCE_S, Nodes, nodes

from penstock.client.admin.topics import NewTopic
from penstock.metadata.image import ClusterImage
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.errors import KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.replication.storage_groups.entries import PartitionId

FORGETFUL = {"storage_group_max_bytes_between_snapshots": "1000"}
"""Groups whose logs are short."""


def three(directory: Path, **settings: str) -> AbstractAsyncContextManager[Nodes]:
    """Nodes whose voters are told again soon who leads: one that comes back may not know."""
    return nodes(directory, None, controller_quorum_fetch_timeout_ms="4000", **settings)


async def create(cluster: Nodes, topic: str, partitions: int = 1, group: int | None = None) -> None:
    """A topic, until all nodes know it."""
    configs = {"replication.mode": "consensus"} | ({} if group is None else {"storage.group": str(group)})
    async with cluster.admin() as admin:
        await admin.topics.create_unless_there(
            NewTopic(name=topic, partitions=partitions, replication_factor=3, configs=configs)
        )
    await cluster.until_everywhere(lambda image: topic in image.topics)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.01)


def is_whole(image: ClusterImage, count: int = 1, in_sync: int = 3) -> bool:
    """Whether so many groups, and all of their partitions, have a leader and so many replicas in sync."""
    groups = image.storage_groups
    return len(groups) == count and all(
        one.leader >= 0 and len(one.isr) == in_sync
        for number, group in groups.items()
        for one in (group, *(it for topic in image.topics_of_storage_group(number) for it in topic.partitions.values()))
    )


def replica(cluster: Nodes, node_id: int, number: int = 0) -> GroupReplica:
    return cluster.running[node_id].broker.storage_groups.by_number[number]


def leaders_of(cluster: Nodes, number: int = 0) -> list[int]:
    return [
        node_id
        for node_id, node in cluster.running.items()
        if (found := node.broker.storage_groups.by_number.get(number)) is not None and found.leads
    ]


def find(cluster: Nodes, node_id: int, topic: str, index: int = 0) -> PartitionId:
    return PartitionId(cluster.image(node_id).topics[topic].topic_id, index)


async def produce(cluster: Nodes, topic: str) -> int:
    """At the leader, again until it is acknowledged: its offset."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for node_id in leaders_of(cluster, cluster.image(min(cluster.running)).topics[topic].storage_group or 0):
                node, partition = cluster.running[node_id], find(cluster, node_id, topic)
                group = node.broker.storage_groups.group_of(partition.topic_id)
                batch = memoryview(encode_batch([Record(timestamp_ms=node.broker.now_ms(), value=b"x" * 100)]))
                try:
                    assert group is not None
                    place = group.append(partition, batch, leader_epoch=1)
                    await group.acknowledged(partition, place.last_offset)
                except KafkaError:
                    continue
                return place.first_offset
            await asyncio.sleep(0.01)


def ends(cluster: Nodes, topic: str) -> list[int]:
    """The end of the topic's log on each node that has it, as the partition that serves clients sees it."""
    found = (node.broker.partitions.get(topic, 0) for node in cluster.running.values())
    return [partition.log.log_end_offset for partition in found if partition is not None]
