"""Storage groups on three nodes: who takes part, who leads, what becomes of topics that come and go, and of disks."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from math import inf
from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import BOTH, PATIENCE_S, Nodes, nodes

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.values import TopicPartition
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ClusterImage
from penstock.node.partitions.group_hand_overs import GroupHandOvers
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.storage_groups import failed_replicas, hand_over, keeper
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.effects import ElectionState
from penstock.raft.follower import Follower
from penstock.raft.progress import Progress
from penstock.raft.voters import ReplicaKey
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
        await admin.topics.create(NewTopic(name=topic, partitions=partitions, replication_factor=3, configs=configs))
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


async def test_a_group_begins_leads_and_says_so(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await create(cluster, "orders", partitions=2)
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        assert cluster.image(1).storage_groups[0].leader == leader_id
        assert [await produce(cluster, "orders") for _ in range(3)] == [0, 1, 2]
        await until(lambda: ends(cluster, "orders") == [3, 3, 3])
        told = {(one.group, one.name): one.value for one in cluster.running[leader_id].broker.metrics().metrics}
        assert told["storage-groups", "LeaderCount"] == "1"
        assert told["storage-groups", "group-0.leader"] == str(leader_id)


async def test_the_first_voter_of_a_new_group_stands_at_once(tmp_path: Path) -> None:
    roles = {1: BOTH, 2: "broker", 3: "broker"}
    never = str(PATIENCE_S * 1000 * 10)
    async with nodes(tmp_path, roles, controller_quorum_election_timeout_ms=never) as cluster:
        for number in range(3):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=3))
        for number, group in cluster.image(1).storage_groups.items():
            assert leaders_of(cluster, number) == [group.replicas[0]]


async def test_a_voter_that_comes_back_and_has_not_heard_who_won_asks(tmp_path: Path) -> None:
    never = str(PATIENCE_S * 1000 * 10)
    never_reminded = {f"controller_quorum_{key}_timeout_ms": never for key in ("election", "fetch")}
    async with nodes(tmp_path, {1: BOTH, 2: "broker", 3: "broker"}, **never_reminded) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        follower_id = 2 if leader_id == 3 else 3
        driver = replica(cluster, follower_id).quorum
        await cluster.stop(follower_id)
        driver._state.write(
            ElectionState(driver.epoch, None, replica(cluster, leader_id).quorum.local_key), driver.quorum
        )
        await cluster.start(follower_id)
        await until(lambda: replica(cluster, follower_id).quorum.leader_id == leader_id)


async def test_the_leader_stops_and_comes_back(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        assert await produce(cluster, "orders") == 0
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        end_offset = await produce(cluster, "orders") + 1  # what was refused may be there
        await cluster.until_everywhere(lambda image: image.storage_groups[0].leader not in (-1, leader_id))
        await cluster.start(leader_id)
        await cluster.until_everywhere(is_whole)
        await until(lambda: ends(cluster, "orders") == [end_offset] * 3)


async def test_a_leader_that_stops_waits_until_the_metadata_name_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RESIGN_S", PATIENCE_S)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        named: list[int] = []
        log = cluster.running[leader_id % 3 + 1].parts.log
        log.add_listener(lambda _: named.append(log.image.storage_groups[0].leader), lambda: None)
        await cluster.stop(leader_id)
        assert -1 not in named
        assert named[-1] != leader_id


async def test_a_node_that_stops_hands_over_the_groups_that_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "HAND_OVER_S", PATIENCE_S)
    monkeypatch.setattr(hand_over, "STAND_MS", PATIENCE_S * 1000)
    numbers = range(5)
    async with three(tmp_path) as cluster:
        for number in numbers:
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=len(numbers)))
        (leader_id,) = leaders_of(cluster, 0)
        led = [number for number in numbers if leaders_of(cluster, number) == [leader_id]]
        await cluster.stop(leader_id)
        for number in led:
            (successor_id,) = leaders_of(cluster, number)
            assert replica(cluster, successor_id, number).group.taken_over == 1


async def test_a_new_leader_keeps_those_in_sync_that_were_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Progress.fetched

    def is_never_known_to_have_all(progress: Progress, *words: int) -> None:
        fetched(progress, *words)
        progress.caught_up_ms = -1

    monkeypatch.setattr(Progress, "fetched", is_never_known_to_have_all)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        await cluster.until_everywhere(lambda image: is_whole(image, in_sync=2))


async def test_a_node_that_stops_waits_for_no_successor_that_does_not_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "HAND_OVER_S", 0.1)
    monkeypatch.setattr(GroupHandOvers, "hand_over", lambda *_: asyncio.Event().wait())
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        await until(lambda: leaders_of(cluster) != [])


async def test_a_node_that_stops_does_not_wait_until_it_leads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over, hand_over_group, is_under_way = Follower.handed_over, GroupHandOvers.hand_over, list[bool]()

    async def note(hand_overs: GroupHandOvers, group: StorageGroup, successor: int) -> bool:
        result = await hand_over_group(hand_overs, group, successor)
        is_under_way.append(group.hand_over is not None)
        return result

    monkeypatch.setattr(Follower, "handed_over", lambda follower, _, now_ms: handed_over(follower, -1, now_ms))
    monkeypatch.setattr(GroupHandOvers, "hand_over", note)
    async with three(tmp_path) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        (leader_id,) = leaders_of(cluster)
        await cluster.stop(leader_id)
        assert is_under_way[0]
        await until(lambda: leaders_of(cluster) != [])


async def test_a_topic_that_is_deleted_and_made_anew_begins_anew(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster, cluster.admin() as admin:
        await create(cluster, "payments")
        for _ in range(3):
            await create(cluster, "orders")
            await cluster.until_everywhere(is_whole)
            assert [await produce(cluster, "orders") for _ in range(2)] == [0, 1]
            await produce(cluster, "payments")
            await admin.topics.delete("orders")
            await cluster.until_everywhere(lambda image: "orders" not in image.topics)
        for node_id in (1, 2, 3):
            group = replica(cluster, node_id).group
            await until(lambda group=group: len(group.partitions) == 1 and not group.removed)  # type: ignore[misc]
        await cluster.stop(1)
        end_offset = await produce(cluster, "payments") + 1
        await cluster.start(1)
        await until(lambda: ends(cluster, "payments") == [end_offset] * 3)


async def test_several_groups_share_their_nodes(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        for number in range(5):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=5))
        assert await asyncio.gather(*(produce(cluster, f"topic-{number}") for number in range(5))) == [0] * 5
        await cluster.stop(2)
        await asyncio.gather(*(produce(cluster, f"topic-{number}") for number in range(5)))


def lose_disk(directory: Path) -> None:
    """What a node finds whose disk was replaced: an empty directory of the same cluster."""
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    meta = directory / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if not line.startswith("directory.id")]
    meta.write_text("\n".join(lines) + "\n")


async def test_who_has_lost_its_disk_votes_again_when_it_has_caught_up(tmp_path: Path) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        for _ in range(20):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        await until(lambda: replica(cluster, leader_id).quorum.log_start_offset > 10)
        lost, other = leader_id % 3 + 1, (leader_id + 1) % 3 + 1
        key = replica(cluster, lost).quorum.local_key
        await cluster.stop(lost)
        lose_disk(tmp_path / f"node-{lost}")
        await cluster.start(lost)
        mine = replica(cluster, lost).quorum.local_key
        assert mine == ReplicaKey(lost, mine.directory_id) != key
        await cluster.until_everywhere(lambda image: image.storage_groups[0].directory_of(lost) == mine.directory_id)
        await cluster.until_everywhere(is_whole)
        await until(lambda: replica(cluster, lost).quorum.quorum.has(mine))
        assert not replica(cluster, lost).quorum.quorum.has(key)
        end_offset = await produce(cluster, "orders") + 1
        await until(lambda: ends(cluster, "orders") == [end_offset] * 3)
        await cluster.stop(other)
        assert await produce(cluster, "orders") >= end_offset


async def test_records_are_deleted_on_all_replicas(tmp_path: Path) -> None:
    async with three(tmp_path, **FORGETFUL) as cluster, cluster.admin() as admin:
        await create(cluster, "orders")
        await cluster.until_everywhere(is_whole)
        for _ in range(10):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        absent, partition = leader_id % 3 + 1, TopicPartition("orders", 0)
        await until(lambda: ends(cluster, "orders") == [10] * 3)
        await cluster.stop(absent)
        await cluster.until_everywhere(lambda image: is_whole(image, in_sync=2))
        assert await admin.topics.delete_records({partition: 7}) == {partition: 7}
        await until(lambda: starts(cluster, "orders") == [7] * 2)
        for _ in range(10):
            await produce(cluster, "orders")
        (leader_id,) = leaders_of(cluster)
        await until(lambda: replica(cluster, leader_id).quorum.log_start_offset > 18)
        await cluster.start(absent)
        await until(lambda: starts(cluster, "orders") == [7] * 3)


def starts(cluster: Nodes, topic: str) -> list[int]:
    """The beginning of the topic's log on each node that has it."""
    found = (node.broker.partitions.get(topic, 0) for node in cluster.running.values())
    return [partition.log.log_start_offset for partition in found if partition is not None]


async def test_a_group_whose_log_is_bad_stops_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with three(tmp_path) as cluster:
        for number in range(2):
            await create(cluster, f"topic-{number}", group=number)
        await cluster.until_everywhere(lambda image: is_whole(image, count=2))
        await cluster.stop(3)
        (snapshot,) = (tmp_path / "node-3" / "__storage_group-0").glob("*.checkpoint")
        snapshot.write_bytes(b"nothing of the kind")
        await cluster.start(3)
        await cluster.until_everywhere(lambda image: len(image.storage_groups[1].isr) == 3)
        assert 0 not in cluster.running[3].broker.storage_groups.by_number
        assert "takes no part in storage group 0" in caplog.text
        await produce(cluster, "topic-0")


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
