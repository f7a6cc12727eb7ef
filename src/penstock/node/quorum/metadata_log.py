"""The metadata log as this node sees it: the image of all that is committed, and the listeners to each change.

What is replicated by the quorum is bytes; here they become metadata records. A committed batch is applied to `image`,
then listeners hear of its records, then the future of the append is done. A batch of many records, a topic of very many
partitions, is applied in steps to a copy, which then takes the place of the image: no part of it is seen alone. The
records of a metadata transaction wait until it ends, and the image stands before it until then: its offset, too. A
snapshot, at the start or because this node was left too far behind, replaces the contents of the image, and listeners
are told that all may have changed.

Every node writes snapshots of its own: when enough was committed since the last one, or when that is old and anything
was committed at all; and sooner, some time after a start or at the end, when the log is longer than what it adds up to.
So a start never reads the whole past, and the log need not be kept for ever (KIP-630).
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final

from penstock.metadata.features import NEWEST_METADATA_VERSION
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.metadata.record_frames import UnsupportedMetadataError, decode_record, encode_record, layout_at
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import (
    AlikePartitions,
    decode_snapshot,
    encode_snapshot,
    record_values,
    snapshot_name,
    snapshot_values,
)
from penstock.metadata.transaction import MetadataTransaction
from penstock.node.environment.alarm import Alarm
from penstock.node.environment.tasks import all_ended
from penstock.node.quorum.ports import Reading, ReplicatedLog
from penstock.node.serving.slices import Pace
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import DecodeError
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.records import Record, encode_batch, iterate_batches
from penstock.protocol.value import Value
from penstock.raft.control import snapshot_header_records
from penstock.raft.ports import SnapshotId

RECORDS_PER_STEP = 200
"""Records of a snapshot, or of a large batch, that are applied at a time: some milliseconds' worth."""

DONE: Final = object()
"""There are no more steps."""

logger = logging.getLogger(__name__)

OnRecords = Callable[[Sequence[MetadataRecord]], None]

OnReplaced = Callable[[], None]

OnLeader = Callable[[int | None, int], None]
"""Gets the leader of the quorum, None while it is unknown, and the epoch."""


SOONER_BYTES = 1024 * 1024
"""A log that is shorter than this gets no snapshot before one is due."""

SOONER_MS = 10_000
"""How long after a start, or another snapshot, none comes early: clients that wait for the node go first."""


class SnapshotLimits(Value):
    """When a snapshot is due at the latest, with Kafka's defaults; an interval of 0 is none."""

    max_bytes_between: int = 20 * 1024 * 1024
    max_interval_ms: int = 3_600_000


class _Listener(Value):
    on_records: OnRecords
    on_replaced: OnReplaced


