"""What a node makes of its storage groups as the metadata change: it takes part, leads, claims, and goes."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.lone_group import CONFIG
from tests.unit.node.storage_groups.keeping import (
    GROUP,
    GROUPS_ID,
    ME,
    ORDERS_ID,
    OTHER,
    KeepingNode,
    NoOthers,
    keeping,
)
from tests.unit.node.turns import until

from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ResourceType
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.node.metrics.registry import Group
from penstock.node.storage_groups import failed_replicas
from penstock.node.storage_groups import keeper as module
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.links import GroupLinks
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.raft.machine import Raft
from penstock.raft.requests import Answer


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are looked at without a pause."""
    monkeypatch.setattr(module, "LOOK_S", 0)


async def test_a_group_that_begins_to_lead_is_claimed_until_the_metadata_name_it(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        first = await node.claim(ErrorCode.NOT_CONTROLLER)
        replica = await node.replica()
        assert (first.group, first.broker_id, first.broker_epoch) == (GROUP, ME, 5)
        assert (first.group_epoch, first.caught_up) == (replica.group.proposer.epoch, [ME])
        await node.claim()
        node.commit(node.change(leader=ME, isr=[ME]))
        await asyncio.sleep(0)
        while not node.controller.claims.empty():
            await node.claim()
        assert replica.claim(node.image, ME, 10_000) is None


async def test_voters_change_only_while_the_metadata_name_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim of the leader before could end a move of which it knows nothing."""
    wanted: list[list[int]] = []
    monkeypatch.setattr(GroupReplica, "change_voters", lambda _, nodes, within_ms: wanted.append(list(nodes)))
    async with keeping(tmp_path) as node:
        node.commit(node.change(replicas=[ME, OTHER], adding_replicas=[OTHER]))
        await node.claim()
        await node.claim()
        assert wanted == []
        node.commit(node.change(leader=ME, isr=[ME]))
        await until(lambda: wanted)
        assert wanted[0] == [ME, OTHER]
        node.commit(node.change(removing_replicas=[ME]))
        await until(lambda: wanted[-1] == [OTHER])


async def test_a_claim_while_voters_change_is_of_no_epoch_of_the_partition(tmp_path: Path) -> None:
    """Else its voters, who are those of a moment ago, would end the move for which they change."""
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        claim = replica.claim(node.image, ME, 10_000)
        assert claim is not None
        assert claim.partition_epoch == 3
        replica._changing = asyncio.get_running_loop().create_future()
        claim = replica.claim(node.image, ME, 10_000)
        assert claim is not None
        assert claim.partition_epoch == -1
        replica._changing.set_result(cast("Answer", None))
        claim = replica.claim(node.image, ME, 10_000)
        assert claim is not None
        assert claim.partition_epoch == 3


async def test_logs_of_a_group_that_goes_are_deleted_when_its_replica_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[tuple[str, bool]] = []
    delete = PartitionLogs.delete
    async with keeping(tmp_path) as node:
        node.commit(*orders())
        replica = await node.replica()
        await until(lambda: len(replica.logs()) == 2)

        def noted(logs: PartitionLogs, log: PartitionLog) -> None:
            deleted.append((log.topic, replica.is_running))
            delete(logs, log)

        monkeypatch.setattr(PartitionLogs, "delete", noted)
        monkeypatch.setattr(failed_replicas, "RETRY_S", 0)
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: len(deleted) == 2)
        assert sorted(deleted) == [(STORAGE_GROUPS, False), ("orders", False)]
        assert (node.groups.by_number, node.groups.by_topic) == ({}, {})
        assert node.on_groups[-1] == (ORDERS_ID, 0), "its partition is looked at anew"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and not path.name.endswith("-delete")] == []


async def test_a_replica_that_is_on_its_way_back_already_is_who_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader may have known of that before this node knew that it had left, and given it the vote."""
    async with keeping(tmp_path) as node:
        node.commit(*orders())
        replica = await node.replica()
        await until(lambda: len(replica.logs()) == 2)
        node.commit(node.change(leader=ME, isr=[ME]))
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: not replica.is_running and not node.keeper._settling)
        assert node.keeper._count_offline() == 0, "none is wanted here"
        back = node.change(replicas=[OTHER, ME], adding_replicas=[ME], directories=[UUID(int=9), node.directory_id])
        node.commit(back)
        monkeypatch.setattr(failed_replicas, "RETRY_S", 0)
        node.keeper._failed.put_off(GROUP)
        await until(lambda: node.groups.by_number.get(GROUP) not in (None, replica))
        again = node.groups.by_number[GROUP]
        assert again.quorum.local_key == replica.quorum.local_key
        assert again.own_log is replica.own_log
        assert again.own_log.log_end_offset > 0


