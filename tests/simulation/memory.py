"""In-memory twins of the consensus core's ports, and a disk that forgets what was not flushed."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from penstock.protocol.records import iterate_batches
from penstock.protocol.varint import Buffer
from penstock.raft.ports import EpochEnd, SnapshotId


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    last_offset: int
    epoch: int
    data: bytes


BEGINNING = SnapshotId(0, 0)


@dataclass(frozen=True, slots=True)
class Contents:
    """A log as it lies on a disk."""

    start: SnapshotId = BEGINNING
    batches: tuple[Batch, ...] = ()


def ignore_append(batch: Batch, previous_epoch: int) -> None:
    pass


def ignore_cut(end_offset: int) -> None:
    pass


class MemoryLog:
    """A metadata log; `disk` is what a crash leaves of it."""

    def __init__(self, contents: Contents | None = None) -> None:
        contents = contents or Contents()
        self.start = contents.start
        self.batches = list(contents.batches)
        self.disk = contents
        self.on_append: Callable[[Batch, int], None] = ignore_append
        self.on_cut: Callable[[int], None] = ignore_cut

    @property
    def start_offset(self) -> int:
        return self.start.end_offset

    @property
    def start_epoch(self) -> int:
        return self.start.epoch

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start.end_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start.epoch

    def append(self, batches: Buffer) -> None:
        for position, header in iterate_batches(batches):
            data = bytes(batches[position : position + header.size_in_bytes])
            batch = Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, data)
            assert batch.base_offset == self.end_offset, "a hole in the log"
            assert batch.epoch >= self.last_epoch, "epochs go back in the log"
            self.on_append(batch, self.last_epoch)
            self.batches.append(batch)

    def read(self, offset: int, max_bytes: int) -> bytes:
        taken: list[bytes] = []
        size = 0
        for batch in self.batches[self._index_of(offset) :]:
            size += len(batch.data)
            if taken and size > max_bytes:
                break
            taken.append(batch.data)
        return b"".join(taken)

    def truncate(self, end_offset: int) -> None:
        self.on_cut(end_offset)
        while self.batches and self.batches[-1].last_offset >= end_offset:
            self.batches.pop()

    def epoch_at(self, offset: int) -> int:
        if offset < self.start.end_offset:
            return self.start.epoch
        return self.batches[self._index_of(offset)].epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        number = bisect_right(self.batches, epoch, key=lambda batch: batch.epoch)
        if not number:
            return EpochEnd(self.start.epoch, self.start.end_offset)
        batch = self.batches[number - 1]
        return EpochEnd(batch.epoch, batch.last_offset + 1)

    def start_behind(self, snapshot: SnapshotId) -> None:
        assert snapshot.end_offset <= self.end_offset
        self.batches = [batch for batch in self.batches if batch.base_offset >= snapshot.end_offset]
        self.start = snapshot
        kept = tuple(batch for batch in self.disk.batches if batch.base_offset >= snapshot.end_offset)
        if kept and kept[0].base_offset != snapshot.end_offset:
            kept = ()
        self.disk = Contents(snapshot, kept)

    def start_anew(self, snapshot: SnapshotId) -> None:
        self.on_cut(snapshot.end_offset)
        self.batches = []
        self.start = snapshot
        self.disk = Contents(snapshot)

    # The disk.

    def contents(self) -> Contents:
        return Contents(self.start, tuple(self.batches))

    def flush(self) -> None:
        self.disk = self.contents()

    def crash(self, random: Random) -> Contents:
        """What is found after a crash: what was flushed, and perhaps some of what was done since."""
        if random.random() < 0.5:
            return self.disk
        common = 0
        for mine, flushed in zip(self.batches, self.disk.batches, strict=False):
            if mine != flushed:
                break
            common += 1
        reached = random.randint(common, len(self.batches))
        return Contents(self.start, tuple(self.batches[:reached]))

    def _index_of(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=lambda batch: batch.last_offset + 1)


class MemorySnapshots:
    """Whole snapshots and the one that is being fetched; only the latter is lost in a crash."""

    def __init__(self) -> None:
        self.whole: dict[SnapshotId, bytes] = {}
        self.partial: dict[SnapshotId, bytearray] = {}

    @property
    def latest(self) -> SnapshotId | None:
        return max(self.whole, default=None)

    def size(self, snapshot: SnapshotId) -> int | None:
        return len(self.whole[snapshot]) if snapshot in self.whole else None

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        return self.whole[snapshot][position : position + max_bytes]

    def begin(self, snapshot: SnapshotId) -> None:
        self.partial = {snapshot: bytearray()}

    def add(self, snapshot: SnapshotId, piece: bytes) -> None:
        self.partial[snapshot] += piece

    def finish(self, snapshot: SnapshotId) -> None:
        self.whole[snapshot] = bytes(self.partial.pop(snapshot))

    def store(self, snapshot: SnapshotId, data: bytes) -> None:
        self.whole.setdefault(snapshot, data)
        for old in sorted(self.whole)[:-2]:
            del self.whole[old]
