"""What a node makes of a partition that its storage group replicates: who may ask it, and what it asks of the group."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.log.logs import append, batch, open_log

from penstock.log.config import LogConfig
from penstock.log.validation import CLIENT, AppendResult
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.node.partitions.partition import ALL_REPLICAS, NotAppendingError, Partition
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.storage_groups.proposer import Place

ME, OTHER = 1, 2
ID = PartitionId(UUID(int=7), 0)


class Group:
    """As much of a storage group as its partitions look at; it notes what it is asked for."""

    def __init__(self) -> None:
        self.leads = self.can_be_read = True
        self.hand_over: Any = None
        self.proposer = SimpleNamespace(gives_way=False, end_of=lambda partition, end: (partition, end))
        self.place = Place(3, 5, False, 1_234)
        self.asked: list[tuple[object, ...]] = []

    def append(self, partition: PartitionId, batches: memoryview, *, leader_epoch: int, origin: object) -> Place:
        self.asked.append(("append", partition, bytes(batches), leader_epoch, origin))
        return self.place

    def begin_at(self, partition: PartitionId, offset: int) -> None:
        self.asked.append(("begin", partition, offset))

    def check_marker(self, *given: object) -> None:
        self.asked.append(("marker", *given))


class Delivery:
    """Delivers nothing."""

    def __init__(self) -> None:
        self.proposals: list[memoryview] = []
        self.is_over = False
        self.needed_from = 1 << 60

    def proposed(self, batch: memoryview) -> None:
        self.proposals.append(batch)

    def stop(self) -> None:
        self.is_over = True


class One:
    """A partition whose log has two batches, at the offsets 0 and 1."""

    def __init__(self, path: Path) -> None:
        self.log = open_log(path, LogConfig(segment_bytes=100, retention_bytes=0))
        for _ in range(2):
            append(self.log, batch(1))
        self.group = Group()
        self.member = GroupPartition(ID, "orders", self.log)
        self.partition = self.another()

    def another(self) -> ConsensusPartition:
        return ConsensusPartition("orders", 0, ID.topic_id, cast("Any", self.group), self.member)

    def obey(self, leader: int, leader_epoch: int = 4) -> None:
        image = PartitionImage(leader, leader_epoch, 0, (ME, OTHER), (ME, OTHER))
        self.partition.obey(ME, image, 0)

    @property
    def leader(self) -> PartitionLeader:
        leader = self.partition.leader
        assert leader is not None
        return leader


@pytest.fixture
def one(tmp_path: Path) -> Iterator[One]:
    found = One(tmp_path)
    yield found
    found.log.abandon()


def refusal(partition: Partition, epoch: int = -1) -> ErrorCode | None:
    codes = list[ErrorCode | None]()
    for check in (partition.check_leader, partition.check_replica):
        try:
            check(epoch)
            codes.append(None)
        except KafkaError as error:
            codes.append(error.code)
    assert codes[0] == codes[1], "only the leader answers consumers"
    return codes[0]


def test_who_leads_needs_the_metadata_the_group_and_its_lease(one: One) -> None:
    assert refusal(one.partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.obey(ME)
    assert refusal(one.partition) is None
    assert (one.partition.role, one.partition.high_watermark) == (one.leader, 2)
    assert (one.leader.replicas, one.leader.isr) == ((ME,), (ME,)), "nobody has to fetch it"
    assert refusal(one.partition, 3) == ErrorCode.FENCED_LEADER_EPOCH
    one.group.can_be_read = False
    assert refusal(one.partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (one.partition.role, one.partition.leader) == (None, one.leader), "it leads, if it gets its lease again"
    one.group.leads = False
    assert one.partition.leader is None
    assert refusal(one.partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.group.leads = one.group.can_be_read = True
    one.obey(OTHER, 5)
    assert (one.partition.leader, one.partition.role) == (None, one.partition.follower)
    assert one.partition.follower is not None
    assert refusal(one.partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_group_appends(one: One) -> None:
    records = memoryview(bytearray(batch(3)))
    with pytest.raises(NotAppendingError):
        one.partition.append(records, acks=1, now_ms=0)
    one.obey(ME)
    assert one.partition.append(records, acks=1, now_ms=0) == AppendResult(3, 5, -1, 0, False)
    assert one.group.asked == [("append", ID, bytes(records), 4, CLIENT)]
    traffic = one.partition.traffic
    assert (traffic.produces, traffic.bytes_in, traffic.records_in) == (1, len(records), 3)
    one.group.place = Place(0, 0, True, 77)
    one.log.config = LogConfig(message_timestamp_type="LogAppendTime")
    assert one.partition.append(records, acks=1, now_ms=0) == AppendResult(0, 0, 77, 0, True)
    assert (traffic.produces, traffic.bytes_in, traffic.records_in) == (2, len(records), 3)
    one.group.proposer.gives_way = True
    with pytest.raises(NotAppendingError):
        one.partition.append(records, acks=1, now_ms=0)
    one.group.proposer.gives_way, one.group.leads = False, False
    with pytest.raises(NotAppendingError):
        one.partition.append(records, acks=1, now_ms=0)


def test_the_group_is_asked_for_what_the_partition_does_not_do(one: One) -> None:
    one.obey(ME)
    one.partition.begin_at(0)
    assert one.group.asked == [], "it begins there"
    one.partition.begin_at(1)
    header = read_header(batch(1))
    one.partition.check_marker(header, 8, 2)
    assert one.group.asked == [("begin", ID, 1), ("marker", ID, header, 8, 2)]
    one.group.hand_over = object()
    assert one.partition.hand_over is one.group.hand_over
    next_offset: Any = one.partition.next_offset
    assert next_offset == (ID, one.member)
    assert one.partition.growth is one.member.committed.waits
    assert one.leader.deletions is one.member.deletions


@pytest.mark.parametrize("delivers", [True, False])
def test_where_records_wait_the_leader_tells_the_group_what_retention_took(one: One, delivers: bool) -> None:
    one.obey(ME)
    one.log.config = LogConfig(segment_bytes=100, retention_bytes=0, penstock_delay_enable=delivers)
    if delivers:
        one.partition.delivery = cast("Any", Delivery())
    assert one.partition.retain(0) > 0
    begins = one.log.log_start_offset
    assert begins > 0
    assert one.group.asked == ([("begin", ID, begins)] if delivers else [])
    assert one.partition.retain(0) == 0
    assert len(one.group.asked) == delivers, "nothing was taken"


async def test_what_waits_is_delivered_anew_when_the_lead_changes(one: One) -> None:
    one.obey(ME)
    one.partition.lead_changed()
    first, turns = Delivery(), cast("Any", SimpleNamespace(now_ms=lambda: 0, add=id, discard=id))
    one.partition.delivery = cast("Any", first)
    one.partition.proposed(memoryview(b"batch"))
    assert first.proposals == [b"batch"]
    one.partition.deliver(turns)
    assert one.partition.delivery is cast("Any", first)
    one.partition.lead_changed()
    assert (first.is_over, one.partition.delivery) == (True, None)
    one.partition.proposed(memoryview(b"batch"))
    one.log.config = LogConfig(penstock_delay_enable=True)
    one.partition.lead_changed()
    assert one.partition.delivery is not None
    one.group.leads = False
    one.partition.lead_changed()
    assert one.partition.delivery is None
    one.group.leads = True
    one.partition.delivery = cast("Any", second := Delivery())
    one.obey(OTHER, 5)
    assert (second.is_over, one.partition.delivery) == (True, None)


def test_the_group_tells_the_partition_that_came_last(one: One) -> None:
    assert one.member.observer is one.partition
    later = one.another()
    one.partition.end()
    assert one.member.observer is later
    one.partition = later
    one.obey(ME)
    later.end()
    assert one.member.observer is None
    assert later.leader is None


@pytest.mark.parametrize("acks", [1, ALL_REPLICAS])
def test_what_is_appended_is_safe_when_the_group_has_agreed(one: One, acks: int) -> None:
    one.obey(ME)
    assert [one.partition.lacks(offset, acks) for offset in (1, 2)] == [False, True]
    assert one.partition.waits_of(acks) is one.member.committed.waits


def test_who_waits_looks_again_in_each_epoch(one: One) -> None:
    assert not one.partition.owns_log
    woken: list[int] = []
    for epoch, leader in enumerate((OTHER, ME, ME, OTHER)):
        one.obey(leader, epoch)
        one.member.committed.waits.add(9, partial(woken.append, epoch))
        assert woken == list(range(epoch))
    one.partition.end()
    assert woken == [0, 1, 2, 3]


async def test_who_delivers_waits_for_each_growth_of_the_log_anew(one: One) -> None:
    one.obey(ME)
    one.log.config = LogConfig(penstock_delay_enable=True)
    one.partition.deliver(cast("Any", SimpleNamespace(now_ms=lambda: 0, add=id, discard=id)))
    delivery, growth = cast("Any", one.partition.delivery), one.partition.growth
    for _ in range(2):
        delivery._wait_for_growth()
        delivery._wait_for_growth()
        assert len(growth) == 1
        for waiter in growth.take_due(3):
            waiter()
    delivery._wait_for_growth()
    delivery.stop()
    assert len(growth) == 0
