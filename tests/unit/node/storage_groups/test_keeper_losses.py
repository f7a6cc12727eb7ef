"""What a node does with its storage groups when a replica or a disk fails, it stops, or the image is another one."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.storage_groups.keeping import GROUP, GROUPS_ID, ME, ORDERS_ID, OTHER, KeepingNode, keeping
from tests.unit.node.storage_groups.test_keeper import orders
from tests.unit.node.turns import until

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, RegisterBrokerRecord, RemoveTopicRecord, TopicRecord
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.storage_groups import keeper as module
from penstock.node.storage_groups import partition_logs, start
from penstock.node.storage_groups.copying import LostRecordsError
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.storage_groups.entries import PartitionId

THIRD = OTHER + 1
ORDERS = PartitionId(ORDERS_ID, 0)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are looked at without a pause."""
    monkeypatch.setattr(module, "LOOK_S", 0)
    monkeypatch.setattr(module, "RESIGN_S", 0)
    monkeypatch.setattr("penstock.node.storage_groups.failed_replicas.RETRY_S", 0)


async def with_orders(node: KeepingNode) -> GroupReplica:
    """The group's replica, when it has the topic's partition."""
    replica = await node.replica()
    await until(lambda: ORDERS in replica.group.partitions)
    return replica


async def test_topics_that_a_start_finds_are_in_their_group(tmp_path: Path) -> None:
    async with keeping(tmp_path, *orders()) as node:
        assert node.groups.by_topic == {ORDERS_ID: await with_orders(node)}


async def test_a_partition_of_which_the_group_knew_first_is_looked_at_when_the_metadata_have_it(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        replica.group.open(ORDERS, "orders", 0)
        await with_orders(node)
        node.on_groups.clear()
        node.commit(*orders())
        assert node.on_groups == [tuple(ORDERS)]
        assert node.groups.by_topic == {ORDERS_ID: replica}


@pytest.mark.parametrize("topic_goes", [False, True])
async def test_what_has_left_its_group_goes_with_its_topic_or_with_the_group(
    tmp_path: Path, *, topic_goes: bool
) -> None:
    async with keeping(tmp_path, *orders()) as node:
        replica = await with_orders(node)
        replica.group.close(ORDERS)
        await until(lambda: ORDERS in replica.group.closed)
        assert ("orders", 0) in node.directories.logs
        if topic_goes:
            node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
        else:
            node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: ("orders", 0) not in node.directories.logs)
    assert [path.name for path in tmp_path.glob("orders-*") if not path.name.endswith("-delete")] == []


def another(node: KeepingNode, *records: MetadataRecord) -> None:
    """The image is replaced by one with these records as well."""
    image = ClusterImage("test")
    for record in (*node.image.records(), *records):
        image.apply(record)
    node.image.become(image)
    node.keeper.on_new_image()


async def test_a_new_image_brings_topics_into_their_group_and_takes_others_away(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        another(node, *orders())
        replica = await with_orders(node)
        assert node.groups.by_topic == {ORDERS_ID: replica}
        another(node, RemoveTopicRecord(topic_id=ORDERS_ID))
        assert (node.groups.by_topic, replica.group.partitions) == ({}, {})
        assert ("orders", 0) not in node.directories.logs
        await until(lambda: not replica.group.removed)


async def test_a_replica_that_fails_is_one_that_starts_anew(tmp_path: Path) -> None:
    async with keeping(tmp_path, *orders()) as node:
        replica = await with_orders(node)
        waiting = replica.group.acknowledged(ORDERS, 5)
        node.on_groups.clear()
        replica.quorum.on_failure(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
        assert waiting.done(), "nobody waits for its end"
        with pytest.raises(KafkaError):
            await waiting
        assert node.on_groups == [tuple(ORDERS)], "its partitions are looked at anew"
        assert GROUP in node.keeper._failed
        await until(lambda: node.groups.by_number.get(GROUP) not in (None, replica))
        assert not replica.is_running
        again = await with_orders(node)
        assert (node.groups.by_topic, GROUP in node.keeper._failed) == ({ORDERS_ID: again}, False)


async def test_a_replica_on_a_disk_that_is_lost_stops(tmp_path: Path) -> None:
    async with keeping(tmp_path, *orders()) as node:
        replica = await with_orders(node)
        node.keeper.on_directory_failed(str(tmp_path / "elsewhere"))
        await node.keeper._stopping.settle()
        assert replica.is_running
        node.on_groups.clear()
        node.keeper.on_directory_failed(str(tmp_path))
        await node.keeper._stopping.settle()
        assert not replica.is_running
        assert node.on_groups == [tuple(ORDERS)]
        assert node.keeper._count_offline() == 1


async def test_a_group_whose_disk_failed_can_leave_and_come_back_to_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoPeers, "send", lambda *_: None)  # nobody answers
    failed, other = tmp_path / "failed", tmp_path / "other"
    async with keeping(failed, *orders(), others=[other]) as node:
        lost, other_id = await with_orders(node), node.directories.roots.online_ids[1]
        node.commit(node.change(leader=ME, isr=[ME]))
        node.directories.roots[str(failed)].health.give_up(OSError("gone"), "reading")
        node.keeper.on_directory_failed(str(failed))
        await node.keeper._stopping.settle()
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: not node.groups.by_number)
        assert (node.groups.by_topic, node.keeper._count_offline()) == ({}, 0)
        node.commit(node.change(replicas=[OTHER, ME], adding_replicas=[ME], directories=[UUID(int=9), other_id]))
        await until(lambda: node.groups.by_number)
        again = node.groups.by_number[GROUP]
        assert again.is_running
        assert (lost.own_log.parent, again.own_log.parent) == (str(failed), str(other))