def orders() -> Iterable[MetadataRecord]:
    """A topic of the group with one partition."""
    return (
        TopicRecord(name="orders", topic_id=ORDERS_ID),
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="orders", name="storage.group", value=str(GROUP)),
        PartitionRecord(partition_id=0, topic_id=ORDERS_ID, replicas=[ME], isr=[ME], leader=-1, leader_epoch=0),
    )


async def test_a_topic_comes_into_its_group_and_goes_with_its_deletion(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        node.commit(*orders())
        replica = await node.replica()
        await until(lambda: replica.group.partitions)
        assert node.groups.by_topic == {ORDERS_ID: replica}
        assert (ORDERS_ID, 0) in node.on_groups
        node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
        assert node.groups.by_topic == {}
        assert list(replica.group.removed) != []
        await until(lambda: not replica.group.removed)
        assert ("orders", 0) not in node.directories.logs


async def test_a_group_that_comes_while_the_node_runs_is_new(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        await node.replica()
        node.commit(
            PartitionRecord(
                partition_id=GROUP + 1, topic_id=GROUPS_ID, replicas=[ME], isr=[ME], leader=-1, leader_epoch=0,
                directories=[node.directory_id],
            )
        )  # fmt: skip
        await until(lambda: GROUP + 1 in node.groups.by_number)
        assert node.keeper._new == {}


async def test_a_replica_whose_log_cannot_be_opened_is_counted_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create = LogDirectories.create

    def refuse(*_: object, **__: object) -> PartitionLog:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    monkeypatch.setattr(LogDirectories, "create", refuse)
    monkeypatch.setattr("penstock.node.storage_groups.failed_replicas.RETRY_S", 0)
    async with keeping(tmp_path) as node:
        assert node.groups.by_number == {}
        assert node.keeper._count_offline() == 1
        assert "this node takes no part in storage group 0: no room" in caplog.messages
        monkeypatch.setattr(LogDirectories, "create", create)
        await node.replica()
        assert node.keeper._count_offline() == 0


async def test_a_node_that_is_not_heard_claims_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = asyncio.Event()
    leave = GroupKeeper._leave_to_others

    async def looks(keeper: GroupKeeper, *given: Any) -> None:
        await leave(keeper, *given)
        looked.set()

    monkeypatch.setattr(GroupKeeper, "_leave_to_others", looks)
    async with keeping(tmp_path, is_heard=False) as node:
        replica = await node.replica()
        await looked.wait()
        assert replica.leads, "no other voter can be asked"
        assert node.controller.claims.empty()


async def test_a_node_that_stops_resigns_and_claims_nothing(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        epoch = replica.group.proposer.epoch
        await node.keeper.resign(hand_over=False)
        assert not replica.leads
        while not node.controller.claims.empty():
            node.controller.claims.get_nowait()
        replica = await node.replica()
        assert replica.group.proposer.epoch != epoch, "the only voter leads again, as nobody else can"
        node.keeper._look_at(replica)
        assert node.controller.claims.empty()


@pytest.mark.parametrize(
    ("leader_id", "leader_epoch", "is_heard", "goes"),
    [
        (-1, 1, False, True),
        (ME, 1, False, False),
        (-1, 0, False, False),
        (-1, 1, True, False),
    ],
)
async def test_the_lead_goes_to_a_voter_that_can_claim_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leader_id: int, leader_epoch: int, is_heard: bool, goes: bool
) -> None:
    """Its metadata are newer than those here, and name no leader; and no controller hears this node."""
    asked, given = [], []

    async def signpost(_: GroupLinks, node_id: int, group: int) -> tuple[int, int]:
        asked.append(node_id)
        return leader_id, leader_epoch

    async def hand_over(_: KeepingNode, group: object, successor: int) -> bool:
        given.append(successor)
        return True

    monkeypatch.setattr(NoOthers, "signpost", signpost)
    monkeypatch.setattr(KeepingNode, "hand_over_group", hand_over)
    monkeypatch.setattr(GroupKeeper, "_heard", lambda *_: [OTHER])
    async with keeping(tmp_path, is_heard=is_heard) as node:
        node.commit(node.change(replicas=[ME, OTHER, OTHER + 1]))
        replica = await node.replica()
        await node.keeper._leave_to_others(replica, node.image.storage_groups[GROUP])
    assert {*asked} == {OTHER}, "nobody else was heard lately"
    assert {*given} == ({OTHER} if goes else set())


async def test_numbers_of_groups(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        metrics = {one.name: one for one in node.context.node.metrics if one.group is Group.STORAGE_GROUPS}
        told = {name: dict(one.samples()) for name, one in metrics.items()}
        assert told["GroupCount"] == told["LeaderCount"] == {(): 1}
        assert told["OfflineCount"] == {(): 0}
        assert told["leader"] == {(GROUP,): ME}
        assert told["epoch"] == {(GROUP,): replica.group.proposer.epoch}
        assert told["entries-per-proposal"] == {(GROUP,): 0}
        assert told["log-bytes"][(GROUP,)] > 0


@pytest.mark.parametrize(
    ("number", "topic_id", "stays"), [(7, GROUPS_ID, False), (7, UUID(int=99), True), (8, GROUPS_ID, True)]
)
async def test_what_left_while_the_node_was_away_is_deleted_if_it_is_this_clusters(
    tmp_path: Path, number: int, topic_id: UUID, stays: bool
) -> None:
    """Group 7 is another node's by now; of group 8 nothing is known."""
    node = KeepingNode(tmp_path)
    for record in node.begin():
        node.image.apply(record)
    elsewhere = PartitionRecord(
        partition_id=7, topic_id=GROUPS_ID, replicas=[OTHER], isr=[OTHER], leader=OTHER, leader_epoch=0
    )
    node.image.apply(elsewhere)
    node.directories.create(STORAGE_GROUPS, number, topic_id, CONFIG)
    try:
        await node.keeper.start()
        assert ((STORAGE_GROUPS, number) in node.directories.logs) is stays
        await node.keeper.stop()
    finally:
        node.directories.close()


async def test_a_topic_that_is_in_no_group_does_not_concern_it(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        topic, _, partition = orders()
        node.commit(topic, partition)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (node.groups.by_topic, replica.group.partitions) == ({}, {})
        node.commit(
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="gone", name="storage.group", value="0")
        )
        assert node.groups.by_topic == {}


@pytest.mark.parametrize(
    ("replicas", "leader_epoch", "stands"),
    [([ME], 0, True), ([OTHER, ME], 0, False), ([ME], 3, False)],
)
async def test_the_first_replica_of_a_group_that_has_not_begun_stands_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicas: list[int], leader_epoch: int, stands: bool
) -> None:
    stood: list[float] = []

    def stand_first(_: Raft, now_ms: float) -> list[object]:
        stood.append(now_ms)
        return []

    monkeypatch.setattr(Raft, "stand_first", stand_first)
    node = KeepingNode(tmp_path)
    for record in node.begin()[:-1]:
        node.image.apply(record)
    directories = [node.directory_id if replica == ME else UUID(int=50) for replica in replicas]
    group = PartitionRecord(
        partition_id=GROUP, topic_id=GROUPS_ID, replicas=replicas, isr=replicas, leader=-1, leader_epoch=leader_epoch,
        directories=directories,
    )  # fmt: skip
    node.image.apply(group)
    try:
        await node.keeper.start()
        assert bool(stood) is stands
        await node.keeper.stop()
    finally:
        node.directories.close()
