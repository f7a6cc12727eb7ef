"""Storage groups whose disks fail or are full, and that move."""

from __future__ import annotations

import asyncio
import errno
from math import inf
from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import BOTH, Nodes, nodes
from tests.cluster.storage_groups import (
    FORGETFUL,
    create,
    ends,
    find,
    is_whole,
    leaders_of,
    produce,
    replica,
    three,
    until,
)

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.values import TopicPartition
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ClusterImage
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.storage_groups import failed_replicas
from penstock.protocol.errors import ErrorCode, KafkaError


async def test_a_log_that_fails_takes_its_group_offline_and_not_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failed_replicas, "RETRY_S", inf)
    async with three(tmp_path) as cluster:
        for number in range(2):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=2))
        (leader_id,) = leaders_of(cluster)
        failing, other = (replica(cluster, leader_id, number) for number in (0, 1))
        flush = StoredLog.flush

        def fail(log: StoredLog) -> None:
            if log.directory == str(tmp_path / f"node-{leader_id}" / "__storage_group-0"):
                raise OSError("broken")
            flush(log)

        monkeypatch.setattr(StoredLog, "flush", fail)
        await produce(cluster, "topic-0")
        assert not failing.is_running
        assert other.is_running
        assert f"this node takes part in storage group {failing.number} no longer" in caplog.text
        assert not cluster.running[leader_id].failed.done()
        await cluster.until_everywhere(lambda image: image.storage_groups[0].leader not in (-1, leader_id))
        assert cluster.running[leader_id].broker.partitions.get("topic-0", 0) is None
        await produce(cluster, "topic-1")


@pytest.mark.parametrize("full", [1, 2, 3])
async def test_full_disks_have_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int) -> None:
    """Of one follower, of the leader too, and of all: no node has to start again."""
    monkeypatch.setattr(failed_replicas, "RETRY_S", 0.05)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        assert await produce(cluster, "orders") == 0
        (leader_id,) = leaders_of(cluster)
        at = sorted(cluster.running, key=lambda node_id: (node_id == leader_id, node_id))
        full_ones = at[:1] if full == 1 else at[3 - full :]
        paths, append = {str(tmp_path / f"node-{node_id}") for node_id in full_ones}, PartitionLog.append_as_follower
        refused: set[str] = set()

        def refuse(log: PartitionLog, batches: memoryview) -> int:
            if log.parent in paths and log.topic == "__storage_group":
                refused.add(log.parent)
                error = OSError(errno.ENOSPC, "No space left on device")
                raise log.health.report(error, f"appending to {log.directory}") from error
            return append(log, batches)

        monkeypatch.setattr(PartitionLog, "append_as_follower", refuse)
        sent = asyncio.ensure_future(produce(cluster, "orders"))
        await until(lambda: len(refused) >= min(full, 2))  # the third may hear of nothing new
        if full == 1:
            await sent
        monkeypatch.setattr(PartitionLog, "append_as_follower", append)
        await sent
        end_offset = await produce(cluster, "orders") + 1
        await until(lambda: ends(cluster, "orders") == [end_offset] * 3)
        await cluster.until_everywhere(is_whole)


async def test_a_log_directory_that_fails_takes_along_what_lies_in_it(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        node = cluster.running[leader_id]
        assert node._serving is not None
        node._serving.on_directory_failed("/elsewhere")
        assert replica(cluster, leader_id).is_running
        node._serving.on_directory_failed(node.log_dirs[0])
        await until(lambda: leaders_of(cluster) not in ([], [leader_id]))
        assert node.broker.storage_groups.group_of(find(cluster, leader_id, "orders").topic_id) is None
        await produce(cluster, "orders")


async def test_a_group_moves_to_other_nodes_with_all_that_is_in_it(tmp_path: Path) -> None:
    roles = dict.fromkeys((1, 2, 3, 4, 5), "broker") | {1: BOTH}
    settings = {"controller_quorum_fetch_timeout_ms": "4000"} | FORGETFUL
    async with nodes(tmp_path, roles, **settings) as cluster, cluster.admin() as admin:
        await admin.topics.create(
            NewTopic(name="orders", assignments={0: [1, 2, 3], 1: [2, 3, 1]}, configs={"replication.mode": "consensus"})
        )
        await cluster.until_everywhere(is_whole)
        for _ in range(20):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        stays = leader_id % 3 + 1
        target = [stays, 4, 5]
        moved = TopicPartition("__storage_group", 0)
        with pytest.raises(KafkaError, match="move __storage_group-0"):
            await reassigned(admin, TopicPartition("orders", 0), target)
        await reassigned(admin, moved, target)
        await cluster.until_everywhere(lambda image: has_moved(image, target))
        await cluster.until_everywhere(is_whole)
        assert await admin.partitions.reassignments() == {}
        for left in {1, 2, 3} - {stays}:
            await until(lambda left=left: not logs_of_groups(cluster, left, "orders"))  # type: ignore[misc]
        end_offset = await produce(cluster, "orders") + 1
        await until(lambda: ends(cluster, "orders") == [end_offset] * 3)
        await cluster.stop(5)
        assert await produce(cluster, "orders") >= end_offset
        await cluster.start(5)
        await cluster.until_everywhere(is_whole)


async def test_a_move_of_a_group_is_cancelled(tmp_path: Path) -> None:
    roles = dict.fromkeys((1, 2, 3, 4), "broker") | {1: BOTH}
    async with nodes(tmp_path, roles, controller_quorum_fetch_timeout_ms="4000") as cluster, cluster.admin() as admin:
        await admin.topics.create(
            NewTopic(name="orders", assignments={0: [1, 2, 3]}, configs={"replication.mode": "consensus"})
        )
        await cluster.until_everywhere(is_whole)
        end_offset = await produce(cluster, "orders") + 1
        await cluster.stop(4)
        moved = TopicPartition("__storage_group", 0)
        await reassigned(admin, moved, [4, 2, 3])
        assert set(await admin.partitions.reassignments()) == {moved}
        await reassigned(admin, moved, None)
        await cluster.until_everywhere(lambda image: has_moved(image, [1, 2, 3]))
        assert await produce(cluster, "orders") >= end_offset


async def reassigned(admin: Admin, partition: TopicPartition, target: list[int] | None) -> None:
    """Raises KafkaError if it is refused."""
    outcome = (await admin.partitions.reassign({partition: target}))[partition]
    if outcome.error:
        raise KafkaError(ErrorCode(outcome.error), outcome.message)


def has_moved(image: ClusterImage, target: list[int]) -> bool:
    """Whether the first group, and all that is in it, has these replicas and is on no way to others."""
    group = image.storage_groups[0]
    partitions = [one for topic in image.topics_of_storage_group(0) for one in topic.partitions.values()]
    is_over = not group.adding_replicas and not group.removing_replicas
    return is_over and all(set(one.replicas) == set(target) for one in (group, *partitions))


def logs_of_groups(cluster: Nodes, node_id: int, topic: str) -> list[tuple[str, int]]:
    """The logs of the groups, and of a topic, that a node has."""
    return [
        key for key in cluster.running[node_id].parts.context.directories.logs if key[0] in ("__storage_group", topic)
    ]
