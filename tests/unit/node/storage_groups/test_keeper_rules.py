"""What a node does with its storage groups at once, when something has woken their keeper."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.storage_groups.keeping import GROUP, GROUPS_ID, ME, ORDERS_ID, OTHER, KeepingNode, keeping
from tests.unit.node.storage_groups.test_keeper import orders
from tests.unit.node.turns import until

from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import ConfigRecord, PartitionRecord, RegisterBrokerRecord
from penstock.metadata.topics import PartitionImage
from penstock.node.storage_groups import failed_replicas, start
from penstock.node.storage_groups import keeper as module
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.raft.log_name import LogName
from penstock.replication.storage_groups.entries import PartitionId

THIRD = OTHER + 1
ORDERS = PartitionId(ORDERS_ID, 0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has gone is deleted as soon as somebody looks."""
    monkeypatch.setattr(failed_replicas, "RETRY_S", 0)


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are looked at when something has woken their keeper, and not after a while."""
    monkeypatch.setattr(module, "LOOK_S", 3_600)


def settled(node: KeepingNode) -> bool:
    keeper = node.keeper
    return not keeper._changed and not keeper._settling and not keeper._wake.is_set()


def another_group(node: KeepingNode, number: int, *replicas: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number, topic_id=GROUPS_ID, replicas=list(replicas), isr=list(replicas), leader=-1,
        leader_epoch=0, directories=[node.directory_id for _ in replicas],
    )  # fmt: skip


@pytest.mark.usefixtures("at_once")
async def test_what_the_metadata_change_is_done_without_a_look(tmp_path: Path) -> None:
    """A topic gets partitions before it is in a group, and some more afterwards; a group comes, and others go."""
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        topic, config, partition = orders()
        node.commit(topic, partition)
        await until(lambda: settled(node))
        assert replica.group.partitions == {}
        node.commit(config)
        await until(lambda: ORDERS in replica.group.partitions)
        node.on_groups.clear()
        node.commit(PartitionRecord(partition_id=1, topic_id=ORDERS_ID, replicas=[ME], isr=[ME], leader=-1))
        await until(lambda: PartitionId(ORDERS_ID, 1) in replica.group.partitions)
        assert node.on_groups == [(ORDERS_ID, 1)], "of the other one nothing is new"
        node.commit(another_group(node, 7, ME))
        await until(lambda: 7 in node.groups.by_number)
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: list(node.groups.by_number) == [7])
        assert node.groups.by_topic == {}
        await until(lambda: settled(node))
        assert (node.keeper._due, node.keeper._new) == ({}, {})


@pytest.mark.usefixtures("at_once")
async def test_a_group_of_another_topic_stays_where_it_is_when_one_goes(tmp_path: Path) -> None:
    async with keeping(tmp_path, *orders()) as node:
        node.commit(another_group(node, 7, ME))
        await until(lambda: {*node.groups.by_number} == {GROUP, 7})
        replica = await node.replica()
        seven = node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER)
        seven.partition_id = 7
        node.commit(seven)
        await until(lambda: list(node.groups.by_number) == [GROUP])
        assert node.groups.by_topic == {ORDERS_ID: replica}


async def test_a_topic_in_no_group_or_of_a_group_that_is_not_here_is_nobodys(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        await node.replica()
        await until(lambda: settled(node))
        topic, _, partition = orders()
        node.commit(topic, partition)
        assert node.keeper._changed == {}
        config = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="orders", name="storage.group", value="9")
        node.commit(config)
        await until(lambda: settled(node))
        assert list(node.groups.by_number) == [GROUP]


@pytest.mark.usefixtures("at_once")
async def test_a_new_image_says_where_groups_are(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        await node.replica()
        node.commit(another_group(node, 7, ME))
        await until(lambda: 7 in node.groups.by_number)
        await until(lambda: settled(node))
        image = ClusterImage("test")
        for record in (*node.image.records(), node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER)):
            image.apply(record)
        node.image.become(image)
        node.keeper.on_new_image()
        await until(lambda: list(node.groups.by_number) == [7])


async def test_only_a_group_that_begins_with_a_replica_here_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this node runs. One that comes here later may have votes of a replica that was here before."""
    begun, begin = dict[int, bool](), start.start_replica

    async def starting(name: LogName, *given: Any, is_new: bool) -> GroupReplica:
        begun[name.partition] = is_new
        return await begin(name, *given, is_new=is_new)

    monkeypatch.setattr(start, "start_replica", starting)
    async with keeping(tmp_path) as node:
        node.commit(another_group(node, 7, ME), another_group(node, 8, OTHER))
        await until(lambda: 7 in begun)
        comes = node.change(replicas=[ME, OTHER])
        comes.partition_id = 8
        node.commit(comes)
        await until(lambda: 8 in begun)
        assert begun == {GROUP: False, 7: True, 8: False}
        await until(lambda: settled(node))
        assert node.keeper._new == {}


