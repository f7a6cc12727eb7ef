"""The log of the consensus core on the disk: `penstock.raft.ports.Log` over the log of a partition.

Where the log starts is not written down beside it: it starts behind the newest snapshot that it reaches and agrees
with. So what `start_behind` and `start_anew` did outlives a power cut as the snapshot does, and segments whose removal
did not reach the disk are let go of once more when the log is opened.

All methods belong to the thread of the event loop, but for `flush`, which may run in another one.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterator

from penstock.log.partition_log import PartitionLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.protocol.batch import BatchHeader, check_crc, read_header
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import iterate_batches
from penstock.protocol.varint import Buffer
from penstock.raft.ports import EpochEnd, SnapshotId

logger = logging.getLogger(__name__)


class StoredLog:
    """Raises KafkaError(KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE) where the disk fails."""

    __slots__ = ("_damaged_at", "_log", "_snapshots", "_start")

    def __init__(self, log: PartitionLog, snapshots: StoredSnapshots) -> None:
        self._log = log
        self._snapshots = snapshots
        self._damaged_at = -1
        self._start = SnapshotId(log.log_start_offset, 0)
        latest = snapshots.latest
        if latest is not None and self._holds(latest):
            self.start_behind(latest)
        self._check_batches()
        log.flush()  # what a process left that was killed may be in the page cache alone

    def _holds(self, snapshot: SnapshotId) -> bool:
        """Whether the log reaches the end of a snapshot and is the one that it was taken of.

        Only the batches can tell: what is known of offsets and epochs may be newer than they are after a power cut.
        """
        log, end_offset = self._log, snapshot.end_offset
        if not log.log_start_offset <= end_offset <= log.log_end_offset:
            return False
        earlier = [segment for segment in log.segments if segment.base_offset < end_offset]
        if not earlier:
            return True
        last = next(earlier[-1].headers_from(end_offset - 1), None)
        return last is not None and (last[1].last_offset + 1, last[1].partition_leader_epoch) == (
            end_offset,
            snapshot.epoch,
        )

    def _check_batches(self) -> None:
        """Cut where offsets do not follow each other or epochs go back, and learn from the batches where terms begin.

        After a power cut a segment may be as it was before the log was cut, with a later one behind it.
        """
        expected, epoch = self._start.end_offset, self._start.epoch
        terms: list[tuple[int, int]] = []
        for header in self._headers():
            if header.base_offset != expected or header.partition_leader_epoch < epoch:
                break
            if not terms or header.partition_leader_epoch > epoch:
                epoch = header.partition_leader_epoch
                terms.append((epoch, expected))
            expected = header.last_offset + 1
        self._log.truncate_to(expected)
        self._log.leader_epochs.restore(terms)

    def _headers(self) -> Iterator[BatchHeader]:
        start_offset = self._start.end_offset
        for segment in list(self._log.segments):
            for _, header in segment.headers_from(max(segment.base_offset, start_offset)):
                yield header

    # what it is

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def start_offset(self) -> int:
        """The end offset if there is no record."""
        return self._start.end_offset

    @property
    def start_epoch(self) -> int:
        """The epoch of the snapshot that the log starts behind; 0 if it starts at 0."""
        return self._start.epoch

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; `start_epoch` if there is none."""
        return self._start.epoch if self.end_offset == self._start.end_offset else self._log.leader_epochs.latest

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; `start_epoch` for the one before the start."""
        return self._start.epoch if offset < self._start.end_offset else self._log.leader_epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest known epoch that is at most `epoch`, and where it ends; those of the start if none is."""
        entries = self._log.leader_epochs.entries
        number = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if not number:
            return EpochEnd(self._start.epoch, self._start.end_offset)
        return EpochEnd(entries[number - 1][0], entries[number][1] if number < len(entries) else self.end_offset)

    # records

    def append(self, batches: Buffer) -> None:
        """Adds batches whose offsets continue the log. Raises DecodeError for damaged ones; then nothing is added."""
        header = read_header(batches, 0)
        assert header.base_offset == self.end_offset, "a hole in the log"
        assert header.partition_leader_epoch >= self.last_epoch, "epochs go back in the log"
        try:
            self._log.append_as_follower(memoryview(batches))
        except KafkaError as error:
            if error.code != ErrorCode.CORRUPT_MESSAGE:
                raise
            self._tell_of_damage(error)
            raise DecodeError(error.message) from error

    def _tell_of_damage(self, error: KafkaError) -> None:
        """Says once for each place that the leader sends what is damaged: a follower asks for it again and again."""
        if self._damaged_at != self.end_offset:
            self._damaged_at = self.end_offset
            logger.error(
                "what the quorum's leader sends of the metadata log from offset %d on is damaged (%s): if this lasts,"
                " it is so on the leader's disk, and another node should lead",
                self.end_offset,
                error.message,
            )

    def read(self, offset: int, max_bytes: int) -> bytes:
        """From the batch with `offset` on: at least one, then up to `max_bytes`. KafkaError(KAFKA_STORAGE_ERROR)."""
        return read_whole(self._log, offset, max_bytes)

    def flush(self) -> None:
        """What was appended before outlives a power cut. May run in a thread beside all else."""
        self._log.flush()

    # cutting

    def truncate(self, end_offset: int) -> None:
        self._log.truncate_to(max(end_offset, self._start.end_offset))

    def start_behind(self, snapshot: SnapshotId) -> None:
        """Forgets the records before the end of the snapshot, which the log reaches."""
        self._log.retire_before(snapshot.end_offset)
        self._start = snapshot
        self._snapshots.forget_older(self._log.retire_file)

    def start_anew(self, snapshot: SnapshotId) -> None:
        """Forgets all records; the log is empty and starts where the snapshot ends. Durable."""
        self._log.truncate_fully_and_start_at(snapshot.end_offset, durable=True)
        self._start = snapshot
        self._snapshots.forget_older(self._log.retire_file)


def read_whole(log: PartitionLog, offset: int, max_bytes: int) -> bytes:
    """Raises KafkaError(KAFKA_STORAGE_ERROR): damaged batches are neither applied nor given to replicas."""
    if offset >= log.log_end_offset:
        return b""
    why, end = "it is not there", 0
    try:
        data = log.read(offset, max_bytes).read()
        for position, header in iterate_batches(data):
            if not check_crc(data, position, header):
                why = "its CRC does not fit"
                break
            end = position + header.size_in_bytes
    except (OSError, DecodeError, KafkaError) as error:
        why = str(error)
    if not end:
        text = f"the metadata log is damaged on this node's disk at offset {offset}: {why}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
    return data[:end]
