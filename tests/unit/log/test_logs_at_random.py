"""A log beside all that it was told: whatever is appended, followed, cut, deleted, lent, closed and lost in memory, it
says what is there. Where segments end and what may be deleted have models of their own; it is the log's word here.
"""

from dataclasses import dataclass
from random import Random

import pytest
from tests.unit.log.logs import NOW, all_batches, run_through
from tests.unit.log.plain_producers import PlainProducers
from tests.unit.log.removed import remove_due
from tests.unit.log.test_indexes_at_random import begun_at
from tests.unit.log.test_producers_at_random import CLIENTS, COORDINATORS, Draws, check_state

from penstock.log import producer_snapshots
from penstock.log.aborted_transactions import AbortedTransaction
from penstock.log.config import LogConfig
from penstock.log.log_holder import LentError
from penstock.log.names import LOG_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.log.retention import GONE_FOR_A_NEW_ONE, SEGMENTS_AT_ONCE
from penstock.log.segment import Segment
from penstock.log.validation import CLIENT, COORDINATOR, AppendOrigin, AppendResult
from penstock.protocol.batch import BatchHeader, read_header, set_place
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

DIRECTORY = "d/t-0"
DELAY_MS = 100


@dataclass(frozen=True)
class Held:
    content: bytes
    header: BatchHeader

    @property
    def last(self) -> int:
        return self.header.last_offset


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = HostDisk(VirtualLoop(Random(seed)), Random(seed))
        self.disk = SimulatedDisk(self.host, Process("h"))
        self.removals = Removals(self.disk)
        for path in ("d", DIRECTORY):
            self.disk.make_directory(path)
        self.config = LogConfig(
            segment_bytes=self.random.choice((200, 500, 1 << 20)),
            index_interval_bytes=self.random.choice((0, 200)),
            retention_bytes=self.random.choice((-1, 300)),
            retention_ms=self.random.choice((-1, 60)),
            flush_messages=self.random.choice((1 << 40, 3)),
            file_delete_delay_ms=DELAY_MS,
            producer_id_expiration_ms=1 << 40,
        )
        self.plain = PlainProducers()
        self.draws = Draws(seed, self.plain)
        self.batches, self.aborted = list[Held](), list[AbortedTransaction]()
        self.epochs = list[tuple[int, int]]()
        self.start = self.end = self.epoch = self.cleaned = self.due_ms = 0
        self.committed = 0
        """Nothing below this is cut off: retention, and DeleteRecords, went as far."""
        self.open(0, 0, is_clean=True)
        assert self.log.is_untouched
        assert (self.log.latest_epoch, self.log.last_stable_offset(0), self.log.is_loaded) == (-1, 0, False)

    def open(self, recovery_point: int, start: int, *, is_clean: bool) -> None:
        self.open_files = OpenFiles(self.disk, 4)
        self.log = PartitionLog(
            self.open_files,
            self.removals,
            DIRECTORY,
            "t",
            0,
            self.config,
            recovery_point=recovery_point,
            log_start_offset=start,
            is_clean=is_clean,
        )
        self.log.cleaned_to = self.cleaned

    def step(self) -> None:
        self.draws.now_ms += self.random.randrange(5)
        changing = [self.cut, self.cut, self.begin_anew, self.advance, self.retire, self.remove, self.retain]
        others = [
            self.clean,
            self.restart,
            self.crash,
            self.lend,
            self.flush,
            self.flush,
            self.next_leader,
            self.remove_due,
        ]
        self.random.choice([*[self.append] * 9, *[self.mark] * 4, *[self.follow] * 4, *changing, *others])()
        self.check()

    # appending

    def drawn(self) -> bytearray:
        while True:
            batch = self.draws.batch(self.random.choice(CLIENTS + COORDINATORS))
            if self.agreed(batch):
                return batch

    def agreed(self, batch: bytearray) -> bool:
        """The coordinator was asked where that is needed; whether the batch is to be written then."""
        header = read_header(batch)
        if self.plain.verdict(header) is ErrorCode.NOT_ENOUGH_REPLICAS:
            about = header.producer_id, header.producer_epoch, header.base_sequence
            self.plain.verified(header.producer_id, self.plain.verify(*about, expects_zero=False))
            asked = self.log.producers.verify(*about, expects_zero=False)
            self.log.producers.verified(header.producer_id, asked, is_good=True)
        return self.plain.verdict(header) is None

    def send(self, batch: bytearray, origin: AppendOrigin) -> AppendResult | ErrorCode:
        now_ms, before, changes = self.draws.now_ms, [*self.log.segments.base_offsets], self.log.changes
        try:
            result = self.log.append_as_leader(memoryview(batch), leader_epoch=self.epoch, now_ms=now_ms, origin=origin)
        except KafkaError as error:
            return error.code
        newest, count = self.log.segments.base_offsets[-1], 0
        if newest != before[-1]:
            bases = [*before, newest]
            count = bases.index(self.first_base())
            self.check_count(count, bases, GONE_FOR_A_NEW_ONE, may_wait=self.log.load()._snapshots.is_waiting)
        if count:
            self.retired(count)
        assert self.log.changes == changes + bool(count)
        return result

    def append(self) -> None:
        producer_id = self.random.choice(CLIENTS + COORDINATORS)
        batch = self.draws.batch(producer_id)
        origin = CLIENT if producer_id in CLIENTS else COORDINATOR
        is_new = self.agreed(batch)
        verdict = self.plain.verdict(read_header(batch))
        result = self.send(batch, origin)
        if not isinstance(result, AppendResult):
            assert result == verdict
            return
        assert result.log_start_offset == self.start
        if is_new:
            assert (result.base_offset, result.is_duplicate) == (self.end, False)
            self.note(batch)
        else:
            assert isinstance(verdict, tuple)
            assert (result.base_offset, result.last_offset, result.is_duplicate) == (*verdict[2:4], True)
        assert result.log_append_time_ms == -1

    def mark(self) -> None:
        marker, how, coordinator_epoch = self.draws.marker(self.random.choice(CLIENTS + COORDINATORS))
        refusal = self.plain.verdict_on_marker(read_header(marker), coordinator_epoch, 0)
        result = self.send(marker, COORDINATOR)
        if not isinstance(result, AppendResult):
            assert result == refusal
            return
        assert refusal is None
        self.note(marker, how, coordinator_epoch)

    def follow(self) -> None:
        sent, changes = list[bytearray](), self.log.changes
        for _ in range(self.random.randint(1, 5)):
            batch = self.drawn()
            self.epoch += self.random.random() < 0.1
            set_place(memoryview(batch), read_header(batch), self.end, self.epoch)
            self.note(batch)
            sent.append(batch)
        whole = b"".join(sent)
        cut_off = b"" if self.random.random() < 0.5 else self.batches[-1].content[: self.random.randrange(70)]
        assert self.log.append_as_follower(memoryview(whole + cut_off)) == self.end - 1
        assert self.log.changes == changes

    def note(self, batch: bytearray, how: ControlType | None = None, coordinator_epoch: int = 0) -> None:
        header = read_header(batch)
        header = header._replace(base_offset=self.end, partition_leader_epoch=self.epoch)
        content = bytearray(batch)
        set_place(memoryview(content), header, self.end, self.epoch)
        if not self.epochs or self.epochs[-1][0] < self.epoch:
            self.epochs.append((self.epoch, self.end))
        if how is None:
            self.plain.note_batch(header, self.end, header.max_timestamp)
        else:
            aborts = how is ControlType.ABORT
            self.aborted += self.plain.note_marker(header, self.end, coordinator_epoch, aborts=aborts)
        self.batches.append(Held(bytes(content), header))
        self.end = header.last_offset + 1

    def next_leader(self) -> None:
        self.epoch += 1

    # cutting

    def first_base(self) -> int:
        return self.log.segments[0].base_offset

    def cut(self) -> None:
        offset = self.random.randint(max(self.start, self.committed, self.end - 9), self.end + 1)
        first, changes = self.first_base(), self.log.changes
        end = max([one.last + 1 for one in self.batches if one.last < offset], default=first)
        is_cut = offset < self.end
        if is_cut and (offset <= first or end < self.start):
            self.forget_all(max(self.start, offset if offset <= first else end))
        elif is_cut:
            end = end if any(one.last >= offset for one in self.batches) else offset
            self.batches = [one for one in self.batches if one.last < offset]
            self.aborted = [one for one in self.aborted if one.last_offset < end]
            self.plain.cut_to(end)
            self.epochs = [one for one in self.epochs if one[1] < end]
            self.end = end
        else:
            self.epochs = [one for one in self.epochs if one[1] < self.end]
        self.committed = min(self.committed, self.end)
        self.cleaned = min(self.cleaned, self.end) if is_cut else self.cleaned
        assert self.log.truncate_to(offset) == self.end
        assert self.log.changes > changes

    def forget_all(self, start: int) -> None:
        self.batches, self.aborted, self.epochs = [], [], []
        self.plain.cut_to(0)
        self.start = self.end = start

    def begin_anew(self) -> None:
        if self.random.random() < 0.3:
            self.forget_all(self.random.randint(self.start, self.end + 5))
            self.cleaned, self.committed = 0, self.start
            self.log.truncate_fully_and_start_at(self.start, durable=self.random.random() < 0.5)

    def advance(self) -> None:
        offset, changes = self.random.randint(self.start, self.end), self.log.changes
        self.log.advance_log_start(offset)
        self.begins(offset)
        assert self.log.changes == changes
        with pytest.raises(KafkaError):
            self.log.advance_log_start(self.end + 1)

    def begins(self, start: int) -> None:
        self.committed = max(self.committed, start)
        if start > self.start:
            self.start = start
            self.epochs = begun_at(self.epochs, start)

    def retire(self) -> None:
        bases, changes = [*self.log.segments.base_offsets], self.log.changes
        may_wait = self.log.load()._snapshots.is_waiting
        count = self.log.retire_below_start(self.draws.now_ms, high_watermark=self.committed)
        assert self.first_base() == bases[count]
        self.check_count(count, bases, SEGMENTS_AT_ONCE, may_wait=may_wait)
        assert (self.log.changes > changes) is bool(count)
        self.retired(count)

    def check_count(self, count: int, bases: list[int], at_most: int, *, may_wait: bool) -> None:
        """So many segments without a readable record went; fewer may where snapshots wait to be written."""
        there = min(sum(base <= self.start for base in bases[1:]), at_most)
        assert count == there or (count < there and may_wait)

    def retired(self, count: int) -> None:
        self.due_ms = self.draws.now_ms + DELAY_MS
        assert not count or max(due_ms for due_ms, *_ in self.removals._due) == self.due_ms
        self.gone()

    def remove(self) -> None:
        if self.random.random() < 0.3:
            offset = self.random.randint(self.start, self.end)
            self.log.retire_before(offset)
            self.begins(offset)
            self.committed = self.end  # where this is used there are no producers, and a cut forgets none
            assert self.first_base() <= self.start
            assert all(base > self.start for base in self.log.segments.base_offsets[1:])
            self.gone()

    def retain(self) -> None:
        bases, changes = [*self.log.segments.base_offsets, self.end], self.log.changes
        self.committed = self.random.randint(max(self.committed, self.start), self.end)
        count = self.log.apply_retention(self.draws.now_ms, high_watermark=self.committed)
        self.begins(bases[count])
        assert (self.first_base(), self.log.changes > changes) == (bases[count], bool(count))
        self.retired(count)

    def gone(self) -> None:
        first = self.first_base()
        self.batches = [one for one in self.batches if one.header.base_offset >= first]
        self.aborted = [one for one in self.aborted if one.last_offset >= first]

    def remove_due(self) -> None:
        remove_due(self.removals, self.due_ms - 1)
        remove_due(self.removals, self.due_ms)
        assert not [name for name in self.disk.names(DIRECTORY) if name.endswith(".deleted")]

    def clean(self) -> None:
        self.cleaned = self.log.cleaned_to = self.random.randint(self.start, self.end)

    # who has it

    def flush(self) -> None:
        is_dirty = self.log.is_dirty
        assert is_dirty is (self.log.recovery_point < self.end)
        self.log.flush()
        assert (self.log.recovery_point, self.log.is_dirty) == (self.end, False)
        assert not (is_dirty and self.log.segments.has_new_names)

    def restart(self) -> None:
        is_durable, start = self.random.random() < 0.5, self.log.start_to_checkpoint
        rewritten = self.log.load().rewritten_below
        assert start in (self.start, None)
        assert (start is None) is (self.start <= self.first_base() or not self.start)
        self.log.close(durable=is_durable)
        assert (self.log.is_loaded, self.log.recovery_point, self.log.is_trusted) == (False, self.end, True)
        now_ms = self.draws.now_ms
        assert (self.log.is_dirty, self.log.flush_is_due(now_ms), self.log.maybe_flush(now_ms)) == (False,) * 3
        assert (self.log.log_end_offset, self.log.kept_offset, self.log.is_loaded) == (self.end, self.end, False)
        assert self.log.start_to_checkpoint == (self.start or None)
        assert self.log.size_bytes == sum(len(one.content) for one in self.batches)
        if self.random.random() < 0.7:
            self.open(self.end, start or 0, is_clean=True)
        else:
            assert self.log.load().rewritten_below == rewritten

    def crash(self) -> None:
        """Of the process: what it wrote is there."""
        start, recovery_point = self.log.start_to_checkpoint, self.log.recovery_point
        self.log.abandon()
        self.open(self.random.choice((-1, 0, recovery_point)), start or 0, is_clean=False)
        assert not self.log.is_trusted
        snapshots = self.log.load()._snapshots.offsets
        assert self.log.is_trusted
        assert set(snapshots[:-1]) <= set(self.log.segments.base_offsets), "others are left of stops"
        assert max(snapshots, default=0) <= self.end
        self.plain.ended.clear()
        self.plain.asked.clear()

    def lend(self) -> None:
        size, changes = self.log.size_bytes, self.log.changes
        content = self.log.lend()
        assert (self.log.is_lent, self.log.is_loaded, self.log.size_bytes) == (True, False, size)
        assert self.log.changes > changes
        assert self.log.recovery_point == content.recovery_point
        assert self.log.start_to_checkpoint == (self.start or None)
        for ask in (lambda: self.log.log_end_offset, lambda: self.log.read(0, 1), self.log.close, self.log.load):
            with pytest.raises(LentError, match="waits for its disk") as refusal:
                ask()
            assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert self.log.when_back(self.check)
        is_whole = self.random.random() < 0.5
        assert self.log.take_back(is_whole=is_whole) == [self.check]
        assert (self.log.is_lent, self.log.is_loaded, self.log.is_trusted) == (False, is_whole, is_whole)
        assert not self.log.when_back(self.check)
        assert (self.log.log_end_offset, self.log.is_loaded) == (self.end, True), "only the files tell where it ends"
        assert self.log.load().rewritten_below == content.rewritten_below
        if not is_whole:
            self.plain.ended.clear()
            self.plain.asked.clear()

    # what is there

    def check(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert (log.cleaned_to, log.leader_epochs.entries) == (self.cleaned, self.epochs)
        assert log.latest_epoch == (self.epochs[-1][0] if self.epochs else -1)
        assert log.size_bytes == sum(len(one.content) for one in self.batches)
        assert log.recovery_point <= self.end
        is_due = self.end - log.recovery_point >= self.config.flush_messages
        assert log.kept_offset == (log.recovery_point if is_due else self.end)
        assert all_batches(log) == [
            (one.header.base_offset, one.last) for one in self.batches if one.last >= self.start
        ]
        check_state(log.producers, self.plain, self.end, knows_times=False)
        stable = self.plain.stable(self.end)
        assert log.last_stable_offset(self.end) == (stable if stable == self.end else max(stable, self.start))
        assert (log.has_known_ends, log.is_untouched, log.is_loaded) == (True, False, True)
        self.check_segments([*log.segments])
        self.check_aborted()
        if self.batches:
            one = self.random.choice(self.batches)
            if one.last >= self.start:
                assert log.read(one.last, 1).read() == one.content
            latest_ms = self.random.choice(self.batches).header.max_timestamp
            found = run_through(log.search_timestamp(latest_ms))
            readable = [held for held in self.batches if held.last >= self.start]
            first = next((held for held in readable if held.header.max_timestamp >= latest_ms), None)
            assert (found is None) is (first is None)
            assert found is None or first is None or first.header.base_offset <= found.offset <= first.last

    def check_segments(self, segments: list[Segment]) -> None:
        bases = self.log.segments.base_offsets
        assert bases == [one.base_offset for one in segments]
        assert (bases, len(bases), self.log.segments.active) == (
            sorted(set(bases)),
            len(self.log.segments),
            segments[-1],
        )
        for segment, behind in zip(segments, [*bases[1:], self.end + 1], strict=True):
            its = [one.content for one in self.batches if segment.base_offset <= one.header.base_offset < behind]
            assert segment.opened().read_at(1 << 20, 0) == b"".join(its)
            assert self.log.segments.number_of(behind - 1) == bases.index(segment.base_offset)
        opened = list(self.open_files._clock.values())
        assert all(any(one is segment for segment in segments) for one in opened), "what has gone is closed"
        names = self.disk.names(DIRECTORY)
        assert self.offsets_of(names, LOG_SUFFIX) == bases
        assert self.offsets_of(names, SNAPSHOT_SUFFIX) == self.log.load()._snapshots.offsets

    @staticmethod
    def offsets_of(names: list[str], suffix: str) -> list[int]:
        return [int(name[:20]) for name in names if name.endswith(suffix)]

    def check_aborted(self) -> None:
        content = self.log.load()
        assert content.aborted.between(0, self.end + 1) == self.aborted
        indexes = {content.segments[content.segments.number_of(one.last_offset)].base_offset for one in self.aborted}
        assert self.offsets_of(self.disk.names(DIRECTORY), TRANSACTION_INDEX_SUFFIX) == sorted(indexes)
        for one in self.batches:
            of = one.header
            is_aborted = any(
                it.producer_id == of.producer_id and it.first_offset <= of.base_offset <= it.last_offset
                for it in self.aborted
            )
            is_open = 0 <= self.plain.open_since(of.producer_id) <= of.base_offset
            assert content.is_committed(of) is (not of.is_transactional or not (is_aborted or is_open))


def test_where_a_log_without_records_begins_is_known_unread() -> None:
    world = World(0)
    for begins, ends, is_known in ((0, 0, True), (5, 5, True), (0, 5, False)):
        world.open(ends, begins, is_clean=True)
        log = world.log
        assert (log.has_known_ends, log.is_untouched, log.log_end_offset) == (is_known, is_known and not ends, ends)
        if is_known:
            assert (log.log_start_offset, log.last_stable_offset(9)) == (begins, 9)
        assert not log.is_loaded
    world.open(-1, 0, is_clean=False)
    assert (world.log.has_known_ends, world.log.is_untouched) == (False, False)


@pytest.mark.parametrize("seed", range(32))
def test_a_log_is_all_that_it_was_told(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """In some histories all snapshots wait for a flush."""
    if seed % 4 == 0:
        monkeypatch.setattr(producer_snapshots, "MOST_AT_ONCE", -1)
    world = World(seed)
    for _ in range(40):
        world.step()
    assert world.draws.now_ms > NOW
