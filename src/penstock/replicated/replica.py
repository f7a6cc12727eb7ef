"""A node's copy of the machine: it applies what is committed, and takes snapshots of itself.

A snapshot is looked at every `snapshot_period_seconds` and taken if the log behind the last one has at least
`snapshot_min_log_size` bytes: by time and by size. Then the log forgets what the snapshot holds, in whole segments.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.ports import Reading
from penstock.protocol.errors import KafkaError
from penstock.protocol.records import Record, decode_batch, iterate_batches
from penstock.raft.ports import SnapshotId
from penstock.replicated.machine import StateMachine
from penstock.replicated.options import NodeOptions
from penstock.replicated.snapshot import decode_snapshot, encode_snapshot

logger = logging.getLogger(__name__)

MachineT = TypeVar("MachineT", bound=StateMachine[Any])

RECORDS_PER_STEP: Final = 1000
"""So many records of a snapshot are taken in at a time: a millisecond or two."""


class Replica(Generic[MachineT]):
    """What the quorum's driver applies to (its `Application`)."""

    def __init__(self, make_machine: Callable[[], MachineT]) -> None:
        self._make_machine = make_machine
        self.machine = make_machine()
        self.end_offset = 0
        """All records before this one are applied."""
        self.bytes_since_snapshot = 0
        self.last_timestamp_ms = -1
        self._results: dict[tuple[int, int], Any] = {}

    def committed(self, batches: bytes, base_offset: int, last_offset: int) -> None:
        """Records that a majority has; what the machine raises ends this node."""
        for position, header in iterate_batches(batches):
            if not header.is_control:
                for record in decode_batch(batches, position):
                    self._apply(record, header.partition_leader_epoch)
            self.last_timestamp_ms = header.max_timestamp
        self.bytes_since_snapshot += len(batches)
        self.end_offset = last_offset + 1

    def _apply(self, record: Record, epoch: int) -> None:
        if record.value is None:  # the mark of a read
            return
        result = self.machine.apply(record)
        if (epoch, record.offset) in self._results:
            self._results[epoch, record.offset] = result

    def expect(self, epoch: int, offset: int) -> None:
        """Keep the result of this entry until it is taken."""
        self._results[epoch, offset] = None

    def take_result(self, epoch: int, offset: int) -> Any:
        return self._results.pop((epoch, offset))

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        """Make a machine of this snapshot; the result puts it in the place of the old one. Raises DecodeError."""
        machine = self._make_machine()
        for number, record in enumerate(decode_snapshot(content), 1):
            machine.restore(record)
            if not number % RECORDS_PER_STEP:
                yield None
        return partial(self._begin_anew, machine, snapshot)

    def _begin_anew(self, machine: MachineT, snapshot: SnapshotId) -> None:
        self.machine.close()
        self.machine = machine
        self.end_offset = snapshot.end_offset
        self.bytes_since_snapshot = 0

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Who leads now; requests ask the driver itself."""
        logger.info("epoch %s: %s", epoch, "no leader is known" if leader_id is None else f"server {leader_id} leads")


class Snapshots:
    """Takes snapshots of a replica when they are due."""

    def __init__(
        self, replica: Replica[Any], quorum: QuorumDriver, options: NodeOptions, now_ms: Callable[[], int]
    ) -> None:
        self._replica = replica
        self._quorum = quorum
        self._options = options
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[SnapshotId] | None = None

    def start(self) -> None:
        """Begin to look from time to time whether a snapshot is due."""
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """Take no more; returns when one that is being written is whole, or has failed."""
        ending = [task for task in (self._task, self._writing) if task is not None]
        if self._task is not None:
            self._task.cancel()
        if ending:
            await asyncio.wait(ending)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._options.snapshot_period_seconds)
            if self._replica.bytes_since_snapshot >= self._options.snapshot_min_log_size:
                await self._take()

    async def _take(self) -> None:
        """A snapshot that cannot be written is a warning: the log still holds everything."""
        replica, quorum, now_ms = self._replica, self._quorum, self._now_ms()
        end_offset, replica.bytes_since_snapshot = replica.end_offset, 0
        chunks = encode_snapshot(
            list(replica.machine.snapshot()),  # as it is now; it is written in a thread
            quorum.quorum_at(end_offset),
            epoch=quorum.snapshot_id_at(end_offset).epoch,
            last_timestamp_ms=replica.last_timestamp_ms,
            now_ms=now_ms,
        )
        try:
            self._writing = asyncio.ensure_future(quorum.snapshot(chunks, end_offset))
            await asyncio.shield(self._writing)
        except KafkaError as error:
            logger.warning("no snapshot of the first %s records could be written: %s", end_offset, error)
        else:
            logger.info("a snapshot holds the first %s records", end_offset)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        logger.error("snapshots are taken no longer", exc_info=task.exception())
