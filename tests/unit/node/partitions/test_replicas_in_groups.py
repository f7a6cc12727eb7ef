"""What a node holds of partitions that a storage group replicates: they come and go with the group, and are its own."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, node_on, topic_records
from tests.unit.node.stepped_delivery import Told
from tests.unit.node.stepped_replicas import ID, Table, image_of, replicas_of, topic_of

from penstock.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.node.partitions.partition import Partition
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.replication.storage_groups.entries import PartitionId

GROUPS_ID = UUID(int=70)
METADATA = (
    TopicRecord(name=STORAGE_GROUPS, topic_id=GROUPS_ID),
    PartitionRecord(partition_id=0, topic_id=GROUPS_ID, replicas=[NODE_ID], isr=[NODE_ID], leader=-1, leader_epoch=0),
    *topic_records(partitions=2, storage_group="0"),
)


NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


class Group:
    """The group's replica here, and the group: it has those partitions that a test says."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_running = self.leads = self.can_be_read = True
        self.hand_over = None
        self.proposer = SimpleNamespace(gives_way=False)
        self.partitions: dict[PartitionId, GroupPartition] = {}
        self.own_log = cast("Any", object())

    @property
    def group(self) -> "Group":
        return self

    def member(self, topic_id: UUID, number: int) -> GroupPartition | None:
        return self.partitions.get(PartitionId(topic_id, number))

    def has(self, index: int) -> GroupPartition:
        """It has it, or another log of it, from now on."""
        log = self.node.directories.create("orders", index, TOPIC_ID, self.node.replicas.config_of("orders"))
        found = self.partitions[PartitionId(TOPIC_ID, index)] = GroupPartition(PartitionId(TOPIC_ID, index), "o", log)
        self.node.replicas.on_group(TOPIC_ID, index)
        return found

    def has_no_longer(self, index: int) -> None:
        del self.partitions[PartitionId(TOPIC_ID, index)]
        self.node.replicas.on_group(TOPIC_ID, index)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path) as node:
        yield node


def joined(node: Node) -> Group:
    group, groups = Group(node), node.broker.storage_groups
    groups.by_number[0] = groups.by_topic[TOPIC_ID] = cast("Any", group)
    node.commit(*METADATA)
    return group


def held(node: Node) -> list[int]:
    return [partition.index for partition in node.table if partition.topic == "orders"]


def test_a_partition_is_held_as_long_as_its_group_has_it(node: Node) -> None:
    group = joined(node)
    assert held(node) == []
    member = group.has(1)
    assert held(node) == [1]
    partition = node.table.get("orders", 1)
    assert isinstance(partition, ConsensusPartition)
    assert (partition.member, partition.log) == (member, member.log)
    assert partition.group is cast("Any", group)
    assert (partition.leader is not None, partition.leader_epoch, partition.topic_id) == (True, 3, TOPIC_ID)
    dropped: list[Partition] = []
    node.replicas.dropped.listen(dropped.append)
    node.replicas.on_group(TOPIC_ID, 1)
    assert (node.table.get("orders", 1), dropped) == (partition, []), "it is the one it was"
    group.has_no_longer(1)
    assert (held(node), dropped) == ([], [partition])
    assert (partition.leader, member.observer) == (None, None)
    assert ("orders", 1) in node.directories.logs, "its log is the group's to delete"


def test_another_log_of_a_partition_is_another_replica(node: Node) -> None:
    group = joined(node)
    group.has(0)
    before = node.table.get("orders", 0)
    member = group.has(0)
    after = node.table.get("orders", 0)
    assert after is not before
    assert isinstance(after, ConsensusPartition)
    assert after.member is member
    assert before is not None
    assert (before.leader, member.observer) == (None, after)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_group_that_does_not_run_here_has_nothing(node: Node, is_gone: bool) -> None:
    group = joined(node)
    group.has(0)
    group.is_running = False
    if is_gone:
        node.broker.storage_groups.by_topic.clear()
    node.replicas.on_group(TOPIC_ID, 0)
    assert held(node) == []


def test_a_group_may_be_ahead_of_the_metadata(node: Node) -> None:
    group, groups = Group(node), node.broker.storage_groups
    groups.by_topic[TOPIC_ID] = cast("Any", group)
    node.replicas.on_group(TOPIC_ID, 0)
    assert held(node) == []
    log = node.directories.create("orders", 0, TOPIC_ID, node.replicas.config_of("orders"))
    group.partitions[PartitionId(TOPIC_ID, 0)] = GroupPartition(PartitionId(TOPIC_ID, 0), "orders", log)
    node.commit(*METADATA)
    assert held(node) == [0]