async def test_a_group_that_failed_is_no_concern_of_this_node_once_it_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is tried again when it comes back."""
    tried = list[int]()

    async def starting(name: LogName, *_: Any, **__: Any) -> GroupReplica:
        tried.append(name.partition)
        raise ValueError("damaged")

    monkeypatch.setattr(start, "start_replica", starting)
    async with keeping(tmp_path) as node:
        assert node.keeper._count_offline() == 1
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: settled(node))
        assert node.keeper._count_offline() == 0
        node.commit(node.change(replicas=[OTHER, ME]))
        await until(lambda: settled(node))
        assert tried == [GROUP, GROUP]


@pytest.mark.usefixtures("at_once")
async def test_a_replica_that_failed_goes_with_its_group(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        replica.quorum.on_failure(ValueError("damaged"))
        assert GROUP in node.keeper._failed
        node.commit(node.change(replicas=[OTHER], isr=[OTHER], leader=OTHER))
        await until(lambda: not node.groups.by_number)
        assert GROUP not in node.keeper._failed


async def test_a_replica_that_took_part_meanwhile_is_complained_of_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin, fates = start.start_replica, [True, True, False, True, False]

    async def starting(*given: Any, **named: Any) -> GroupReplica:
        if fates.pop(0):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        return await begin(*given, **named)

    monkeypatch.setattr(start, "start_replica", starting)
    monkeypatch.setattr(module, "LOOK_S", 0)
    monkeypatch.setattr("penstock.node.storage_groups.failed_replicas.RETRY_S", 0)
    async with keeping(tmp_path) as node:
        first = await node.replica()
        first.quorum.on_failure(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
        await until(lambda: node.groups.by_number.get(GROUP) not in (None, first))
    told = [one for one in caplog.messages if one == "this node takes no part in storage group 0: no room"]
    assert (len(told), fates) == (2, [])


async def test_a_replica_that_is_due_is_begun_anew_once(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        await until(lambda: settled(node))
        node.keeper._due[GROUP] = None
        node.commit(node.change())
        await until(lambda: node.groups.by_number.get(GROUP) not in (None, replica))
        again = node.groups.by_number[GROUP]
        node.commit(node.change())
        await until(lambda: settled(node))
        assert node.groups.by_number == {GROUP: again}


async def test_a_claim_of_a_lead_that_is_lost_is_taken_back(tmp_path: Path) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        node.keeper._wake.set()
        await until(lambda: not node.controller.claims.empty())
        _, done = node.controller.claims.get_nowait()
        assert replica.claiming is done
        replica.quorum.resign()
        await until(lambda: not replica.leads or replica.claiming is not done)
        assert done.cancelled()


async def test_who_leads_hands_nothing_over_where_it_shall_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupKeeper, "_heard", lambda *_: {OTHER})
    async with keeping(tmp_path) as node:
        await node.replica()
        node.image.apply(node.change(replicas=[ME, OTHER]))
        await node.keeper.resign(hand_over=False)  # who is asked to take it fails


async def test_connections_are_made_once_and_closed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, closed = list[object](), list[object]()
    links = KeepingNode.links

    def making(node: KeepingNode) -> Any:
        made.append(found := links(node))
        return found

    async def close(found: object) -> None:
        closed.append(found)

    monkeypatch.setattr(KeepingNode, "links", making)
    monkeypatch.setattr("tests.unit.node.storage_groups.test_keeper.NoOthers.close", close)
    async with keeping(tmp_path, *orders()) as node:
        node.commit(another_group(node, 7, ME))
        await until(lambda: 7 in node.groups.by_number)
        assert (len(made), closed) == (1, [])
        assert list(node.groups.by_topic) == [ORDERS_ID]
    assert closed == made
    assert node.groups.by_topic == {}


async def test_groups_whose_logs_are_long_are_shortened_when_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keeping(tmp_path) as node:
        replica = await node.replica()
        replica.group.bytes_since_snapshot = replica._snapshot_bytes
        begins = replica.quorum.log_start_offset
        node.keeper._wake.set()
        await until(lambda: replica.quorum.log_start_offset > begins)


async def test_a_broker_that_is_not_there_stands_for_no_group(tmp_path: Path) -> None:
    """The first of the replicas that is."""
    fenced = RegisterBrokerRecord(broker_id=OTHER, broker_epoch=6, fenced=True)
    node = KeepingNode(tmp_path)
    try:
        for record in (*node.begin(), fenced):
            node.image.apply(record)
        for replicas, first in (([OTHER, ME], ME), ([9, ME], ME), ([OTHER, 9], None), ([ME, OTHER], ME)):
            assert start._first(PartitionImage(-1, 0, 0, tuple(replicas), ()), node.image) == first
    finally:
        node.directories.close()


async def test_logs_of_topics_are_not_taken_for_those_of_groups(tmp_path: Path) -> None:
    """Whatever the number of their partition."""
    node = KeepingNode(tmp_path)
    for record in (*node.begin(), another_group(node, 7, OTHER)):
        node.image.apply(record)
    node.directories.create("orders", 7, ORDERS_ID, node.config_of(""))
    node.directories.create(STORAGE_GROUPS, GROUP, GROUPS_ID, node.config_of(""))
    try:
        await node.keeper.start()
        assert {*node.directories.logs} == {("orders", 7), (STORAGE_GROUPS, GROUP)}
        await node.keeper.stop()
    finally:
        node.directories.close()
