"""What the directory of one partition holds once it is read in: segments, leader epochs, producers and their
snapshots, which are appended to, cut and flushed together.

All methods belong to one thread (the event loop's), but for `flush` and `maybe_flush`, which may run in another one.
Every method may raise OSError; after one from `cut_to`, `start_anew_at`, `retire_oldest` or
`swap_in` only the files can tell what is left, and the log has to be read in again.
"""

import threading
from collections.abc import Collection, Sequence
from itertools import pairwise

from penstock.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from penstock.log.config import LogConfig
from penstock.log.health import may_pass
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.producer_snapshots import ProducerSnapshots, note_control_batch, replay, transaction_ends
from penstock.log.producer_state import NO_PRODUCER_ID, Producers
from penstock.log.rolling import Room, must_roll
from penstock.log.segment import MAX_RELATIVE_OFFSET, Segment
from penstock.log.segments import Segments
from penstock.log.validation import AppendRules
from penstock.protocol.batch import LENGTH_END, BatchHeader

SEALED_FLUSH_DELAY_MS = 60_000
"""How long after a roll the sealed segments are synced: by then the system has written most of them by itself."""

_RULES_OF_NO_TOPIC = AppendRules(LogConfig())


class LogContent:
    """Readers get the offsets in [`start_offset`, `end_offset`); what lies before `recovery_point` outlives a power
    cut, and so do the indexes of segments whose successor begins before it. `dirty_since_ms` is when the oldest record
    was written that no flush has begun with, None if there is none. Below `rewritten_below` an offset may have belonged
    to another record before: a power cut must not leave that one behind a segment that is newer. `rules` are those of
    the config of the last append.
    """

    __slots__ = (
        "_cutting",
        "_flushing",
        "_room",
        "_snapshots",
        "aborted",
        "cuts",
        "dirty_since_ms",
        "end_offset",
        "epochs",
        "goes_on",
        "producers",
        "recovery_point",
        "rewritten_below",
        "rules",
        "segments",
        "start_offset",
    )

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: Producers,
        snapshots: ProducerSnapshots,
        aborted: AbortedTransactions,
        *,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        rewritten_below: int,
    ) -> None:
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self._snapshots = snapshots
        self.aborted = aborted
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self.dirty_since_ms: int | None = None
        self.rewritten_below = rewritten_below
        self.rules = _RULES_OF_NO_TOPIC
        self.goes_on = False
        """Whether retention left segments that may go, for its next turn."""
        self.cuts = 0
        """How often records were taken from the end, or all of them."""
        self._cutting = threading.Lock()
        """For a moment: a thread that flushes must not find that nothing was cut, and then say so behind a cut."""
        self._flushing = threading.Lock()
        """One flush after the other: two would save the same entries of an index."""
        self._room = Room()

    # transactions

    def aborted_in(self, offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """What may be aborted of the records in [`offset`, `end_offset`): those that a read from there has found."""
        return self.aborted.between(offset, end_offset) if self.aborted else ()

    def is_committed(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to no transaction that is open or aborted."""
        producer_id, offset = header.producer_id, header.base_offset
        if not header.is_transactional:
            return True
        return not self.producers.is_open(producer_id, offset) and not self.aborted.covers(producer_id, offset)

    # appending

    def check_coordinated(self, batch: memoryview, header: BatchHeader) -> None:
        """A batch of a coordinator that has a producer: records of a transaction, or the marker that ends it. Raises
        UnverifiedError and KafkaError as `Producers.check` and `Producers.check_marker`.
        """
        if header.is_control:
            for _, coordinator_epoch in transaction_ends(batch):
                self.producers.check_marker(header, coordinator_epoch)
        else:
            self.producers.check_coordinated(header)

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        config: LogConfig,
        now_ms: int,
    ) -> bool:
        """The batch has its epoch and its offsets, from `base_offset` on; `header` has its other fields. Whether it is
        the first one of a segment. After an OSError it is not written.
        """
        size = len(batch)
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        segments, room = self.segments, self._room
        segment = segments.active
        is_new = (
            segment is not room.segment
            or config is not room.config
            or segment.size + size > room.size
            or last_offset > room.last_offset
            or max_timestamp > room.timestamp
        )
        is_first = is_new and must_roll(segment, config, size, last_offset, max_timestamp, now_ms)
        if is_first:
            segment = self.roll(max(self.end_offset, last_offset - MAX_RELATIVE_OFFSET), now_ms)
        segment.write(batch)
        self._note(segment, batch, header, base_offset, config, now_ms)
        if is_new:
            self._room = Room(segment, config)
        return is_first

    def append_fetched(self, batches: memoryview, found: list[tuple[int, BatchHeader]], config: LogConfig) -> None:
        """One write for batches that surely fit into the segment. After an OSError neither they nor later ones are
        written.
        """
        done = 0
        while done < len(found):
            count = self._fitting(found, done, config)
            position, header = found[done]
            if not count or header.partition_leader_epoch > self.epochs.latest:
                batch = batches[position : position + header.size_in_bytes]
                epoch, written_ms = header.partition_leader_epoch, header.max_timestamp
                self.append(batch, header, header.base_offset, epoch, config, written_ms)
                done += 1
                continue
            last, last_header = found[done + count - 1]
            segment = self.segments.active
            segment.write(batches[position : last + LENGTH_END + last_header.batch_length])
            for at, one in found[done : done + count]:
                batch = batches[at : at + LENGTH_END + one.batch_length]
                self._note(segment, batch, one, one.base_offset, config, one.max_timestamp)
            done += count

    def _fitting(self, found: list[tuple[int, BatchHeader]], first: int, config: LogConfig) -> int:
        """They have one epoch and surely fit into the active segment."""
        segment, room = self.segments.active, self._room
        if segment is not room.segment or config is not room.config:
            return 0
        size, epoch = segment.size, found[first][1].partition_leader_epoch
        for number in range(first, len(found)):
            base_offset, length, of_epoch, _, _, _, delta, _, max_timestamp, *_ = found[number][1]
            size += LENGTH_END + length
            if (
                size > room.size
                or base_offset + delta > room.last_offset
                or max_timestamp > room.timestamp
                or of_epoch != epoch
            ):
                return number - first
        return len(found) - first

    def _note(
        self,
        segment: Segment,
        batch: memoryview,
        header: BatchHeader,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
    ) -> None:
        size, max_timestamp = len(batch), header.max_timestamp
        last_offset = base_offset + header.last_offset_delta
        self.segments.size_bytes += size
        if self.dirty_since_ms is None:
            self.dirty_since_ms = now_ms
            if segment.created_ms is None:
                segment.created_ms = now_ms
        segment.note_batch(base_offset, last_offset, size, max_timestamp, config.index_interval_bytes)
        self.end_offset = last_offset + 1  # whatever fails behind this: the batch is written
        if header.producer_id != NO_PRODUCER_ID:
            if header.is_marker:
                for one in note_control_batch(self.producers, header, batch):
                    self.aborted.note(one, segment.base_offset)
            else:
                self.producers.note_batch(header, base_offset, last_offset, max_timestamp)

    def end_at(self, offset: int) -> None:
        """An empty segment says so."""
        self.roll(offset, None)
        self.end_offset = offset

    def roll(self, base_offset: int, now_ms: int | None) -> Segment:
        """After an OSError the old segment is still the active one."""
        active = self.segments.active
        if active.size == 0:
            if active.base_offset == base_offset:
                return active
            return self.segments.replace_active(base_offset, now_ms)
        is_rewritten = base_offset <= self.rewritten_below
        active.save_indexes(is_final=True, durable=is_rewritten)
        self._snapshots.take(self.producers, self.aborted, self.end_offset)
        if is_rewritten:  # else what was cut might come back before the new segment
            active.flush()
            self.epochs.sync()
        return self.segments.add(base_offset, now_ms)

    # cutting

    def cut_to(self, offset: int) -> None:
        """Remove every batch that ends at `offset` or behind it. Where there is none a term without a batch goes: a
        leader has it whose first append failed. Nobody else may know of it, and who asks for it to find out where logs
        part would ask for ever.
        """
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return
        if offset <= self.segments[0].base_offset or offset < self.start_offset:
            self.start_anew_at(offset)
            return
        self._distrust_from(offset)  # first, as it may fail half-way
        self.segments.drop_from(self.segments.number_of(offset) + 1)
        cut = self.segments.cut_active(offset)
        end_offset = offset if cut is None else cut
        if end_offset < self.start_offset:  # the batch that held the log start was cut: begin anew behind it
            self.start_anew_at(self.start_offset)
            return
        self._end_at(end_offset)
        if cut is not None:  # the next flush has to begin with this segment: the cut is durable before what follows it
            self.recovery_point = min(self.recovery_point, self.segments.active.base_offset)
        self.epochs.truncate_from_end(end_offset)
        self._snapshots.keep(self.segments.base_offsets, end_offset)
        snapshot_offset = self._snapshots.restore(self.producers)
        self.aborted.cut_to(end_offset, self.segments.active.base_offset)
        replay(self.producers, self.aborted, self.segments, snapshot_offset or 0, self._snapshots)

    def start_anew_at(self, offset: int, *, durable: bool = False) -> None:
        """Remove everything; the next record gets this offset. With `durable` that outlives a power cut."""
        self._end_at(offset)
        self.start_offset = self.recovery_point = offset
        self._snapshots.remove_all()
        self.segments.restart_at(offset)
        self.epochs.clear()
        self.producers.clear()
        self.aborted.clear()
        if durable:
            self.epochs.sync()
            self.segments.sync_names()

    def _end_at(self, end_offset: int) -> None:
        """The log was cut."""
        self._room = Room()
        self.rewritten_below = max(self.rewritten_below, self.end_offset)
        self.end_offset = end_offset  # first: a flush that begins behind the cut must not bring the old end with it
        self._distrust_from(end_offset)

    def _distrust_from(self, offset: int) -> None:
        """A power cut may undo a cut, and the checkpoint may still hold the old recovery point."""
        self.rewritten_below = max(self.rewritten_below, self.end_offset)
        with self._cutting:
            self.cuts += 1
        self.recovery_point = min(self.recovery_point, offset)

    def start_at(self, offset: int) -> None:
        """Records below `offset` can no longer be read."""
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)

    def retire_oldest(self, count: int, now_ms: int, delay_ms: int, committed: int) -> int:
        """The oldest `count` segments, perhaps all, are read no longer; their files are removed after a delay. Nothing
        is cut below the offset `committed`, and they end there or before. Returns how many went: fewer where there was
        no room for a new one, or for a snapshot of what the last ones say, or that may be cut off.
        """
        if count == len(self.segments):
            try:
                self.roll(self.end_offset, now_ms)
            except OSError as error:
                if not may_pass(error):
                    raise
                count -= 1  # where there is no room for a new segment the others make some first
        count = self.known(count, committed)
        first_offset = self.segments[count].base_offset
        if count:
            if self._snapshots.newest_up_to(committed) >= first_offset:
                self._snapshots.remove_below(first_offset)
            self.aborted.forget_below(first_offset)
            self.start_at(max(self.start_offset, first_offset))
        self.segments.retire_oldest(count, now_ms + delay_ms)
        return count

    def known(self, count: int, committed: int, *, may_write: bool = True) -> int:
        """So many of the oldest `count` segments may go. Where no snapshot behind them, which a cut leaves, knows of
        producers whose batches go, one is made before, if it may be. Without room for that, or until it is committed,
        retention goes on as far as one is.
        """
        snapshots, first_offset = self._snapshots, self.segments[count].base_offset
        if snapshots.newest_up_to(committed) >= first_offset:
            return count
        if may_write and snapshots.newest < first_offset:
            try:
                snapshots.save()
                if snapshots.newest < first_offset:
                    snapshots.take(self.producers, self.aborted, self.end_offset)
                    snapshots.save()
            except OSError as error:
                if not may_pass(error):
                    raise
        known = snapshots.newest_up_to(committed)
        has_nothing_to_know = not len(self.producers) and (may_write or not snapshots.offsets)
        if known >= first_offset or has_nothing_to_know:
            return count
        ends = [
            one.last_offset + 1 if one.last_offset >= one.base_offset else behind.base_offset
            for one, behind in pairwise(self.segments[: count + 1])
        ]
        return sum(end <= known for end in ends)

    def swap_in(self, old: list[Segment], due_ms: int, gone: Collection[int]) -> None:
        """Compaction made the new segment, without the markers at the offsets `gone`; the files of these neighbours go
        at `due_ms`.
        """
        behind = self.segments[self.segments.number_of(old[-1].base_offset) + 1].base_offset
        self.aborted.rewrite(old[0].base_offset, behind, gone)
        self.segments.swap_in(old, due_ms)
        self._snapshots.forget({segment.base_offset for segment in old[1:]})

    # durability

    @property
    def is_dirty(self) -> bool:
        """Some records are only in the page cache."""
        return self.end_offset > self.recovery_point

    def flush(self) -> None:
        """All earlier appends outlive a power cut."""
        cuts, end_offset = self.cuts, self.end_offset  # in this order, as the log may be cut now
        if end_offset <= self.recovery_point:
            return
        since, self.dirty_since_ms = self.dirty_since_ms, None  # first: appends meanwhile set it again
        try:
            self._flush(self._unflushed(), end_offset, cuts)
        except OSError:
            if self.dirty_since_ms is None:
                self.dirty_since_ms = since
            raise

    def maybe_flush(self, flush_ms: int, now_ms: int) -> bool:
        """Flush records that were written `flush_ms` ago; sealed segments a while after their roll in any case, and
        what is known of their producers at once.
        """
        self._snapshots.save()
        cuts, since, sealed_end = self.cuts, self.dirty_since_ms, self.segments.active.base_offset
        if since is None or not self._is_due(flush_ms, now_ms):
            return False
        if now_ms - since >= flush_ms:
            self.flush()
        else:
            self._flush(self._unflushed()[:-1], sealed_end, cuts)
        return True

    def flush_is_due(self, flush_ms: int, now_ms: int) -> bool:
        """Whether `maybe_flush` has something to do."""
        return self._snapshots.is_waiting or self._is_due(flush_ms, now_ms)

    def _is_due(self, flush_ms: int, now_ms: int) -> bool:
        since, active = self.dirty_since_ms, self.segments.active
        if since is None:
            return False
        if now_ms - since >= flush_ms:
            return True
        has_sealed = self.recovery_point < active.base_offset
        return has_sealed and now_ms - (active.created_ms or now_ms) >= SEALED_FLUSH_DELAY_MS

    def _unflushed(self) -> list[Segment]:
        """A recovery would begin with the first one: if that was flushed before it was sealed, its indexes were not."""
        return self.segments.beside_from(self.recovery_point - 1)

    def _flush(self, segments: list[Segment], end_offset: int, cuts: int) -> None:
        with self._flushing:
            self.segments.flush(segments)
            self.epochs.sync()
        with self._cutting:
            if self.cuts == cuts:  # else synced records may have been cut off, and replaced by others
                self.recovery_point = max(self.recovery_point, end_offset)

    def close(self, *, durable: bool) -> None:
        """Without `durable` the bytes are in the page cache, for the caller to sync. What there was no room for when it
        was noted is written now: a start after a clean stop believes these files.
        """
        if durable:
            self.flush()
        self.segments.active.save_indexes(is_final=True, durable=durable)
        self.aborted.complete()
        self.epochs.write()
        if durable:
            self.aborted.sync()
        self._snapshots.save()
        self._snapshots.write(self.producers, self.end_offset, durable=durable)
        if durable:
            self.epochs.sync()
        self.recovery_point = self.end_offset
