"""One partition's log: append, read, cut, keep.

An append checks everything first, then writes once, then remembers; when the write fails, the file is cut back and
the log is as it was. What a read returns keeps its file open (see `log_slice`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from penstock.log.log_slice import EMPTY_SLICE, LogSlice
from penstock.log.lookup import TimestampOffset, find_max_timestamp, find_timestamp
from penstock.log.producer_snapshots import note_control_batch, replay
from penstock.log.producer_state import NO_PRODUCER_ID
from penstock.log.retention import deletable_segments, retention_deadline_ms
from penstock.log.rolling import must_roll
from penstock.log.segment import MAX_RELATIVE_OFFSET, Segment
from penstock.log.stored_log import StoredLog
from penstock.log.validation import AppendOrigin, check_batches, parse_follower_batches
from penstock.protocol.batch import LENGTH_END, BatchHeader, set_base_offset, set_partition_leader_epoch
from penstock.protocol.errors import ErrorCode, KafkaError

CHECK_INTERVAL_MS = 300_000
"""How often a log looks for something to delete at the latest, as Kafka's `log.retention.check.interval.ms`."""


@dataclass(slots=True)
class AppendResult:
    """Where a batch went; of a repeated batch, where it went the first time."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = 0
    record_errors: Sequence[tuple[int, str]] = ()
    is_duplicate: bool = False


class PartitionLog(StoredLog):
    """The log of one partition; `config` may be replaced at any time."""

    __slots__ = ()

    # appending

    def append_as_leader(
        self,
        batches: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Check the batches, give them offsets and the epoch in place, write them.

        Raises KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT,
        INVALID_RECORD, INVALID_TIMESTAMP (both perhaps as InvalidRecords), INVALID_PRODUCER_EPOCH,
        OUT_OF_ORDER_SEQUENCE_NUMBER: nothing was written then; KAFKA_STORAGE_ERROR: nothing is sure.
        """
        if self._active is None:
            self.load()
        batches, headers, append_time_ms = check_batches(
            batches, self.config, now_ms=now_ms, origin=origin, topic=self.topic
        )
        if origin is AppendOrigin.CLIENT:
            header = headers[0][1]
            if header.producer_id != NO_PRODUCER_ID and (repeated := self._producers.check(header)) is not None:
                self._flush_if_due()  # it may come again because the sync failed the first time
                time_ms = repeated.timestamp_ms if self.config.uses_log_append_time else -1
                return AppendResult(
                    repeated.first_offset, repeated.last_offset, time_ms, self._start_offset, is_duplicate=True
                )
        base_offset = offset = self._end_offset
        for position, header in headers:
            set_base_offset(batches, position, offset)
            set_partition_leader_epoch(batches, position, leader_epoch)
            offset += header.last_offset_delta + 1
        try:
            if leader_epoch > self._epochs.latest:
                self._epochs.assign(leader_epoch, base_offset)
            segment = self._write(batches, headers, offset - 1, now_ms)
        except OSError as error:
            raise self._storage_error(error) from error
        interval = self.config.index_interval_bytes
        offset = base_offset
        for position, header in headers:
            last_offset = offset + header.last_offset_delta
            segment.note_batch(offset, last_offset, header.batch_length + LENGTH_END, header.max_timestamp, interval)
            if header.producer_id != NO_PRODUCER_ID:
                self._note_producer(batches, position, header, offset, last_offset)
            offset = last_offset + 1
        self._end_offset = offset
        self._flush_if_due()
        return AppendResult(base_offset, offset - 1, append_time_ms, self._start_offset)

    def append_as_follower(self, batches: memoryview, *, now_ms: int | None = None) -> int:
        """Write batches with the offsets and epochs they have; returns the last offset, or log end offset - 1 if
        there is none.

        Raises KafkaError: CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR (offsets that do not follow), KAFKA_STORAGE_ERROR.
        """
        if self._active is None:
            self.load()
        for position, header in parse_follower_batches(batches, self._end_offset):
            batch = batches[position : position + header.size_in_bytes]
            try:
                if header.partition_leader_epoch > self._epochs.latest:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset)
                segment = self._write(
                    batch, [(0, header)], header.last_offset, header.max_timestamp if now_ms is None else now_ms
                )
            except OSError as error:
                raise self._storage_error(error) from error
            segment.note_batch(
                header.base_offset,
                header.last_offset,
                header.size_in_bytes,
                header.max_timestamp,
                self.config.index_interval_bytes,
            )
            if header.producer_id != NO_PRODUCER_ID:
                self._note_producer(batch, 0, header, header.base_offset, header.last_offset)
            self._end_offset = header.last_offset + 1
        self._flush_if_due()
        return self._end_offset - 1

    def _flush_if_due(self) -> None:
        if self._end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _write(
        self, batches: memoryview, headers: list[tuple[int, BatchHeader]], last_offset: int, now_ms: int
    ) -> Segment:
        segment = self._active
        assert segment is not None
        size = len(batches)
        if must_roll(segment, self.config, size, last_offset, headers[-1][1].max_timestamp, now_ms):
            segment = self._roll(max(self._end_offset, last_offset - MAX_RELATIVE_OFFSET), now_ms)
        segment.write(batches)
        self._size_bytes += size
        if self._dirty_since_ms is None:
            self._dirty_since_ms = now_ms
            if segment.created_ms is None:
                segment.created_ms = now_ms
        return segment

    def _note_producer(
        self, batches: memoryview, position: int, header: BatchHeader, first_offset: int, last_offset: int
    ) -> None:
        if header.is_control:
            note_control_batch(self._producers, header, batches[position : position + header.size_in_bytes])
        else:
            self._producers.note_batch(header, first_offset, last_offset, header.max_timestamp)

    # reading

    def read(
        self, offset: int, max_bytes: int, *, upper_offset: int | None = None, at_least_one_batch: bool = True
    ) -> LogSlice:
        """The batches from the one that holds `offset` on, at most `max_bytes` of them and none that reaches
        `upper_offset`.

        The slice may end inside a batch, as Kafka's do, but the first batch is always whole; where it alone is more
        than `max_bytes` it comes nevertheless, unless not even one batch is wanted: then the slice is empty. It is
        also empty at the log's end. Raises KafkaError(OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR).
        """
        active = self._active or self.load()
        end_offset = self._end_offset
        if not self._start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic}-{self.partition} is outside [{self._start_offset}, {end_offset}]",
            )
        upper = end_offset if upper_offset is None or upper_offset > end_offset else upper_offset
        if offset >= upper:
            return EMPTY_SLICE
        try:
            if offset >= active.base_offset:
                return _slice(active, offset, max_bytes, upper, end_offset, at_least_one_batch) or EMPTY_SLICE
            return self._read_sealed(offset, max_bytes, upper, at_least_one_batch)
        except OSError as error:
            raise self._storage_error(error) from error

    def _read_sealed(self, offset: int, max_bytes: int, upper: int, at_least_one_batch: bool) -> LogSlice:
        for number in range(self._segment_number(offset), len(self._segments)):
            ends = self._bases[number + 1] if number + 1 < len(self._bases) else self._end_offset
            found = _slice(self._segments[number], offset, max_bytes, upper, ends, at_least_one_batch)
            if found is not None:
                return found
        return EMPTY_SLICE

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose timestamp is at least this one."""
        with self._reporting():
            return find_timestamp(list(self.segments), timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the latest timestamp of the log."""
        with self._reporting():
            return find_max_timestamp(list(self.segments), self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # cutting

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that ends at `offset` or behind it; returns the new log end offset."""
        self.load()
        if offset >= self._end_offset:
            return self._end_offset
        self._cuts += 1
        if offset <= self._bases[0] or offset < self._start_offset:
            self.truncate_fully_and_start_at(offset)
            return offset
        with self._reporting(is_change=True):
            if self._drop_segments(self._segment_number(offset) + 1):
                self._sync_names()  # else a power cut could bring them back behind a segment that was cut
            segment = self._active = self._segments[-1]
            size = segment.size
            end_offset = segment.truncate_to(offset)
            if end_offset is not None:
                self._sync_cut(segment)
            self._size_bytes -= size - segment.size
            end_offset = offset if end_offset is None else end_offset
            if end_offset < self._start_offset:  # the batch that held the log start was cut: begin anew behind it
                self.truncate_fully_and_start_at(self._start_offset)
            else:
                self._after_truncation(end_offset)
        return self._end_offset

    def _sync_cut(self, segment: Segment) -> None:
        """See that a cut is durable before records stand behind it: the next flush has to begin with this segment."""
        self.recovery_point = min(self.recovery_point, segment.base_offset)
        if not segment.size:  # a flush has nothing to do with it
            segment.opened().sync()

    def _after_truncation(self, end_offset: int) -> None:
        self._end_at(end_offset)
        self._epochs.truncate_from_end(end_offset)
        self._snapshots.keep(self._bases, end_offset)
        offset = self._snapshots.restore(self._producers)
        replay(self._producers, self._segments, offset or 0)

    def truncate_fully_and_start_at(self, offset: int, *, durable: bool = False) -> None:
        """Remove everything; the next record gets this offset. With `durable` that outlives a power cut."""
        self.load()
        self._cuts += 1
        with self._reporting(is_change=True):
            self._drop_segments(0)
            self._end_at(offset)
            self._start_offset = self.recovery_point = offset
            self._add_segment(offset, None)
            self._epochs.clear()
            self._producers.clear()
            self._snapshots.remove_all()
            if durable:
                self._epochs.sync()
                self._sync_names()

    def advance_log_start(self, offset: int) -> None:
        """Records below `offset` can no longer be read (DeleteRecords); their segments go at the next retention."""
        self.load()
        if not 0 <= offset <= self._end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} lies behind the log's end, {self._end_offset}"
            )
        if offset > self._start_offset:
            with self._reporting():
                self._start_at(offset)

    def remove_before(self, offset: int) -> None:
        """As `advance_log_start`; segments of which nothing can be read any more go at once, durably."""
        self.advance_log_start(offset)
        with self._reporting(is_change=True):
            for segment in self._take_oldest(self._segment_number(self._start_offset)):
                self._has_new_names = True
                self._remove_files(segment)
            self._sync_names()  # else a power cut could bring back what was never flushed

    # keeping

    def apply_retention(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """Delete the oldest segments that the configs let go, none at or above the high watermark; how many.

        The files are renamed to `*.deleted` and removed after `file_delete_delay_ms`. Producers that were silent for
        too long are forgotten as well.
        """
        self.load()
        self._producers.expire(now_ms, self.config.producer_id_expiration_ms)
        with self._reporting():
            count = deletable_segments(
                self._segments,
                self.config,
                log_start_offset=self._start_offset,
                high_watermark=self._end_offset if high_watermark is None else high_watermark,
                end_offset=self._end_offset,
                now_ms=now_ms,
            )
        with self._reporting(is_change=True):
            if count == len(self._segments):
                self._roll(self._end_offset, now_ms)
            self._retire_segments(count, now_ms)
        return count

    def next_deadline_ms(self, now_ms: int) -> int:
        """When to call `maybe_flush` and `apply_retention` next.

        At the latest after CHECK_INTERVAL_MS, so no append need bring it forward.
        A log that nobody has touched spreads its first check over the interval, by its name.
        """
        flush_ms = self.config.flush_ms
        deadline = now_ms + min(CHECK_INTERVAL_MS, flush_ms)
        if self._active is None:
            return deadline + crc32(self.directory.encode()) % CHECK_INTERVAL_MS
        if self._dirty_since_ms is not None:
            deadline = min(deadline, self._dirty_since_ms + flush_ms)
        expiry = retention_deadline_ms(self._segments, self.config)
        return max(now_ms, deadline if expiry is None else min(deadline, expiry))


def _slice(
    segment: Segment, offset: int, max_bytes: int, upper: int, segment_end: int, at_least_one_batch: bool
) -> LogSlice | None:
    """The part of a segment that a read gets; None if all of the segment's batches end before `offset`."""
    found = segment.locate(offset)
    if found is None:
        return None
    position, size, _, last_offset = found
    if last_offset >= upper:
        return EMPTY_SLICE
    end = segment.size
    if upper < segment_end and (first_beyond := segment.locate(upper)) is not None:
        end = first_beyond[0]
    length = end - position
    if length > max_bytes:
        length = max_bytes
        if length < size:
            if not at_least_one_batch:
                return EMPTY_SLICE
            length = size
    return LogSlice(segment.opened(), position, length)
