"""One partition's log: append, read, cut, keep.

The log is lazy: until something asks for its content it is only a name, so that a node with 10,000 partitions starts
quickly. An append checks everything first, then writes once, then remembers; when the write fails, the file is cut back
and the log is as it was. What a read returns keeps its file open (see `log_slice`).
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from uuid import UUID

from penstock.log.config import LogConfig
from penstock.log.health import Health
from penstock.log.loading import Unread
from penstock.log.log_content import LogContent
from penstock.log.log_holder import LogHolder
from penstock.log.log_slice import EMPTY_SLICE, LogSlice
from penstock.log.lookup import Search, TimestampOffset, find_max_timestamp, find_timestamp
from penstock.log.open_files import OpenFiles
from penstock.log.producer_state import NO_PRODUCER_ID, check_first
from penstock.log.removals import Removals
from penstock.log.retention import (
    GONE_FOR_A_NEW_ONE,
    SEGMENTS_AT_ONCE,
    deletable_segments,
    next_look_ms,
    rests_until_ms,
)
from penstock.log.scan import batch_headers
from penstock.log.segment import Segment
from penstock.log.validation import (
    CLIENT,
    COORDINATOR,
    AppendOrigin,
    AppendResult,
    AppendRules,
    base_before,
    check_batch,
    parse_follower_batches,
)
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, set_place
from penstock.protocol.errors import ErrorCode, KafkaError


class PartitionLog(LogHolder):
    """`config` may be replaced at any time. All methods belong to one thread (the event loop's), but for `flush`,
    `maybe_flush` and what checkpoints say of it, for which another one may ask. All that touch the directory raise
    KafkaError(KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE), and UNKNOWN_TOPIC_OR_PARTITION once the log is deleted. Once
    `health`, that of the log directory, is offline, nothing is written, flushed or read any more.
    """

    __slots__ = ("cleaned_to", "is_unclaimable", "owner")

    def __init__(
        self,
        open_files: OpenFiles,
        removals: Removals,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
        is_empty: bool = False,
        health: Health | None = None,
    ) -> None:
        """`recovery_point` (or -1) is the end of a log that `is_clean`, the only offset of one that `is_empty`."""
        unread = Unread(recovery_point, log_start_offset, is_clean=is_clean, is_empty=is_empty)
        super().__init__(open_files, removals, directory, topic, partition, config, health, unread)
        self.owner: UUID | None = None  # the id of the topic that has claimed it (`LogDirectories`)
        self.is_unclaimable = False
        """A crash has left records and no id: no flush was over, and they may be of an earlier topic of this name."""
        self.cleaned_to = 0

    # appending

    def append_as_leader(
        self, batch: memoryview, *, leader_epoch: int, now_ms: int, origin: AppendOrigin = CLIENT
    ) -> AppendResult:
        """Check a batch, give it its offsets and the epoch in place, write it. Raises as `Producers.check` and
        `check_batch`, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT,
        INVALID_RECORD, INVALID_TIMESTAMP: nothing was written then; KAFKA_STORAGE_ERROR: nothing is sure.
        """
        if self.health.failure is not None:
            self.health.check()
        content = self._content or self.load()
        config, rules = self.config, content.rules
        if rules.config is not config:
            rules = content.rules = AppendRules(config)
        batch, header = check_batch(batch, rules, now_ms=now_ms, origin=origin, topic=self.topic)
        if header.producer_id != NO_PRODUCER_ID:
            if not content.end_offset and config.first_sequence_is_zero:
                check_first(header)
            if origin is COORDINATOR:
                content.check_coordinated(batch, header)
            elif (repeated := content.producers.check(header)) is not None:
                time_ms = repeated.timestamp_ms if rules.stamps else -1
                return AppendResult(repeated.first_offset, repeated.last_offset, time_ms, content.start_offset, True)
        base_offset = content.end_offset
        set_place(batch, header, base_offset, leader_epoch)
        try:
            is_first = content.append(batch, header, base_offset, leader_epoch, config, now_ms)
        except OSError as error:
            raise self.health.report(error, self._name) from error
        if is_first:
            self._retire_below_start(content, now_ms, GONE_FOR_A_NEW_ONE, content.start_offset, may_write=False)
        time_ms = now_ms if rules.stamps else -1
        return tuple.__new__(AppendResult, (base_offset, content.end_offset - 1, time_ms, content.start_offset, False))

    def append_as_follower(self, batches: memoryview) -> int:
        """Batches keep their offsets and epochs. Returns the last offset, or log end offset - 1 for none. An empty log
        may begin inside the first batch, as that of a leader whose records were deleted. Raises KafkaError:
        CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR (offsets that do not follow), KAFKA_STORAGE_ERROR.
        """
        self.health.check()
        content = self._content or self.load()
        start_offset = content.start_offset
        if start_offset == content.end_offset and (base_offset := base_before(batches, start_offset)) is not None:
            self.truncate_fully_and_start_at(base_offset)
            self.append_as_follower(batches)
            self.advance_log_start(min(start_offset, content.end_offset))
            return content.end_offset - 1
        found = parse_follower_batches(batches, content.end_offset)
        try:
            content.append_fetched(batches, found, self.config)
        except OSError as error:
            raise self.health.report(error, self._name) from error
        return content.end_offset - 1

    # reading

    def read(
        self, offset: int, max_bytes: int, *, upper_offset: int | None = None, at_least_one_batch: bool = True
    ) -> LogSlice:
        """The batches from the one that holds `offset` on, none that reaches `upper_offset`. The slice may end inside a
        batch, as Kafka's do, but the first batch is always whole, even above `max_bytes`; without `at_least_one_batch`
        the slice is empty then. It is also empty at the log's end. Raises KafkaError(OFFSET_OUT_OF_RANGE,
        CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR).
        """
        content = self._content or self.load()
        end_offset = content.end_offset
        if not content.start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic}-{self.partition} is outside [{content.start_offset}, {end_offset}]",
            )
        upper = end_offset if upper_offset is None or upper_offset > end_offset else upper_offset
        if offset >= upper:
            return EMPTY_SLICE
        try:
            return content.segments.read(offset, max_bytes, upper, end_offset, at_least_one_batch)
        except OSError as error:
            raise self.health.report(error, self._name) from error

    def bytes_of(self, found: LogSlice) -> bytes:
        """What `read` found, taken from the disk; may run in a thread beside appends."""
        with self.health.reporting(f"reading {self.directory}"):
            return found.read()

    def headers_of(self, found: LogSlice) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each whole batch that `read` found; a last one that was cut off is left out."""
        end = found.position + found.length
        with self.health.reporting(f"reading {self.directory}"):
            for position, header in batch_headers(found.file, found.position, end + HEADER_SIZE - 1):
                behind = position + header.size_in_bytes
                if behind <= end:
                    yield position, header
                if behind >= end:
                    return

    def search_timestamp(self, timestamp_ms: int) -> Search:
        """The first record whose timestamp is at least this one, in steps (see `lookup`)."""
        with self.health.reporting(self._name):
            return (yield from self._in_steps(find_timestamp(self.segments, timestamp_ms, self.log_start_offset)))

    def search_max_timestamp(self) -> Search:
        """The first record that has the latest timestamp of the log, in steps."""
        with self.health.reporting(self._name):
            return (yield from self._in_steps(find_max_timestamp(self.segments, self.log_start_offset)))

    def _in_steps(self, search: Search) -> Search:
        """Others have their turn in between; a thread that got the log must have its segments alone."""
        found = None
        while True:
            try:
                work = search.send(found)
            except StopIteration as end:
                result: TimestampOffset | None = end.value
                return result
            found = yield work
            self.check_not_lent()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # cutting

    @contextmanager
    def _changing(self) -> Iterator[LogContent]:
        """After a change that failed half-way only the files are believed: the log recovers when it is used next."""
        content = self.load()
        self.changes += 1  # first: who reads in a thread looks afterwards
        try:
            with self.health.reporting(self._name):
                yield content
        except KafkaError:
            self.abandon()
            self._unread.distrust()
            raise

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that ends at `offset` or behind it; returns the new log end offset."""
        self.cleaned_to = min(self.cleaned_to, offset)  # first, as it may fail half-way
        with self._changing() as content:
            content.cut_to(offset)
        self.cleaned_to = min(self.cleaned_to, content.end_offset)
        return content.end_offset

    def truncate_fully_and_start_at(self, offset: int, *, durable: bool = False) -> None:
        """Remove everything; the next record gets this offset. With `durable` that outlives a power cut."""
        self.cleaned_to = 0
        with self._changing() as content:
            content.start_anew_at(offset, durable=durable)

    def end_at(self, offset: int) -> None:
        """The next record gets this offset, though no batch ends before it. Not for offsets before the log's end."""
        with self._changing() as content:
            content.end_at(offset)

    def advance_log_start(self, offset: int) -> None:
        """Records below `offset` can no longer be read (DeleteRecords); see `retire_below_start` for their segments."""
        content = self.load()
        if not 0 <= offset <= content.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} lies behind the log's end, {content.end_offset}"
            )
        if offset > content.start_offset:
            with self.health.reporting(self._name):
                content.start_at(offset)

    def retire_below_start(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Delete the segments without a readable record, as `apply_retention` does; how many."""
        content = self.load()
        committed = content.end_offset if high_watermark is None else max(high_watermark, content.start_offset)
        return self._retire_below_start(content, now_ms, SEGMENTS_AT_ONCE, committed)

    def _retire_below_start(
        self, content: LogContent, now_ms: int, at_most: int, committed: int, *, may_write: bool = True
    ) -> int:
        count = min(content.segments.number_of(content.start_offset), at_most)
        with self.health.reporting(self._name):
            count = content.known(count, committed, may_write=may_write) if count else 0
        if count:
            with self._changing():
                return content.retire_oldest(count, now_ms, self.config.file_delete_delay_ms, committed)
        return 0

    def retire_before(self, offset: int) -> None:
        """As `advance_log_start`; all segments without a readable record go, without a delay."""
        self.advance_log_start(offset)
        content = self.load()
        if count := content.segments.number_of(content.start_offset):
            content.segments.note_names()  # a power cut must not bring them back, torn, before what is flushed later
            with self._changing():
                content.retire_oldest(count, 0, 0, content.end_offset)
            content.segments.note_names()

    def retire_file(self, path: str) -> None:
        """One beside the segments that is needed no more: it may be large, so threads remove it. Raises OSError."""
        self._removals.retire(path, 0)

    # keeping

    def apply_retention(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """Delete the oldest segments that the configs let go, none at or above the high watermark; how many: if that is
        SEGMENTS_AT_ONCE there may be more. Files are renamed to `*.deleted` and removed later. Producers that were
        silent for too long are forgotten, once for all turns that go on with it, as all are looked at.
        """
        content, config = self.load(), self.config
        committed = content.end_offset if high_watermark is None else high_watermark
        if not content.goes_on:
            content.producers.expire(now_ms, config.producer_id_expiration_ms)
        with self.health.reporting(self._name):
            count = deletable_segments(
                content.segments,
                config,
                size_bytes=content.segments.size_bytes,
                log_start_offset=content.start_offset,
                high_watermark=committed,
                end_offset=content.end_offset,
                now_ms=now_ms,
            )
        content.goes_on = False
        if count:
            with self._changing():
                count = content.retire_oldest(count, now_ms, config.file_delete_delay_ms, committed)
            content.goes_on = count == SEGMENTS_AT_ONCE
        return count

    def swap_in(self, old: list[Segment], now_ms: int, gone: Collection[int] = ()) -> bool:
        """False if one of the segments has gone or changed since compaction read them; as `LogContent.swap_in`."""
        content = self._content
        if content is None or not content.segments.has_sealed(old):
            return False
        with self._changing():
            content.swap_in(old, now_ms + self.config.file_delete_delay_ms, gone)
        return True

    def next_deadline_ms(self, now_ms: int) -> int:
        """The next call of `maybe_flush` and `apply_retention`."""
        return next_look_ms(self._content, self.config, self.directory, now_ms)

    def rests_until_ms(self) -> int | None:
        """As `retention.rests_until_ms`."""
        return rests_until_ms(self._content, self.config)

    # durability

    @property
    def is_dirty(self) -> bool:
        return self._content is not None and self._content.is_dirty

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether `maybe_flush` has something to do."""
        return self._content is not None and self._content.flush_is_due(self.config.flush_ms, now_ms)

    def flush(self) -> None:
        """All earlier appends outlive a power cut. May run in a thread beside appends."""
        content = self._content
        if content is not None:
            with self._flushing(content):
                content.flush()

    def maybe_flush(self, now_ms: int) -> bool:
        """Sealed segments are flushed a while after their roll in any case. May run in a thread beside appends."""
        content = self._content
        if content is not None:
            with self._flushing(content):
                return content.maybe_flush(self.config.flush_ms, now_ms)
        return False

    @contextmanager
    def _flushing(self, content: LogContent) -> Iterator[None]:
        """Files may be missing of a log that was deleted or moved while a thread flushed it."""
        with self.health.reporting(self._name):
            try:
                yield
            except FileNotFoundError:
                if self._content is content:
                    raise

    def close(self, *, durable: bool = True) -> None:
        """The log end offset is then the recovery point, and the log may be loaded again. Without `durable` the bytes
        are in the page cache, and the caller syncs the disk as a whole.
        """
        self.check_not_lent()
        if self._content is not None:
            with self.health.reporting(self._name):
                self._content.close(durable=durable)
            self.abandon()