@pytest.mark.parametrize("has_others", [True, False])
async def test_what_a_disk_has_lost_is_copied_before_the_replica_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_others: bool
) -> None:
    lost, healed = (
        LostRecordsError([(cast("Any", SimpleNamespace(topic="t", id=ORDERS, end_offset=0)), 4)]),
        list[Any](),
    )
    starts = list[int]()

    async def starting(*given: Any, **named: Any) -> GroupReplica:
        starts.append(1)
        raise lost if len(starts) == 1 else ValueError("no more of this")

    async def copy_lost(lacking: object, others: object, *_: object) -> None:
        healed.append((lacking, others))

    monkeypatch.setattr(start, "start_replica", starting)
    monkeypatch.setattr("penstock.node.storage_groups.copying.copy_lost", copy_lost)
    change = KeepingNode.change(cast("Any", None), replicas=[ME, OTHER] if has_others else [ME])
    async with keeping(tmp_path, change) as node:
        await until(lambda: len(starts) == 2)
        assert node.keeper._count_offline() == 1
        assert healed == ([(lost.lacking, [OTHER])] if has_others else [])


async def test_a_node_that_stops_gives_the_lead_to_the_first_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    async def hand_over(_: KeepingNode, group: Any, successor: int) -> bool:
        given.append(successor)
        group.proposer.gives_way = successor == 4
        return True

    monkeypatch.setattr(KeepingNode, "hand_over_group", hand_over)
    monkeypatch.setattr(GroupKeeper, "_heard", lambda *_: {THIRD, 4, 5})
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        node.image.apply(node.change(replicas=[ME, OTHER, THIRD, 4, 5]))
        await node.keeper.resign(hand_over=True)
        assert given == [THIRD, 4], "node 2 was not heard, and node 4 leads now"
        given.clear()
        await node.keeper.resign(hand_over=False)
        assert given == []
        await node.keeper._give_away(replica, asyncio.Semaphore(1))
        assert given == [], "it leads no longer"


@pytest.mark.parametrize(
    ("leader", "isr", "fenced", "awaits"),
    [
        (ME, [ME, OTHER, THIRD], [], True),
        (OTHER, [ME, OTHER, THIRD], [], False),
        (ME, [ME, OTHER], [], False),
        (ME, [ME, OTHER, THIRD], [THIRD], False),
        (ME, [OTHER, THIRD], [], True),
        (ME, [ME, OTHER, 9], [], False),
    ],
)
def test_a_successor_is_awaited_where_enough_others_could_elect_one(
    tmp_path: Path, leader: int, isr: list[int], fenced: list[int], awaits: bool
) -> None:
    node = KeepingNode(tmp_path)
    try:
        for record in node.begin():
            node.image.apply(record)
        node.image.apply(RegisterBrokerRecord(broker_id=THIRD, broker_epoch=7, fenced=THIRD in fenced))
        node.image.apply(node.change(replicas=[ME, OTHER, THIRD], leader=leader, isr=isr))
        replica = cast("Any", SimpleNamespace(number=GROUP))
        assert node.keeper._awaits_successor(replica) is awaits
    finally:
        node.directories.close()


async def test_a_node_that_stops_waits_until_the_metadata_name_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []

    def awaits(_: GroupKeeper, replica: object) -> bool:
        looks.append(True)
        return len(looks) < 4

    monkeypatch.setattr(module, "RESIGN_S", 3_600)
    monkeypatch.setattr(module, "RESIGN_LOOK_S", 0)
    monkeypatch.setattr(GroupKeeper, "_awaits_successor", awaits)
    async with keeping(tmp_path) as node:
        await node.replica()
        await node.keeper.resign(hand_over=True)
        assert len(looks) == 4
        looks.clear()
        await node.keeper.resign(hand_over=False)
        assert len(looks) == 1, "nobody is to lead instead"


async def test_the_log_of_a_group_is_deleted_with_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a topic that is not in the metadata, or whose log cannot be claimed, nothing is."""
    deleted: list[object] = []

    def refuse(*_: object) -> bool:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    monkeypatch.setattr(PartitionLogs, "delete", lambda _, log: deleted.append(log))
    node = KeepingNode(tmp_path)
    try:
        node.image.apply(TopicRecord(name="__storage_groups", topic_id=GROUPS_ID))
        log = node.directories.create("__storage_groups", 3, UUID(int=8), node.config_of(""))
        monkeypatch.setattr(type(node.directories), "claim", refuse)
        with pytest.MonkeyPatch.context() as names:
            names.setattr(partition_logs, "STORAGE_GROUPS", "__storage_groups")
            node.keeper._logs.delete_left(log)
        assert deleted == []
    finally:
        node.directories.close()
