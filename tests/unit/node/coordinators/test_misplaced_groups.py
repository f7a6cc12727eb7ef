"""Directories whose groups lie where an earlier version put them, by another rule than Kafka's."""

import asyncio
import logging
from pathlib import Path

import pytest
from tests.unit.node.coordinators.test_groups import commit_request, committed, stable
from tests.unit.node.group_node import GroupNode, ask

from penstock.coordinator.effects import Effect
from penstock.coordinator.group.shard import GroupShard
from penstock.node.api.broker.delete_groups import delete_groups
from penstock.node.api.broker.heartbeat import heartbeat
from penstock.node.api.broker.list_groups import list_groups
from penstock.node.api.broker.offset_commit import offset_commit
from penstock.node.coordinators import host, misplaced_groups
from penstock.node.coordinators.host import CoordinatorHost
from penstock.node.coordinators.misplaced_groups import former_partition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition, java_string_hash
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest

PARTITIONS = 3
NAMES = [f"{chr(97 + number % 26) * (number + 3)}-{number}" for number in range(40)]
MOVED = [name for name in NAMES if coordinator_partition(name, PARTITIONS) != former_partition(name, PARTITIONS)]


async def started(directory: Path, leaders: tuple[int, ...] = (1, 1, 1)) -> GroupNode:
    node = GroupNode(directory, settings={"offsets.topic.num.partitions": str(PARTITIONS)})
    node.create_flights()
    node.create_offsets_topic(leaders)
    return node


async def written_by_the_former_rule(directory: Path, patch: pytest.MonkeyPatch) -> str:
    """Each group has committed its number; the member id of the one member of the first that will move."""
    with patch.context() as former:
        former.setattr(host, "coordinator_partition", former_partition)
        former.setattr(misplaced_groups, "coordinator_partition", former_partition)
        node = await started(directory)
        await node.ready()
        for number, name in enumerate(NAMES):
            await ask(offset_commit, node, 8, commit_request(number, name))
        joined = await stable(node, MOVED[0])
        await node.stop()
    return joined.member_id


async def check_all_found(node: GroupNode) -> None:
    for number, name in enumerate(NAMES):
        assert await committed(node, name) == {("flights", 0): number}
    listed = (await ask(list_groups, node, 4, ListGroupsRequest())).groups
    assert sorted(group.group_id for group in listed) == sorted(NAMES), "each lies in one partition"


def test_about_half_of_the_names_lie_elsewhere() -> None:
    assert 10 < len(MOVED) < 30
    assert all(java_string_hash(name) < 0 for name in MOVED)


async def test_groups_are_found_and_their_members_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    member_id = await written_by_the_former_rule(tmp_path, monkeypatch)
    caplog.set_level(logging.INFO)
    node = await started(tmp_path)
    with pytest.raises(KafkaError) as refused:
        node.groups.find(MOVED[0])
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await node.ready()
    await check_all_found(node)
    beat = HeartbeatRequest(group_id=MOVED[0], member_id=member_id, generation_id=1)
    assert (await ask(heartbeat, node, 4, beat)).error_code == ErrorCode.NONE
    lines = [record.getMessage() for record in caplog.records if "moved to the partitions" in record.getMessage()]
    assert sum(int(line.split(": ")[1].split()[0]) for line in lines) == len(MOVED)
    await node.stop()

    caplog.clear()
    again = await started(tmp_path)
    await again.ready()
    await check_all_found(again)
    assert "moved to the partitions" not in caplog.text, "it is done once"
    await again.stop()


