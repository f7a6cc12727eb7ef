"""The `.snapshot` files of one partition: written when a segment is rolled and at a clean close, read when the log
opens.

A snapshot at offset X holds what the batches below X say; batches from X on are replayed by their headers. Kafka
keeps one per segment and so do we. A partition that never had an idempotent producer has none.

Where there are many producers, or aborted transactions to be synced before, it takes long, and is left to whoever
flushes next, in a thread. A crash before that costs a longer replay from the snapshot before.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from penstock.log.aborted_transactions import AbortedTransaction, AbortedTransactions
from penstock.log.disk import Disk
from penstock.log.health import may_pass
from penstock.log.names import SNAPSHOT_SUFFIX, offset_prefix
from penstock.log.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from penstock.log.producer_state import NO_OFFSET, NO_PRODUCER_ID, Producer, Producers, snapshot_rows
from penstock.log.segments import Segments
from penstock.protocol.batch import BatchHeader
from penstock.protocol.control.records import TRANSACTION_END, ControlType, control_type
from penstock.protocol.records import Record, decode_batch

MAX_CONTROL_BATCH_BYTES = 1 << 20
MOST_AT_ONCE = 100
"""So many producers are written at a roll itself: half a millisecond."""
MOST_WAITING = 4
"""Of more the last but one is left out: each may keep tens of thousands of producers as they were."""


class _Later(NamedTuple):
    """A snapshot that is to be written."""

    offset: int
    producers: list[Producer]
    aborted: AbortedTransactions
    unsynced: Sequence[tuple[str, int]]
    """What a start that goes on from the snapshot believes."""


class ProducerSnapshots:
    """`save` may run in another thread than the other methods."""

    __slots__ = ("_changing", "_directory", "_disk", "_later", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: list[int]) -> None:
        self._disk = disk
        self._directory = directory
        self._later: list[_Later] = []
        self._changing = threading.Lock()
        self.offsets = sorted(offsets)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_prefix(offset)}{SNAPSHOT_SUFFIX}"

    def take(self, producers: Producers, aborted: AbortedTransactions, offset: int) -> None:
        """At once where that is quick, else `save` is to follow. Raises OSError."""
        aborted.complete()
        if len(producers) <= MOST_AT_ONCE and not aborted.unsynced and not self._later:
            self.write(producers, offset, durable=False)
        else:
            self.take_later(producers, aborted, offset)

    def take_later(self, producers: Producers, aborted: AbortedTransactions, offset: int) -> None:
        with self._changing:
            if offset > max([self.newest, *(later.offset for later in self._later)]):
                del self._later[MOST_WAITING - 1 :]
                self._later.append(_Later(offset, producers.frozen(), aborted, aborted.unsynced))

    def write(self, producers: Producers, offset: int, *, durable: bool) -> None:
        """Nothing is kept if there never was a producer. Raises OSError."""
        self._forget_later()
        if (not len(producers) and not self.offsets) or self.newest >= offset:
            return
        self._disk.replace_file(self._path(offset), encode_snapshot(producers.to_snapshot()), durable=durable)
        self.offsets.append(offset)

    @property
    def newest(self) -> int:
        """The offset of the newest one that is written; -1 if there is none."""
        return self.offsets[-1] if self.offsets else -1

    def newest_up_to(self, end_offset: int) -> int:
        """As `newest`, of those that a cut at this offset leaves."""
        known = bisect_right(self.offsets, end_offset)
        return self.offsets[known - 1] if known else -1

    @property
    def is_waiting(self) -> bool:
        """`save` has something to do."""
        return bool(self._later)

    def save(self) -> None:
        """Write what `take` has left, unless the log is cut meanwhile; where there is no room for it, it still waits.
        Raises OSError.
        """
        while (later := self._first_later()) is not None:
            later.aborted.sync_files(later.unsynced)
            content = encode_snapshot(snapshot_rows(later.producers))
            with self._changing:
                if later not in self._later:
                    continue
                try:
                    self._disk.replace_file(self._path(later.offset), content, durable=False)
                except OSError as error:
                    if not may_pass(error):
                        raise
                    return
                self.offsets.append(later.offset)
                later.aborted.synced(later.unsynced)
                self._later.remove(later)

    def _first_later(self) -> _Later | None:
        with self._changing:
            return self._later[0] if self._later else None

    def _forget_later(self, beyond: int = -1) -> None:
        with self._changing:
            self._later = [later for later in self._later if later.offset <= beyond]

    def keep(self, base_offsets: list[int], end_offset: int) -> None:
        """Remove the snapshots that belong to no segment, but for the newest one, and durably those beyond the log's
        end: after a power cut they would be taken for ones of other records that got these offsets.
        """
        self._forget_later(end_offset)
        self._remove([offset for offset in self.offsets if offset > end_offset], durable=True)
        wanted = {*base_offsets, *self.offsets[-1:]}
        self._remove([offset for offset in self.offsets if offset not in wanted])

    def remove_below(self, start_offset: int) -> None:
        """The segments below this offset go, and with them what closes have left within them."""
        self._remove(self.offsets[: bisect_left(self.offsets, start_offset)])

    def forget(self, offsets: Collection[int]) -> None:
        """The segments that begin with these offsets went and took their snapshots along."""
        if not offsets:
            return
        with self._changing:
            concerned = slice(bisect_left(self.offsets, min(offsets)), bisect_right(self.offsets, max(offsets)))
            self.offsets[concerned] = [offset for offset in self.offsets[concerned] if offset not in offsets]

    def remove_all(self) -> None:
        """Durably, before other records get these offsets."""
        self._forget_later()
        self._remove(self.offsets, durable=True)

    def _remove(self, offsets: list[int], *, durable: bool = False) -> None:
        for offset in offsets:
            self._disk.remove(self._path(offset))
        if offsets and durable:
            self._disk.sync_directory(self._directory)
        self.forget(set(offsets))

    def restore(self, producers: Producers) -> int | None:
        """From the newest readable snapshot; its offset, None if there is none."""
        if self._later:
            newest = self._later[-1]
            producers.restore(snapshot_rows(newest.producers))
            return newest.offset
        while self.offsets:
            offset = self.offsets[-1]
            try:
                producers.restore(decode_snapshot(self._disk.read_file(self._path(offset)) or b""))
            except CorruptSnapshotError:
                self._remove([offset])
                continue
            return offset
        producers.clear()
        return None


def replay(
    producers: Producers,
    aborted: AbortedTransactions,
    segments: Segments,
    offset: int,
    snapshots: ProducerSnapshots | None = None,
) -> None:
    """The producers learn of all batches from `offset` on, and of the transactions that they aborted. Of `snapshots`
    those are taken again that lack where a segment begins: they have to know of its producers when it is gone.
    """
    for segment in segments.from_offset(offset):
        if snapshots is not None and len(producers) and segment.base_offset > offset:
            snapshots.take_later(producers, aborted, segment.base_offset)
        for position, header in segment.headers_from(offset):
            if header.producer_id == NO_PRODUCER_ID or header.base_offset < offset:
                continue
            if header.is_marker:
                batch = segment.opened().read_at(header.size_in_bytes, position)
                for one in note_control_batch(producers, header, batch):
                    aborted.note(one, segment.base_offset)
            else:
                producers.note_batch(header, header.base_offset, header.last_offset, header.max_timestamp)


def note_control_batch(
    producers: Producers, header: BatchHeader, batch: bytes | memoryview
) -> Iterator[AbortedTransaction]:
    """It is the marker that ends a transaction: what it aborts."""
    for record, coordinator_epoch in transaction_ends(batch):
        first_offset = producers.note_transaction_end(header, record.offset, coordinator_epoch)
        if first_offset != NO_OFFSET and control_type(record) == ControlType.ABORT:
            open_offset = producers.first_open_offset
            stable = record.offset + 1 if open_offset is None else open_offset
            yield AbortedTransaction(header.producer_id, first_offset, record.offset, stable)


def transaction_ends(batch: bytes | memoryview) -> Iterator[tuple[Record, int]]:
    """The markers of a control batch, each with the epoch of the coordinator that wrote it. Raises DecodeError."""
    for record in decode_batch(batch, 0, max_bytes=MAX_CONTROL_BATCH_BYTES):
        if record.value is not None and len(record.value) >= TRANSACTION_END.size:
            yield record, TRANSACTION_END.unpack_from(record.value)[1]
