"""The metadata log `__cluster_metadata-0`: what was decided, in order, durable before anybody acts on it.

Contract, which holds as well once several nodes agree on the log:

* `replay` hands all that is committed to `on_committed`: the newest snapshot, then the records after it;
* `lead` begins a new leader epoch with a control record;
* `append` writes the records as one batch and returns a future; when they are committed, `on_committed` gets them
  first, then the future is done. Futures complete in the order of the appends. An append of no records completes when
  all that was appended before it is committed.

Here the quorum is this node alone, so a record is committed when it is on the disk. The sync runs in a thread; whatever
is appended meanwhile shares the next one. After a failed sync nobody knows what the disk holds, and records that
cannot be applied leave the image behind the log: either way the log takes nothing more until the node starts again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.log.disk import Disk
from penstock.metadata.control_records import leader_change_batch
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import metadata_records
from penstock.node.metadata_snapshots import MetadataSnapshots, SnapshotLimits
from penstock.node.quorum.state_file import StateFile
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, read_header
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.raft.effects import ElectionState
from penstock.raft.voters import Quorum, ReplicaKey, Voter

TOPIC = "__cluster_metadata"
READ_BYTES = 1 << 20

logger = logging.getLogger(__name__)

OnCommitted = Callable[[Sequence[MetadataRecord], int], None]
"""Gets the records of a batch and the offset of the last of them."""


class BatchSlice(Protocol):
    """Bytes that begin with a batch."""

    def read(self) -> bytes:
        """Reads them."""


class BatchLog(Protocol):
    """What the metadata log needs of a partition's log."""

    directory: str

    @property
    def log_start_offset(self) -> int:
        """The first offset."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    def append_as_follower(self, batches: memoryview, *, now_ms: int | None = None) -> int:
        """Writes batches as they are."""

    def read(self, offset: int, max_bytes: int) -> BatchSlice:
        """Reads from the batch that holds `offset` on; the first batch is whole."""

    def flush(self) -> None:
        """Brings everything to the disk."""

    def advance_log_start(self, offset: int) -> None:
        """What is before `offset` is no longer needed."""

    def apply_retention(self, now_ms: int) -> int:
        """Deletes segments that are no longer needed."""


@dataclass(frozen=True, slots=True)
class _Append:
    """Records that wait until all before `end_offset` is committed."""

    records: Sequence[MetadataRecord]
    end_offset: int
    done: asyncio.Future[None]


class MetadataLog:
    """The metadata log of a quorum of one."""

    def __init__(
        self,
        log: BatchLog,
        disk: Disk,
        node_id: int,
        now_ms: Callable[[], int],
        limits: SnapshotLimits = SnapshotLimits(),  # noqa: B008  it never changes
    ) -> None:
        self._log = log
        self._snapshots = MetadataSnapshots(disk, log.directory, limits, now_ms())
        self._disk = disk
        self._node_id = node_id
        self._now_ms = now_ms
        self._waiting: deque[_Append] = deque()
        self._sync: asyncio.Future[None] | None = None
        self._synced_offset = -1
        self._failure: KafkaError | None = None
        self.on_committed: OnCommitted = _nobody_listens
        self.leader_epoch = 0

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    def replay(self) -> None:
        """Hands the newest snapshot and all records after it to `on_committed`. DecodeError if one makes no sense."""
        offset = self._log.log_start_offset
        snapshot = self._snapshots.load()
        if snapshot is not None:
            self.leader_epoch, offset = snapshot.leader_epoch, snapshot.end_offset
            if self.next_offset < offset:
                raise DecodeError(f"{TOPIC}-0 ends at offset {self.next_offset}, its snapshot goes up to {offset}")
            self.on_committed(snapshot.records, snapshot.end_offset - 1)
        for header, records in self._batches(offset):
            self._snapshots.note(header.size_in_bytes)
            self.leader_epoch = max(self.leader_epoch, header.partition_leader_epoch)
            self.on_committed(records, header.last_offset)

    async def lead(self) -> int:
        """Begins the next leader epoch and returns it when that is on the disk."""
        file = StateFile(self._disk, self._log.directory)
        self.leader_epoch = max(self.leader_epoch, file.read().epoch) + 1
        file.write(ElectionState(self.leader_epoch, self._node_id), Quorum((Voter(ReplicaKey(self._node_id)),)))
        batch = leader_change_batch(
            self._node_id, [self._node_id], self.leader_epoch, base_offset=self.next_offset, now_ms=self._now_ms()
        )
        self._write(batch)
        await self.append(())
        return self.leader_epoch

    def append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        """Appends records as one batch; the future is done when they are committed.

        Raises KafkaError KAFKA_STORAGE_ERROR if they could not be written; the future fails with it if the sync did.
        """
        if self._failure is not None:
            raise self._failure
        if records:
            now_ms = self._now_ms()
            batch = [Record(timestamp_ms=now_ms, value=encode_record(record)) for record in records]
            encoded = encode_batch(batch, partition_leader_epoch=self.leader_epoch, base_offset=self.next_offset)
            self._write(encoded)
            self._snapshots.note(len(encoded))
        return self._wait(records)

    def snapshot_if_due(self, image: ClusterImage) -> None:
        """Begins to write a snapshot if one is due. `image` is what all committed records made."""
        now_ms = self._now_ms()
        if self._snapshots.is_due(now_ms):
            end_offset = image.offset + 1
            written = self._snapshots.write(
                image.records(), end_offset=end_offset, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
            written.add_done_callback(lambda done: self._trim(done, end_offset))

    async def close(self) -> None:
        """Waits for what was appended."""
        if self._waiting:
            await asyncio.wait([self._waiting[-1].done])
        await self._snapshots.close()

    def _trim(self, written: asyncio.Future[None], end_offset: int) -> None:
        """Lets go of what a snapshot has: whole segments before it are deleted."""
        if not written.cancelled() and written.exception() is None:
            self._log.advance_log_start(end_offset)
            self._log.apply_retention(self._now_ms())

    def _batches(self, offset: int) -> Iterator[tuple[BatchHeader, list[MetadataRecord]]]:
        """The batches of metadata records from `offset` on; control batches are for the quorum alone."""
        end_offset = self._log.log_end_offset
        while offset < end_offset:
            data = self._log.read(offset, READ_BYTES).read()
            if not data:
                raise DecodeError(f"{TOPIC}-0 ends at offset {offset}, before its end offset {end_offset}")
            position = 0
            while position + HEADER_SIZE <= len(data):
                header = read_header(data, position)
                if position + header.size_in_bytes > len(data):
                    break
                if not header.is_control:
                    yield header, list(metadata_records(decode_batch(data, position)))
                position += header.size_in_bytes
                offset = header.last_offset + 1

    def _write(self, batch: bytearray) -> None:
        self._log.append_as_follower(memoryview(batch), now_ms=self._now_ms())

    def _wait(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if self.next_offset <= self._synced_offset:
            done.set_result(None)
            return done
        self._waiting.append(_Append(records, self.next_offset, done))
        if self._sync is None and len(self._waiting) == 1:
            loop.call_soon(self._start_sync)  # not at once: what else is appended in this turn shares the sync
        return done

    def _start_sync(self) -> None:
        loop = asyncio.get_running_loop()
        end_offset = self.next_offset
        self._sync = loop.run_in_executor(None, self._log.flush)
        self._sync.add_done_callback(lambda sync: self._synced(sync, end_offset))

    def _synced(self, sync: asyncio.Future[None], end_offset: int) -> None:
        error = asyncio.CancelledError() if sync.cancelled() else sync.exception()
        if error is not None:
            self._fail(f"the metadata log could not be synced: {error}")
            return
        self._synced_offset = end_offset
        while self._waiting and self._waiting[0].end_offset <= end_offset:
            append = self._waiting[0]
            if append.records:
                try:
                    self.on_committed(append.records, append.end_offset - 1)
                except Exception as fault:
                    self._fail(f"committed metadata could not be applied: {fault!r}", fault)
                    return
            self._waiting.popleft()
            _complete(append.done)
        self._sync = None
        if self._waiting:
            self._start_sync()

    def _fail(self, why: str, fault: Exception | None = None) -> None:
        """Takes nothing more; `fault` is our own, so the log gets its traceback."""
        self._failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        logger.error(
            "%s. This node refuses all changes of metadata from now on: make sure that the disk under %s has room and"
            " works, then restart the node",
            why,
            self._log.directory,
            exc_info=fault,
        )
        while self._waiting:
            append = self._waiting.popleft()
            if not append.done.done():
                append.done.set_exception(self._failure)


def _complete(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _nobody_listens(records: Sequence[MetadataRecord], last_offset: int) -> None:
    raise AssertionError("committed metadata records and nobody to apply them")