class MetadataLog:
    """The committed metadata of this node: what the quorum replicates, as an `Application` of its driver.

    Leader listeners hear of this node only after everything that was committed under earlier leaders was applied.
    `first_records` are what a new cluster is to begin with, as the formatting of this node said; a snapshot that ends
    before the first record replaces them. They count when the first active controller has written them to the log.
    """

    def __init__(
        self,
        image: ClusterImage,
        now_ms: Callable[[], int],
        limits: SnapshotLimits = SnapshotLimits(),
        first_records: Sequence[MetadataRecord] = (),
    ) -> None:
        self.image = image
        self.first_records = first_records
        self.quorum: ReplicatedLog
        self._now_ms = now_ms
        self._limits = limits
        self._listeners: list[_Listener] = []
        self._leader_listeners: list[OnLeader] = []
        self._caught_up_listeners: list[Callable[[], None]] = []
        self._transaction = MetadataTransaction()
        self._own: dict[tuple[int, int], Sequence[MetadataRecord]] = {}
        self._told: int | None = None
        """The offset before the batch that listeners hear of in steps, while they do."""
        self._bytes_since_snapshot = 0
        self._snapshot_bytes = 0
        self._last_snapshot_ms = now_ms()
        self._sooner = Alarm(self._snapshot_if_due, now_ms)
        self._writing: asyncio.Task[SnapshotId] | None = None

    async def start(self, quorum: ReplicatedLog) -> None:
        self.quorum = quorum
        await quorum.start()

    # -- who listens --------------------------------------------------------------------------------------------------

    def add_listener(self, on_records: OnRecords, on_replaced: OnReplaced) -> None:
        """They are called with what was committed, after the image got it; names of topics that went are in its
        `gone_names`.
        """
        self._listeners.append(_Listener(on_records, on_replaced))

    def add_leader_listener(self, on_leader: OnLeader) -> None:
        """`on_leader` is called when another node leads the quorum, or the leader becomes unknown."""
        self._leader_listeners.append(on_leader)

    def add_caught_up_listener(self, on_caught_up: Callable[[], None]) -> None:
        """`on_caught_up` is called once, when the image is as new as a leader has said that the log is."""
        self._caught_up_listeners.append(on_caught_up)

    def _look_whether_caught_up(self) -> None:
        if self._caught_up_listeners and 0 < self.quorum.told_high_watermark <= self.image.offset + 1:
            listeners, self._caught_up_listeners = self._caught_up_listeners, []
            for on_caught_up in listeners:
                on_caught_up()

    @property
    def told_offset(self) -> int:
        """Of the last record that the image has, and all listeners have heard of."""
        return self.image.offset if self._told is None else self._told

    # -- appending ----------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return self.quorum.log_end_offset

    @property
    def leads_alone(self) -> bool:
        """Whether no other node can lead the quorum just now; never so where leaders hold no leases."""
        return self.quorum.has_all

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction.is_open

    def encoded(self, records: Sequence[MetadataRecord], level: int = NEWEST_METADATA_VERSION) -> bytearray:
        """The batch of records in the layouts of a level of metadata.version, which have room for all that they say.

        A thread may make it.
        """
        now_ms = self._now_ms()
        return encode_batch(
            [
                Record(timestamp_ms=now_ms, value=encode_record(record, layout_at(level, type(record))))
                for record in records
            ]
        )

    def append(
        self, records: Sequence[MetadataRecord], epoch: int, batch: bytearray | None = None
    ) -> asyncio.Future[int]:
        """Appends records as one batch; the future is done when they are committed, applied, and told to listeners.

        `batch` is what `encoded` made of them. With no records, it is done when all is that was appended before. Raises
        KafkaError NOT_CONTROLLER if this node does not lead `epoch`; the future fails with it if the lead is lost
        meanwhile: then the outcome is unknown.
        """
        if not records:
            return self.quorum.barrier(epoch)
        if batch is None:
            batch = self.encoded(records)
        key = (self.quorum.log_end_offset, epoch)
        self._own[key] = records
        try:
            return self.quorum.append(batch, epoch)
        except BaseException:
            self._own.pop(key, None)
            raise

    def resign(self) -> None:
        self.quorum.resign()

    # -- what the quorum tells ----------------------------------------------------------------------------------------

    def committed(self, batches: bytes, base_offset: int, last_offset: int) -> Iterator[None] | None:
        """Apply whole batches. What cannot be applied raises, and the node cannot go on."""
        steps = self._commit(batches)
        return steps if next(steps, DONE) is None else None

    def _commit(self, batches: bytes) -> Iterator[None]:
        for position, header in iterate_batches(batches):
            records: Sequence[MetadataRecord] = ()
            self._told = self.image.offset
            if not header.is_control:
                own = self._own.pop((header.base_offset, header.partition_leader_epoch), None)
                records = yield from self._apply(batches, position, header, own)
            elif not self._transaction.is_open:
                self.image.applied_to(header.last_offset)
            self._bytes_since_snapshot += header.size_in_bytes
            for first in range(0, len(records), RECORDS_PER_STEP):
                if first:
                    yield None
                self._tell(records[first : first + RECORDS_PER_STEP])
            self._told = None
        self._look_whether_caught_up()
        self._snapshot_if_due()

    def _apply(
        self, batches: bytes, position: int, header: BatchHeader, own: Sequence[MetadataRecord] | None
    ) -> Generator[None, None, Sequence[MetadataRecord]]:
        """Applies the records of one batch, which are `own` where this node appended it; those that hold now."""
        try:
            read = map(decode_record, record_values(batches, position, header)) if own is None else iter(own)
            records = self._transaction.take(islice(read, RECORDS_PER_STEP))
            while part := list(islice(read, RECORDS_PER_STEP)):
                yield None
                records += self._transaction.take(part)
            image = self.image if len(records) <= RECORDS_PER_STEP else self.image.copy()
            image.gone_names = {}
            pace = Pace(RECORDS_PER_STEP)
            for record in records:
                image.apply(record)
                if image is not self.image and pace.is_due():
                    yield None
            if not self._transaction.is_open:
                image.applied_to(header.last_offset)
            if image is not self.image:
                self.image.become(image)
        except UnsupportedMetadataError as error:
            raise UnsupportedMetadataError(
                f"{CLUSTER_METADATA}-0: {error.what}", self.image.metadata_version
            ) from error
        return records

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        """A snapshot stands for all that was before its end: the result makes the image what it says."""
        image = ClusterImage(self.image.cluster_id)
        first_records: list[MetadataRecord] = []
        take = AlikePartitions(image).apply
        try:
            if not snapshot.end_offset:
                first_records += decode_snapshot(content)
                return partial(self._begin_anew, image, first_records, len(content))
            pace = Pace(RECORDS_PER_STEP)
            for value in chain.from_iterable(snapshot_values(content)):
                take(value)
                if pace.is_due():
                    yield None
        except UnsupportedMetadataError:
            raise
        except DecodeError as error:
            raise DecodeError(
                f"{CLUSTER_METADATA}-0/{snapshot_name(snapshot.end_offset, snapshot.epoch)}: {error}"
            ) from error
        image.applied_to(snapshot.end_offset - 1)
        return partial(self._begin_anew, image, first_records, len(content))

    def _begin_anew(self, image: ClusterImage, first_records: Sequence[MetadataRecord], size: int) -> None:
        image.elected(self.image.controller_id, self.image.controller_epoch)
        self.first_records = first_records or self.first_records
        self._transaction = MetadataTransaction()
        self.image.become(image)
        self._told = None
        self._bytes_since_snapshot, self._snapshot_bytes = 0, size
        for listener in self._listeners:
            try:
                listener.on_replaced()
            except Exception:
                logger.exception("%r failed on the metadata up to offset %d", listener.on_replaced, self.image.offset)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self._own.clear()
        self.image.elected(NOBODY if leader_id is None else leader_id, epoch)
        for on_leader in self._leader_listeners:
            on_leader(leader_id, epoch)

    def _tell(self, records: Sequence[MetadataRecord]) -> None:
        for listener in self._listeners:
            try:
                listener.on_records(records)
            except Exception:
                logger.exception(
                    "%r failed on committed metadata up to offset %d", listener.on_records, self.image.offset
                )

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def is_snapshot_due(self, now_ms: int) -> bool:
        if self._writing is not None or not self._bytes_since_snapshot or self._transaction.is_open:
            return False
        interval_ms = self._limits.max_interval_ms
        is_old = 0 < interval_ms <= now_ms - self._last_snapshot_ms
        is_time = self._is_worth_a_snapshot and now_ms >= self._last_snapshot_ms + SOONER_MS
        return is_old or is_time or self._bytes_since_snapshot >= self._limits.max_bytes_between

    @property
    def _is_worth_a_snapshot(self) -> bool:
        """Whether the log since the last snapshot is longer than that snapshot: a start has to read both."""
        return self._bytes_since_snapshot >= max(SOONER_BYTES, self._snapshot_bytes)

    def _snapshot_if_due(self) -> None:
        now_ms = self._now_ms()
        if not self.is_snapshot_due(now_ms):
            wait_ms = self._last_snapshot_ms + SOONER_MS - now_ms
            if self._is_worth_a_snapshot and wait_ms > 0:
                self._sooner.set(now_ms + wait_ms)
            return
        self._write_snapshot(now_ms)

    def _write_snapshot(self, now_ms: int) -> None:
        self._bytes_since_snapshot, self._last_snapshot_ms = 0, now_ms
        end_offset = self.image.offset + 1
        writing = self.quorum.snapshot(self._content(end_offset, now_ms), end_offset)
        self._writing = asyncio.get_running_loop().create_task(writing)
        self._writing.add_done_callback(self._written)

    def _content(self, end_offset: int, now_ms: int) -> Iterator[bytes]:
        """The snapshot as the image is now: of a copy, so that all of it may be made in a thread."""
        return self._counted(
            encode_snapshot(
                self.image.copy().records(),
                leader_epoch=self.quorum.snapshot_id_at(end_offset).epoch,
                last_timestamp_ms=now_ms,
                now_ms=now_ms,
                level=self.image.metadata_version,
                header=snapshot_header_records(self.quorum.quorum_at(end_offset), now_ms, now_ms),
            )
        )

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for chunk in chunks:
            size += len(chunk)
            yield chunk
        self._snapshot_bytes = size

    def _written(self, writing: asyncio.Task[SnapshotId]) -> None:
        """A snapshot that cannot be written is a warning: the log still holds everything."""
        self._writing = None
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            logger.warning("no snapshot of %s-0 could be written: %s", CLUSTER_METADATA, error)

    async def close(self) -> None:
        """Waits for a snapshot that is being written, or for a last one that makes the next start shorter."""
        self._sooner.cancel()
        if self._is_worth_a_snapshot and self._writing is None and not self._transaction.is_open:
            self._write_snapshot(self._now_ms())
        if self._writing is not None:
            await all_ended([self._writing])
