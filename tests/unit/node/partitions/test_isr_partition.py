"""What a partition tells those who look after its followers, and when its high watermark has to be written down."""

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.unit.log.logs import append, open_log
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID, batch

from penstock.log.config import LogConfig
from penstock.log.disk import OpenFile
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import ALL_REPLICAS, NotAppendingError, Partition
from penstock.protocol.errors import ErrorCode, KafkaError

OTHER = NODE_ID + 1


class Noting:
    """Notes what it is told of."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def watch(self, partition: IsrPartition) -> None:
        self.told.append(("watch", 0))

    def has_changed(self, more: int) -> None:
        self.told.append(("changed", more))

    def fetched(self, partition: IsrPartition, replica: int) -> None:
        self.told.append(("fetched", replica))

    def refused(self, partition: IsrPartition) -> None:
        self.told.append(("refused", 0))

    def take(self) -> list[tuple[str, int]]:
        told, self.told = self.told, []
        return told


class One:
    def __init__(self, path: Path, *, is_looked_after: bool = True) -> None:
        self.noting = Noting()
        self.dirty: dict[Partition, None] = {}
        self.partition = IsrPartition(
            open_log(path), TOPIC_ID, dirty=self.dirty, in_sync=self.noting if is_looked_after else None
        )
        self.epoch = 0

    def obey(self, leader: int, isr: Sequence[int], replicas: Sequence[int] = (NODE_ID, OTHER)) -> None:
        self.epoch += 1
        self.partition.obey(NODE_ID, PartitionImage(leader, self.epoch, self.epoch, tuple(replicas), tuple(isr)), 0)

    def append(self, acks: int = 1) -> int:
        return self.partition.append(memoryview(bytearray(batch(b"x"))), acks=acks, now_ms=NOW_MS).base_offset

    def is_dirty(self) -> bool:
        was = bool(self.dirty)
        self.dirty.clear()
        return was


@pytest.fixture
def one(tmp_path: Path) -> Iterator[One]:
    found = One(tmp_path)
    yield found
    found.partition.log.abandon()


def test_who_looks_after_followers_hears_of_a_leader_that_has_some(one: One) -> None:
    one.obey(NODE_ID, [NODE_ID])
    assert one.noting.take() == [("watch", 0)]
    assert one.append() == 0
    assert one.noting.take() == [("watch", 0)]
    one.obey(NODE_ID, [NODE_ID], [NODE_ID])
    one.append()
    one.obey(OTHER, [OTHER])
    assert one.noting.take() == [], "it has no followers, or follows itself"


def test_a_fetch_is_told_of_replicas_that_are_not_in_sync(one: One) -> None:
    one.partition.on_fetched(OTHER, 0, 9, 0)
    one.obey(NODE_ID, [NODE_ID])
    one.noting.take()
    one.partition.on_fetched(OTHER + 1, 0, 9, 0)
    assert one.noting.take() == []
    one.partition.on_fetched(OTHER, 0, 9, 0)
    assert one.noting.take() == [("fetched", OTHER)]
    one.obey(NODE_ID, [NODE_ID, OTHER])
    one.noting.take()
    one.partition.on_fetched(OTHER, 0, 9, 0)
    assert one.noting.take() == []


def test_a_partition_is_dirty_when_its_log_or_its_high_watermark_moves(one: One) -> None:
    one.obey(NODE_ID, [NODE_ID, OTHER])
    assert not one.is_dirty()
    one.append()
    assert one.is_dirty()
    one.partition.on_fetched(OTHER, 0, 9, 0)
    assert not one.is_dirty()
    one.partition.on_fetched(OTHER, 1, 9, 0)
    assert (one.is_dirty(), one.partition.high_watermark) == (True, 1)
    one.partition.on_fetched(OTHER, 1, 9, 0)
    assert not one.is_dirty()
    one.obey(OTHER, [NODE_ID, OTHER])
    one.partition.append_fetched(b"", 1, 0)
    assert not one.is_dirty()
    more = bytearray(batch(b"y"))
    more[:8] = (1).to_bytes(8, "big")
    one.partition.append_fetched(bytes(more), 1, 0)
    assert (one.is_dirty(), one.partition.high_watermark) == (True, 1)
    one.partition.append_fetched(b"", 2, 1)
    assert (one.is_dirty(), one.partition.high_watermark, one.partition.log.log_start_offset) == (True, 2, 1)
    one.partition.append_fetched(b"", 2, 9)
    assert one.partition.log.log_start_offset == 2, "no further than there are records"
    one.partition.log.truncate_to(2)
    one.partition.was_cut()
    assert one.is_dirty()
    one.partition.log.truncate_fully_and_start_at(7)
    one.partition.was_cut()
    assert (one.is_dirty(), one.partition.high_watermark, one.partition.log.log_end_offset) == (True, 7, 7)


def test_a_high_watermark_that_moves_without_a_record_is_written_down(one: One) -> None:
    """Nobody may append any more: what the last checkpoint says is what a start goes by."""
    one.obey(NODE_ID, [NODE_ID, OTHER])
    one.append()
    one.partition.min_insync_replicas = 2
    assert one.is_dirty()
    one.obey(NODE_ID, [NODE_ID])
    assert (one.is_dirty(), one.partition.high_watermark) == (False, 0), "one replica is not enough"
    one.partition.min_insync_replicas = 1
    assert (one.is_dirty(), one.partition.high_watermark) == (True, 1)
    one.partition.on_joining([OTHER])
    one.append()
    assert one.is_dirty()
    one.partition.on_joining([])
    assert (one.is_dirty(), one.partition.high_watermark) == (True, 2)
    assert one.partition.leader is not None
    one.partition.leader.on_proposed([NODE_ID, OTHER])
    one.append()
    assert one.is_dirty()
    one.partition.on_isr_refused()
    assert (one.is_dirty(), one.partition.high_watermark) == (True, 3)
    one.obey(NODE_ID, [NODE_ID, OTHER])
    one.append()
    assert one.is_dirty()
    one.obey(NODE_ID, [NODE_ID])
    assert (one.is_dirty(), one.partition.high_watermark) == (True, 4)
    one.obey(NODE_ID, [NODE_ID])
    assert not one.is_dirty()


@pytest.mark.parametrize(
    ("error", "followers", "is_told"),
    [(28, [NODE_ID, OTHER], True), (28, [NODE_ID], False), (24, [NODE_ID, OTHER], False)],
)
@pytest.mark.parametrize("is_looked_after", [True, False])
def test_a_disk_without_room_is_told_of_where_another_replica_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_looked_after: bool,
    error: int,
    followers: list[int],
    is_told: bool,
) -> None:
    one = One(tmp_path, is_looked_after=is_looked_after)
    one.obey(NODE_ID, [NODE_ID], followers)
    one.append()
    one.noting.take()

    def refuse(*_: object) -> None:
        raise OSError(error, "refused")

    monkeypatch.setattr(OpenFile, "write_at", refuse)
    with pytest.raises(KafkaError) as raised:
        one.append()
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (("refused", 0) in one.noting.take()) == (is_told and is_looked_after)


def test_with_acks_of_all_enough_must_be_in_sync(one: One) -> None:
    with pytest.raises(NotAppendingError):
        one.append()
    one.obey(NODE_ID, [NODE_ID])
    assert one.partition.leader is not None
    one.partition.leader.min_insync_replicas = 2
    with pytest.raises(KafkaError, match="1 replicas are in sync, 2 must be"):
        one.append(ALL_REPLICAS)
    assert one.append(1) == 0
    one.obey(NODE_ID, [NODE_ID, OTHER])
    one.partition.leader.min_insync_replicas = 2
    assert one.append(ALL_REPLICAS) == 1
    one.partition.appender = None
    with pytest.raises(NotAppendingError):
        one.append()


def refusal(check: Callable[[], object]) -> ErrorCode | None:
    try:
        check()
    except KafkaError as error:
        return error.code
    return None


FENCED, UNKNOWN, NOT_LEADER = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


@pytest.mark.parametrize(
    ("epoch", "leads", "replica", "leader", "follower", "any_role"),
    [
        (-1, True, OTHER, None, None, None),
        (5, True, OTHER, None, None, None),
        (4, True, OTHER, FENCED, FENCED, FENCED),
        (6, True, OTHER, UNKNOWN, UNKNOWN, UNKNOWN),
        (0, True, OTHER, FENCED, FENCED, FENCED),
        (-1, True, NODE_ID, None, NOT_LEADER, None),
        (5, True, 9, None, UNKNOWN, None),
        (-1, True, 9, None, NOT_LEADER, None),
        (5, False, OTHER, NOT_LEADER, NOT_LEADER, None),
        (-1, False, OTHER, NOT_LEADER, NOT_LEADER, None),
        (4, False, OTHER, FENCED, FENCED, FENCED),
    ],
)
def test_who_is_answered_in_which_epoch(
    one: One,
    epoch: int,
    leads: bool,
    replica: int,
    leader: ErrorCode | None,
    follower: ErrorCode | None,
    any_role: ErrorCode | None,
) -> None:
    partition = one.partition
    assert refusal(lambda: partition.check_any(-1)) == NOT_LEADER, "before the first metadata"
    one.epoch = 4
    one.obey(NODE_ID if leads else OTHER, [NODE_ID, OTHER])
    assert refusal(lambda: partition.check_leader(epoch)) == leader
    assert refusal(lambda: partition.check_follower(replica, epoch)) == follower
    assert refusal(lambda: partition.check_any(epoch)) == refusal(lambda: partition.check_replica(epoch)) == any_role


def test_a_term_begins_at_the_end_of_the_log_though_nothing_was_appended_in_it(one: One) -> None:
    partition = one.partition
    one.epoch = 2
    one.obey(NODE_ID, [NODE_ID])
    assert (partition.latest_epoch, partition.epoch_at(0)) == (3, 3)
    assert partition.end_offset_for_epoch(3) == (3, 0)
    assert partition.end_offset_for_epoch(1) == (1, 0), "of a log without a record"
    one.append()
    assert [partition.epoch_at(offset) for offset in (0, 1)] == [3, 3]
    one.epoch = 6
    one.obey(NODE_ID, [NODE_ID])
    assert (partition.latest_epoch, partition.epoch_at(0), partition.epoch_at(1)) == (7, 3, 7)
    ends = [partition.end_offset_for_epoch(epoch) for epoch in (2, 3, 5, 7, 8)]
    assert ends == [(2, 0), (3, 1), (3, 1), (7, 1), (-1, -1)]
    one.append()
    assert [partition.end_offset_for_epoch(epoch) for epoch in (3, 5, 7)] == [(3, 1), (3, 1), (7, 2)]
    one.obey(OTHER, [OTHER])
    assert (partition.latest_epoch, partition.epoch_at(2)) == (7, 7)
    assert partition.end_offset_for_epoch(8) == (-1, -1)


def test_who_waits_is_called_when_enough_must_no_longer_be_in_sync(one: One) -> None:
    one.obey(NODE_ID, [NODE_ID])
    one.partition.min_insync_replicas = 2
    one.append()
    woken: list[int] = []
    one.partition.committed.waits.add(1, lambda: woken.append(one.partition.high_watermark))
    assert (one.partition.high_watermark, woken) == (0, [])
    one.partition.min_insync_replicas = 2
    one.partition.min_insync_replicas = 1
    assert woken == [1]


async def test_who_waits_for_a_log_hears_of_its_cut_though_its_directory_has_failed_meanwhile(one: One) -> None:
    one.obey(OTHER, [OTHER])
    heard = list[str]()
    with ThreadPoolExecutor(1) as threads:
        cut = one.partition.begin_anew_at(3, threads)
        one.partition.log.when_back(lambda: heard.append("back"))
        one.partition.log.health.report(OSError(errno.EIO, "elsewhere in it"), "a test")
        await cut
    await asyncio.sleep(0)
    assert heard == ["back"]


@pytest.mark.parametrize(("cleaned_to", "offset", "left"), [(9, 6, 6), (9, 4, 3), (2, 6, 2), (9, 1, 0)])
async def test_what_is_compacted_ends_where_its_log_is_cut(one: One, cleaned_to: int, offset: int, left: int) -> None:
    log = one.partition.log
    for _ in range(3):
        append(log, memoryview(bytearray(batch(b"a", b"b", b"c"))))
    one.obey(OTHER, [OTHER])
    log.cleaned_to = cleaned_to
    written = list[tuple[bool, int]]()
    checkpoint = partial(lambda: written.append((log.is_lent, log.cleaned_to)))
    with ThreadPoolExecutor(1) as threads:
        await one.partition.cut_to(offset, threads, checkpoint)
        await asyncio.sleep(0)
        assert log.cleaned_to == left <= log.log_end_offset
        assert written == ([(True, left)] if left < cleaned_to else []), "after a crash it would be as far as before"
        await one.partition.begin_anew_at(20, threads, checkpoint)
    assert log.cleaned_to == 0
    assert written[-1:] == ([(True, 0)] if cleaned_to else [])


async def test_a_cut_where_the_log_ends_forgets_a_term_without_a_batch(one: One) -> None:
    log = one.partition.log
    append(log, memoryview(bytearray(batch(b"a"))))
    log.load().epochs.assign(7, 1)
    one.obey(OTHER, [OTHER])
    with ThreadPoolExecutor(1) as threads:
        await one.partition.cut_to(1, threads)
    assert log.load().epochs.entries == [(0, 0)]


def test_what_a_leader_finds_unflushed_is_flushed_and_what_a_follower_finds_is_not(tmp_path: Path) -> None:
    flushes: list[IsrPartition] = []
    partition = IsrPartition(open_log(tmp_path, LogConfig(flush_messages=1)), TOPIC_ID, flush=flushes.append)
    image = PartitionImage(NODE_ID, 0, 0, (NODE_ID, OTHER), (NODE_ID,))
    partition.obey(NODE_ID, image, 0)
    partition.append(memoryview(bytearray(batch(b"x"))), acks=1, now_ms=NOW_MS)
    assert (flushes, partition.high_watermark) == ([partition], 0)
    partition.obey(NODE_ID, image._replace(leader=OTHER, leader_epoch=1, partition_epoch=1), 0)
    assert len(flushes) == 1
    partition.obey(NODE_ID, image._replace(leader_epoch=2, partition_epoch=2), 0)
    assert len(flushes) == 2
    partition.got_stuck()
    assert partition.kept.is_stuck
    partition.log.flush()
    partition.flushed()
    assert (partition.kept.is_stuck, partition.high_watermark, len(flushes)) == (False, 1, 2)
    assert partition in partition.dirty
    partition.log.abandon()


def test_the_role_that_ends_wakes_who_waits(one: One) -> None:
    woken: list[int] = []
    for epoch, leader in enumerate((NODE_ID, OTHER, OTHER, NODE_ID)):
        one.obey(leader, [leader])
        one.partition.committed.waits.add(9, partial(woken.append, epoch))
        assert woken == list(range(epoch))
    one.partition.end()
    assert woken == [0, 1, 2, 3]
    assert one.partition.role is None


def test_records_are_deleted_at_once_where_none_wait(one: One) -> None:
    one.obey(NODE_ID, [NODE_ID])
    one.append()
    one.partition.delete_before(1)
    assert one.partition.log_start_offset == one.partition.local_log_start_offset == 1
    one.append()
    one.partition.log.config = LogConfig(penstock_delay_enable=True)
    one.partition.delete_before(2)
    assert one.partition.log_start_offset == 1, "nobody delivers any more: this node stops"
    assert one.partition.needed_from == 1


def test_what_is_appended_is_safe_here_or_on_all_replicas(one: One) -> None:
    partition = one.partition
    partition.kept.offset, partition.committed.high_watermark = 5, 3
    assert [partition.lacks(offset, 1) for offset in (3, 4, 5)] == [False, False, True]
    assert [partition.lacks(offset, ALL_REPLICAS) for offset in (2, 3, 4)] == [False, True, True]
    assert partition.waits_of(1) is partition.kept.waits
    assert partition.waits_of(ALL_REPLICAS) is partition.committed.waits
