"""Stores in memory whose writes a test can hold up or let fail, and an application that remembers."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from functools import partial

from tests.simulation.memory import Contents, MemoryLog, MemorySnapshots

from penstock.node.quorum.ports import Reading
from penstock.protocol.control.records import control_batch
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_batches
from penstock.protocol.varint import Buffer
from penstock.raft.control import snapshot_header_records
from penstock.raft.effects import ElectionState
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum


class HeldLog(MemoryLog):
    """A log whose flushes can be held up, and fail."""

    def __init__(self, contents: Contents | None = None) -> None:
        super().__init__(contents)
        self.flushes = 0
        self.open = threading.Event()
        self.open.set()
        self.started = threading.Event()
        self.write_error: Exception | None = None
        self.flush_error: Exception | None = None
        self.read_error: Exception | None = None

    def read(self, offset: int, max_bytes: int) -> bytes:
        if self.read_error is not None:
            raise self.read_error
        return super().read(offset, max_bytes)

    def append(self, batches: Buffer) -> None:
        if self.write_error is not None:
            raise self.write_error
        super().append(batches)

    def flush(self) -> None:
        contents = self.contents()
        self.started.set()
        assert self.open.wait(timeout=30)
        self.flushes += 1
        if self.flush_error is not None:
            raise self.flush_error
        self.disk = contents


class WrittenSnapshots(MemorySnapshots):
    def write(self, snapshot: SnapshotId, chunks: Iterable[bytes]) -> None:
        self.store(snapshot, b"".join(chunks))

    def load(self, snapshot: SnapshotId) -> bytes:
        return self.whole[snapshot]

    def fetched(self, snapshot: SnapshotId) -> Callable[[], bytes]:
        return partial(bytes, self.partial[snapshot])


class MemoryState:
    def __init__(self) -> None:
        self.state = ElectionState()
        self.error: BaseException | None = None
        self.goes_on = threading.Event()
        """Cleared, it is a disk that hangs."""
        self.goes_on.set()

    def read(self) -> ElectionState:
        return self.state

    def write(self, state: ElectionState, quorum: Quorum) -> None:
        assert self.goes_on.wait(10), "the event loop waits for the disk"
        if self.error is not None:
            raise self.error
        self.state = state


class Remembered:
    """An application: the values of all records that are committed, in order."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.applied = 0
        self.calls = 0
        self.leaders: list[tuple[int | None, int]] = []
        self.loaded: list[SnapshotId] = []
        self.error: Exception | None = None
        self.on_leader: Callable[[int | None, int], None] = lambda leader_id, epoch: None
        self._watchers: list[asyncio.Future[None]] = []

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something that comes about with a call of the driver."""
        async with asyncio.timeout(60):
            while not condition():
                await self.next_call()

    async def next_call(self) -> None:
        """The driver calls."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        await watcher

    def _notify(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def committed(self, batches: bytes, base_offset: int, last_offset: int) -> None:
        if self.error is not None:
            raise self.error
        assert base_offset == self.applied, "each batch once, in order"
        self.calls += 1
        for position, header in iterate_batches(batches):
            assert header.base_offset == self.applied
            self.applied = header.last_offset + 1
            if not header.is_control:
                self.values += [record.value or b"" for record in decode_batch(batches, position)]
        assert self.applied == last_offset + 1, "whole batches"
        self._notify()

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        values: list[bytes] = []
        for position, header in iterate_batches(content):
            yield None
            if not header.is_control:
                values += [record.value or b"" for record in decode_batch(content, position)]
        return partial(self._begin_anew, values, snapshot)

    def _begin_anew(self, values: list[bytes], snapshot: SnapshotId) -> None:
        self.values = values
        self.applied = snapshot.end_offset
        self.loaded.append(snapshot)
        self._notify()

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))
        self.on_leader(leader_id, epoch)
        self._notify()

    def snapshot(self, quorum: Quorum) -> list[bytes]:
        """All of it, in chunks."""
        header = snapshot_header_records(quorum, 0, 0)
        values = [Record(timestamp_ms=0, value=value) for value in self.values]
        return [
            bytes(control_batch(header, base_offset=0, epoch=0)),
            bytes(encode_batch(values, base_offset=len(header))),
        ]


def batch_of(*values: bytes) -> bytearray:
    return encode_batch([Record(timestamp_ms=0, value=value) for value in values])