@pytest.mark.parametrize("moves", [0, 1, 5])
async def test_a_crash_between_the_two_partitions_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The node ends after a group is in its new partition and before it is taken out of the old one."""
    await written_by_the_former_rule(tmp_path, monkeypatch)
    remove = GroupShard.remove_group
    done: list[str] = []

    def fails(shard: GroupShard, token: object, group_id: str, now_ms: int) -> list[Effect]:
        if len(done) == moves:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the power is off")
        done.append(group_id)
        return remove(shard, token, group_id, now_ms)

    with monkeypatch.context() as broken:
        broken.setattr(GroupShard, "remove_group", fails)
        node = await started(tmp_path)
        while not (node.groups._loads and all(hosted.settled.is_set() for hosted in node.groups._loads)):
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        with pytest.raises(KafkaError) as refused:
            node.groups.find(MOVED[-1])
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "nobody is told half of it"
        stay = next(n for n in NAMES if n not in MOVED and not node.groups._led[former_partition(n, 3)].is_serving)
        with pytest.raises(KafkaError) as refused:
            CoordinatorHost.find(node.groups, stay)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "nor of those that stay"
        await node.stop()

    after = await started(tmp_path)
    await after.ready()
    await check_all_found(after)
    await after.stop()


async def test_the_later_of_two_commits_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka has written into the directory after an earlier version of ours: a later commit, and a deletion."""
    await written_by_the_former_rule(tmp_path, monkeypatch)
    with monkeypatch.context() as kafka:
        kafka.setattr(misplaced_groups, "coordinator_partition", former_partition)  # nothing is moved
        kafka.setattr("tests.unit.node.group_node.NOW_MS", 1_700_000_100_000)
        node = await started(tmp_path)
        await node.ready()
        await ask(offset_commit, node, 8, commit_request(1000, MOVED[1]))
        await ask(offset_commit, node, 8, commit_request(7, MOVED[1], partition=1))
        await node.stop()
    after = await started(tmp_path)
    await after.ready()
    assert await committed(after, MOVED[1]) == {("flights", 0): 1000, ("flights", 1): 7}
    assert await committed(after, MOVED[2]) == {("flights", 0): NAMES.index(MOVED[2])}
    await ask(delete_groups, after, 2, DeleteGroupsRequest(groups_names=[MOVED[1]]))
    assert await committed(after, MOVED[1]) == {}
    await after.stop()


async def test_groups_of_nodes_that_do_not_answer_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await written_by_the_former_rule(tmp_path, monkeypatch)
    node = await started(tmp_path, leaders=(1, 2, 2))
    await node.ready()
    await node.stop()
    node = await started(tmp_path)
    await node.ready()
    await check_all_found(node)
    await node.stop()


async def test_groups_that_no_version_of_ours_put_there_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changed the number of partitions: such a group is nobody's, here as in Kafka."""
    with monkeypatch.context() as other:
        other.setattr(host, "coordinator_partition", lambda name, partitions: 0)
        other.setattr(misplaced_groups, "coordinator_partition", lambda name, partitions: 0)
        node = await started(tmp_path)
        await node.ready()
        for name in NAMES:
            await ask(offset_commit, node, 8, commit_request(1, name))
        await node.stop()
    node = await started(tmp_path)
    await node.ready()
    hosted = node.groups.hosted(0)
    assert hosted is not None
    moved = [name for name in MOVED if former_partition(name, PARTITIONS) == 0]
    assert moved
    assert sorted(hosted.machine.group_ids()) == sorted(set(NAMES) - set(moved))
    await node.stop()


async def test_a_group_is_not_served_before_it_has_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition where it belongs serves already, the one where it lies does not."""
    await written_by_the_former_rule(tmp_path, monkeypatch)
    remove = GroupShard.remove_group

    def fails(shard: GroupShard, token: object, group_id: str, now_ms: int) -> list[Effect]:
        if former_partition(group_id, PARTITIONS) == 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is away")
        return remove(shard, token, group_id, now_ms)

    monkeypatch.setattr(GroupShard, "remove_group", fails)
    node = await started(tmp_path)
    hosted = node.groups.hosted(2)
    assert hosted is not None
    while not hosted.is_serving:
        await asyncio.sleep(0)
    group = next(
        name
        for name in MOVED
        if former_partition(name, PARTITIONS) == 0 and coordinator_partition(name, PARTITIONS) == 2
    )
    with pytest.raises(KafkaError) as refused:
        node.groups.find(group)
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await node.stop()