def test_what_a_group_says_concerns_no_partition_that_is_replicated_by_the_isr(node: Node) -> None:
    node.commit(*topic_records())
    before = node.table.get("orders", 0)
    assert before is not None
    node.replicas.on_group(TOPIC_ID, 0)
    assert node.table.get("orders", 0) is before
    node.replicas.on_group(UUID(int=99), 0)
    node.replicas.on_group(TOPIC_ID, 5)
    assert held(node) == [0]


def test_a_deleted_topic_is_not_held_whatever_its_group_says(node: Node) -> None:
    group = joined(node)
    group.has(0)
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    node.replicas.on_group(TOPIC_ID, 0)
    assert list(node.table) == []


def test_what_may_lie_in_a_directory_that_is_offline_is_told_to_who_asks(node: Node) -> None:
    group = joined(node)
    topic = node.image.topics["orders"]
    assert node.replicas.hold_missing(topic, 0) is None, "the group gets it in a moment"
    node.replicas.offline[TOPIC_ID, 0] = None
    with pytest.raises(KafkaError) as refused:
        node.replicas.hold_missing(topic, 0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.replicas.hold_missing(topic, 1) is None
    group.has(0)
    assert node.replicas.offline == {}, "it lies elsewhere"


def test_which_groups_are_here(node: Node) -> None:
    group, groups = joined(node), node.broker.storage_groups
    found: list[Any] = [groups.group(0), groups.group_of(TOPIC_ID), groups.own_log(0)]
    assert found == [group, group, group.own_log]
    assert [groups.group(1), groups.group_of(GROUPS_ID), groups.own_log(1)] == [None] * 3
    member = group.has(0)
    assert groups.is_member(member.log)
    assert not groups.is_member(group.own_log)
    group.is_running = False
    found = [groups.group(0), groups.group_of(TOPIC_ID), groups.own_log(0)]
    assert found == [None, None, group.own_log]


@pytest.mark.parametrize(
    ("has_group", "has_member", "is_offline", "found"),
    [(True, True, False, True), (True, True, True, True), (True, False, False, None), (False, False, False, None),
     (True, False, True, NO_ROOM), (False, True, True, NO_ROOM)],
)  # fmt: skip
def test_a_replica_of_a_group(
    monkeypatch: pytest.MonkeyPatch, has_group: bool, has_member: bool, is_offline: bool, found: Any
) -> None:
    member = object() if has_member else None
    group = SimpleNamespace(member=lambda topic_id, index: member if (topic_id, index) == (ID, 0) else None)
    one = replicas_of(Told(), offline={(ID, 0): None} if is_offline else {})
    one._groups.group_of = lambda topic_id: group if has_group else None
    path = "penstock.node.partitions.consensus_partition.ConsensusPartition"
    monkeypatch.setattr(path, lambda *given: given)
    if isinstance(found, Exception):
        with pytest.raises(KafkaError, match="offline"):
            one._by_consensus("t", 0, ID)
    else:
        assert one._by_consensus("t", 0, ID) == (("t", 0, ID, group, member) if found else None)


@pytest.mark.parametrize(
    ("is_there", "owns_log", "group", "is_dropped"),
    [
        (True, False, "same", False),
        (True, False, "other", True),
        (True, False, "no member", True),
        (True, False, "no group", True),
        (True, True, "other", False),
        (False, False, "other", False),
    ],
)
def test_a_group_has_a_partition_another_log_of_it_or_no_longer(
    monkeypatch: pytest.MonkeyPatch, is_there: bool, owns_log: bool, group: str, is_dropped: bool
) -> None:
    told, committed = Told(), object()
    partition: Any = SimpleNamespace(topic="t", index=0, topic_id=ID, owns_log=owns_log, committed=committed)
    member = SimpleNamespace(committed=committed if group == "same" else object()) if group != "no member" else None
    one = replicas_of(told, Table(partition), topic_of(*([image_of()] if is_there else [])), _drop=told.does("drop"))
    found = SimpleNamespace(member=lambda *_: member) if group != "no group" else None
    one._groups.group_of = lambda topic_id: found
    one.on_group(ID, 0)
    told_of = [*([("drop", partition)] if is_dropped else []), ("to do", [(ID, 0)]), ("work",)]
    assert told == (told_of if is_there else [])
