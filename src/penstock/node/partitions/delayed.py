"""The leader of a partition delivers what waits in its log: it reads its own log to the end, and appends what is due.

What it knows of the log's records it has read there (`DelayedRecords`), also what it has just written itself; so a
leader that begins knows what the one before it knew. It reads in steps, and moves nothing before it is at the end.

Where a storage group replicates the log, the leader also knows what it has proposed, in that order: what it appends has
its offset, and is in the log a moment later. All that this rests on is void when it leads no longer.

What waits must not go with the segment in which it was held. Where retention, or DeleteRecords, is about to take that,
it is held anew at the log's end; until then the segment stays.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from penstock.log.log_holder import LentError
from penstock.log.partition_log import PartitionLog
from penstock.log.retention import deletable_segments
from penstock.log.validation import LOOKED_AT
from penstock.node.environment.alarm import Alarm, Turns
from penstock.node.partitions.held_records import HeldRecords
from penstock.node.partitions.partition import NotAppendingError, Partition, call
from penstock.protocol.batch import CONTROL, DELAYED, BatchHeader, read_header
from penstock.protocol.delayed import Held, carry, rows_bytes
from penstock.protocol.errors import KafkaError
from penstock.replication.delayed.machine import MOST_MOVED, DelayedRecords, Mover
from penstock.replication.delayed.near import Entry
from penstock.replication.waits import Wait

logger = logging.getLogger(__name__)

STEP_BATCHES: Final = 50
"""Batches of which the headers are read in one step."""
STEP_BYTES: Final = 256 << 10
"""So much is unpacked in one step, or one batch."""
READ_RECORD: Final = 200
"""To read of a record that it waits, or waits no longer, takes as long as so many bytes more."""
LOOK_MS: Final = 5_000
"""While something waits, the clock is looked at so often: it may have been set, and timers do not hear of that."""
RETRY_MS: Final = 1_000
CARRY_INTERVAL_MS: Final = 60_000
"""So often at most retention has what waits carried on, also where it would not let stay what waits."""
COMMIT_MS: Final = 50
"""Who deletes looks so often whether what was carried on is committed."""
MOST_UNDER_WAY: Final = 100
"""Batches that this has appended, and that are not in the log yet, before what is due waits for them."""
UNPACKED_A_STEP: Final = 1 << 20
"""Bytes, and those of one further part."""


class Delivery:
    """Of one partition, by its present leader. Made when that begins, it does nothing once another epoch has begun."""

    def __init__(self, partition: Partition, turns: Turns) -> None:
        self._turns, self._now_ms = turns, turns.now_ms
        self._partition = partition
        assert partition.leader is not None, "it leads"
        self._leader = partition.leader
        self.records = DelayedRecords(partition.log.log_start_offset)
        self._alarm = Alarm(self._rings, self._now_ms)
        self._wait: Wait | None = None
        self._growth = partition.growth
        self._ahead = deque[tuple[Callable[[int], bytes], BatchHeader]]()
        """What was proposed since this began, and is neither taken nor in the log yet."""
        self._heard_from = partition.next_offset
        """What was proposed before is read when it is in the log."""
        self._appended = deque[int]()
        """Last offsets of batches of its own that may not be in the log yet."""
        self._held = HeldRecords(partition.log, self.records.waiting)
        self._failure = ""
        self._deletes_before = self._begins_at = 0
        """What was asked for, and what the partition was told of it."""
        self._carry_before = self._cleared = 0
        """What lies before the first is carried on; before the second nothing waits."""
        self._carried = (-1, 0)
        """Of the held batch at this offset so many records were looked at, to be carried on if they wait."""
        self._needed_from = 0
        self._emptied = (0, 0)
        """When all before the first offset is committed, nothing before the second one waits any more."""
        self._carried_ms = self._now_ms() - CARRY_INTERVAL_MS
        self._alarm.set(self._now_ms())

    @property
    def is_over(self) -> bool:
        return self._partition.leader is not self._leader

    @property
    def waiting(self) -> tuple[int, int] | None:
        """How many records wait, and when (ms) the next one is due, or now. None while the log is being read."""
        if not self.records.waiting.is_opened:
            return None
        next_ms = self.records.waiting.next_due_ms
        return len(self.records.waiting), self._now_ms() if next_ms is None else next_ms

    def stop(self) -> None:
        self._alarm.end()
        self._turns.discard(self._ring)
        if self._wait is not None:
            self._growth.cancel(self._wait)
            self._wait = None

    @property
    def needed_from(self) -> int:
        """All before this offset may go: none of it waits, and that is committed. What was moved, or carried on, by a
        batch that another leader does not have would have nowhere to come from.
        """
        high_watermark = self._partition.high_watermark
        if high_watermark >= self._emptied[0]:
            self._needed_from = max(self._needed_from, self._emptied[1])
            self._emptied = self.records.position, self._waits_from
            if high_watermark >= self._emptied[0]:
                self._needed_from = max(self._needed_from, self._emptied[1])
        return max(self._needed_from, self._partition.log.log_start_offset)

    @property
    def _waits_from(self) -> int:
        """Nothing waits before, as far as the log was read."""
        oldest = self.records.waiting.oldest_place
        return self.records.position if oldest is None else max(oldest, self._cleared)

    def delete_before(self, offset: int) -> None:
        """What waits is carried on first; until that is done the partition begins earlier."""
        self._deletes_before = max(self._deletes_before, offset)
        self._delete()
        self._alarm.set(self._now_ms())

    def _rings(self) -> None:
        self._turns.add(self._ring)  # in each partition of a topic much may be due at the same time

    def _ring(self) -> None:
        if self.is_over:
            self.stop()
            return
        now_ms = self._now_ms()
        failure = ""
        try:
            with self._partition.log.health.reporting(f"{self._partition}: reading what waits"):
                due_ms = self._step(now_ms)
        except (NotAppendingError, LentError):  # it hands over, or moves to another disk
            due_ms = now_ms + RETRY_MS
        except KafkaError as error:
            failure = str(error)
            due_ms = now_ms + RETRY_MS
        if failure != self._failure:
            self._failure = failure
            if failure:
                logger.error("%s: what is due waits, and is tried again each second: %s", self._partition, failure)
            else:
                logger.info("%s: what is due is delivered again", self._partition)
        if due_ms is not None:
            self._alarm.set(due_ms)

    def _step(self, now_ms: int) -> int | None:
        """When there is something to do again; None for when the log has grown."""
        log, waiting = self._partition.log, self.records.waiting
        if not self._read():
            if not log.log_end_offset <= self.records.position < self._heard_from:
                return now_ms
            self._wait_for_growth()
            return None
        while self._appended and self._appended[0] < log.log_end_offset:
            self._appended.popleft()
        if len(self._appended) < MOST_UNDER_WAY:
            if self._carries(now_ms):
                return now_ms
            self._delete()
            if self._delivers(now_ms):
                return now_ms
        if self._deletes_before > log.log_start_offset:
            return now_ms + COMMIT_MS
        self._wait_for_growth()
        due_ms = waiting.next_due_ms
        if due_ms is None or (due_ms <= now_ms and log.log_end_offset < self._partition.next_offset):
            return None  # what is due is held by a batch that is under way
        return min(max(due_ms, now_ms), now_ms + LOOK_MS)

    def _wait_for_growth(self) -> None:
        if self._wait is None:
            self._wait = self._growth.add(self._partition.log.log_end_offset + 1, self._has_grown)

    def _has_grown(self) -> None:
        self._wait = None
        self._alarm.set(self._now_ms())

    def _read(self) -> bool:
        """Another part of the log; whether that is all there is."""
        records, size = self.records, 0
        for batch, header in self._unread():
            if records.concerns(header):
                before = records.rows_taken
                needed = rows_bytes(header) if header.is_held else header.size_in_bytes
                if not records.take(b"" if records.has_begun(header) else batch(needed), header):
                    return False
                size += needed + (records.rows_taken - before) * READ_RECORD
                if size >= STEP_BYTES:
                    break
            else:
                records.pass_over(header)
        return records.position >= self._partition.next_offset

    def _unread(self) -> Iterable[tuple[Callable[[int], bytes], BatchHeader]]:
        ahead, records, log = self._ahead, self.records, self._partition.log
        if records.position < log.log_end_offset:
            return islice(_batches(log, records.position), STEP_BATCHES)
        if records.position < self._heard_from:
            return ()
        while ahead and ahead[0][1].base_offset < records.position:
            ahead.popleft()
        return list(islice(ahead, STEP_BATCHES))

    def proposed(self, batch: memoryview) -> None:
        """It is the next one behind all that this partition has, here or under way."""
        ahead, end = self._ahead, self._partition.log.log_end_offset
        while ahead and ahead[0][1].base_offset < end:  # it is read there: this may be far behind
            ahead.popleft()
        header = read_header(batch)
        kept = bytes(batch) if header.attributes & (DELAYED | CONTROL) else b""
        ahead.append((lambda needed: kept[:needed], header))

    # moving

    def _delivers(self, now_ms: int) -> bool:
        """A batch of what is due, if anything is; also if more may be."""
        mover, work = Mover(self._partition.log.config.max_message_bytes), self._held.work
        for entry in self.records.waiting.due(now_ms, MOST_MOVED):
            if self._held.work - work > UNPACKED_A_STEP or not self._is_in_log(entry):
                break
            if not mover.add(*self._held.take(entry)):
                break
        if mover.chosen:
            self.records.take_moved(mover.chosen, self._append(mover.moved(now_ms), now_ms))
            self._held.are_delivered(mover.chosen)
        next_ms = self.records.waiting.next_due_ms
        if next_ms is not None and next_ms <= now_ms:
            return bool(mover.chosen) or self._partition.next_offset == self._partition.log.log_end_offset
        self._held.has_caught_up()
        if next_ms is None or next_ms > now_ms + LOOK_MS:
            self._held.rest()
        return False

    def _is_in_log(self, entry: Entry) -> bool:
        return self.records.waiting.place_of(entry.waited_at) < self._partition.log.log_end_offset

    def _append(self, batch: bytearray, now_ms: int) -> BatchHeader:
        """As the next batch that `records` takes, as if it was read."""
        if self._wait is not None:  # this needs no waking
            self._growth.cancel(self._wait)
            self._wait = None
        result = self._partition.append(memoryview(batch), acks=1, now_ms=now_ms, origin=LOOKED_AT)
        assert result.base_offset == self.records.position
        self._appended.append(result.last_offset)
        return read_header(batch)

    # carrying on

    def _carries(self, now_ms: int) -> bool:
        """A batch of what lies before where retention or DeleteRecords want the log to begin, if anything does."""
        if now_ms - self._carried_ms >= CARRY_INTERVAL_MS or now_ms < self._carried_ms:
            self._carried_ms = now_ms
            self._carry_before = self._retained_from(now_ms)
        before = max(self._carry_before, min(self._deletes_before, self._partition.high_watermark))
        self._cleared = max(self._cleared, self._waits_from, self._partition.log.log_start_offset)
        position, unsettled = self.records.position, self.records.unsettled_from
        for batch, header in islice(_batches(self._partition.log, self._cleared), STEP_BATCHES):
            if header.base_offset >= before or header.base_offset == unsettled:
                return False
            if header.is_held and not self._carry(Held(batch(header.size_in_bytes), header), now_ms):
                return True
            self._cleared = header.last_offset + 1
            if self.records.position != position:
                break
        return self._cleared < min(before, self._partition.log.log_end_offset)

    def _carry(self, held: Held, now_ms: int) -> bool:
        """What still waits of another part of it; whether that was the last part."""
        numbers = held.numbers_of_part(self._carried[1] if self._carried[0] == held.base_offset else 0)
        rows = list(islice(held.rows(), numbers.start, numbers.stop))
        place_of = self.records.waiting.place_of
        still = {
            row.waited_at: row
            for row in self.records.waiting.of_rows(rows)
            if held.base_offset <= place_of(row.waited_at) <= held.last_offset
        }
        if still:
            _, records = held.part(numbers.start)
            chosen = [record for row, record in zip(rows, records, strict=True) if row.waited_at in still]
            batch = carry(chosen, list(still.values()), held.compression, now_ms=now_ms)
            is_taken = self.records.take(memoryview(batch), self._append(batch, now_ms))
            assert is_taken, "it has few records"
        self._carried = held.base_offset, numbers.stop
        return numbers.stop >= held.count

    def _retained_from(self, now_ms: int) -> int:
        log = self._partition.log
        count = deletable_segments(
            log.segments,
            log.config,
            size_bytes=log.segments.size_bytes,
            log_start_offset=log.log_start_offset,
            high_watermark=self._partition.high_watermark,
            end_offset=log.log_end_offset,
            now_ms=now_ms,
        )
        return log.segments[count].base_offset if count < len(log.segments) else log.log_end_offset

    def _delete(self) -> None:
        begin = min(self._deletes_before, self._partition.high_watermark, self.needed_from)
        if begin > max(self._begins_at, self._partition.log.log_start_offset):
            self._partition.begin_at(begin)
            self._begins_at = begin
            self._partition.on_log_start_moved()
            call(self._leader.deletions.take_all())


def _batches(log: PartitionLog, offset: int) -> Iterator[tuple[Callable[[int], bytes], BatchHeader]]:
    """From the one that has the offset on: how to read the first bytes of each, and its header. Valid until something
    is written.
    """
    for segment in log.segments.from_offset(offset):
        for position, header in segment.headers_from(offset):
            yield partial(segment.opened().read_at, position=position), header
