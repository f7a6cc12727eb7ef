"""What the consensus core asks of the world in the middle of an event: a log, snapshots, and chance.

These calls answer at once and change what the caller sees at once. None of them promises that anything is on the disk,
but for those that say so: the `Flush` effect does that.
"""

from typing import NamedTuple, Protocol

from penstock.protocol.value import Value
from penstock.protocol.varint import Buffer


class SnapshotId(NamedTuple):
    """A snapshot holds all records before `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int


class EpochEnd(Value):
    """The records of `epoch` end before `end_offset`."""

    epoch: int
    end_offset: int


class Log(Protocol):
    """Holds whole record batches; offsets and epochs stand in their headers.

    A log that starts behind offset 0 starts where a snapshot ends, and knows the epoch of that snapshot.
    """

    @property
    def start_offset(self) -> int:
        """The end offset if there is no record."""

    @property
    def start_epoch(self) -> int:
        """The epoch of the snapshot that the log starts behind; 0 if it starts at 0."""

    @property
    def end_offset(self) -> int:
        """One more than the offset of the last record."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; `start_epoch` if there is none."""

    def append(self, batches: Buffer) -> None:
        """Adds batches whose offsets continue the log. Raises DecodeError for damaged ones; then nothing is added."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one on that holds `offset`: at least one if there is one, then `max_bytes` at most."""

    def truncate(self, end_offset: int) -> None: ...

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; `start_epoch` for the one before the start."""

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest known epoch that is at most `epoch`, and where it ends; those of the start if none is."""

    def start_behind(self, snapshot: SnapshotId) -> None:
        """Forgets the records before the end of the snapshot, which the log reaches. A power cut may bring them back,
        until the log is opened again.
        """

    def start_anew(self, snapshot: SnapshotId) -> None:
        """Forgets all records; the log is empty and starts where the snapshot ends. Durable."""


class Snapshots(Protocol):
    """The snapshots beside the log, whole ones and the one that is being fetched. A whole one never changes."""

    @property
    def latest(self) -> SnapshotId | None: ...

    def size(self, snapshot: SnapshotId) -> int | None:
        """In bytes; None if there is no such whole snapshot."""

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """The piece may begin and end anywhere in a batch."""

    def begin(self, snapshot: SnapshotId) -> None:
        """Forgets what an earlier fetch left of the snapshot."""

    def add(self, snapshot: SnapshotId, piece: bytes) -> None: ...

    def finish(self, snapshot: SnapshotId) -> None:
        """Makes the complete snapshot durable under its own name."""


class Random(Protocol):
    def randrange(self, start: int, stop: int) -> int:
        """The result is below `stop`."""
