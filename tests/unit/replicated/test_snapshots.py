"""When a replica takes a snapshot of itself, what is in it, and how one is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum
from penstock.replicated import replica as replica_module
from penstock.replicated.machine import StateMachine
from penstock.replicated.replica import RECORDS_PER_STEP, Replica, Snapshots
from penstock.replicated.snapshot import decode_snapshot, encode_snapshot


class Values(StateMachine[None]):
    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def apply(self, entry: Record) -> None:
        self.values.append(entry.value)

    def snapshot(self) -> list[Record]:
        return [Record(value=value) for value in self.values]

    def restore(self, piece: Record) -> None:
        self.values.append(piece.value)


@pytest.mark.parametrize(
    ("count", "steps"),
    [(0, 0), (1, 0), (RECORDS_PER_STEP - 1, 0), (RECORDS_PER_STEP, 1), (2 * RECORDS_PER_STEP + 1, 2)],
)
def test_a_snapshot_is_read_in_steps(count: int, steps: int) -> None:
    records = [Record(value=b"%d" % number) for number in range(count)]
    content = b"".join(encode_snapshot(records, Quorum(), epoch=2, last_timestamp_ms=3, now_ms=4))
    replica = Replica(Values)
    replica.bytes_since_snapshot = 9
    reading = replica.read_snapshot(content, SnapshotId(30, 2))
    taken = 0
    while True:
        try:
            assert next(reading) is None
        except StopIteration as stop:
            become = stop.value
            break
        taken += 1
        assert (replica.machine.values, replica.end_offset) == ([], 0)
    assert taken == steps
    become()
    assert replica.machine.values == [record.value for record in records]
    assert (replica.end_offset, replica.bytes_since_snapshot) == (30, 0)


def test_what_is_committed_is_counted() -> None:
    replica = Replica(Values)
    assert (replica.end_offset, replica.bytes_since_snapshot, replica.last_timestamp_ms) == (0, 0, -1)
    first = encode_batch([Record(timestamp_ms=5, value=b"a"), Record(timestamp_ms=6, value=b"b")], base_offset=3)
    control = encode_batch([Record(timestamp_ms=8, value=b"c")], base_offset=5, is_control=True)
    replica.committed(bytes(first + control), 3, 5)
    size = len(first) + len(control)
    assert (replica.end_offset, replica.bytes_since_snapshot, replica.last_timestamp_ms) == (6, size, 8)
    assert replica.machine.values == [b"a", b"b"]
    replica.committed(bytes(encode_batch([Record(timestamp_ms=9, value=b"d")], base_offset=6)), 6, 6)
    assert replica.bytes_since_snapshot > size
    assert (replica.end_offset, replica.last_timestamp_ms, replica.machine.values[2:]) == (7, 9, [b"d"])


class Node:
    """A replica of two records that end at 12, a quorum that writes as the test says, and a loop of looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int = 100) -> None:
        self.replica = Replica(Values)
        self.replica.machine.values = [b"a", b"b"]
        self.replica.end_offset, self.replica.last_timestamp_ms, self.replica.bytes_since_snapshot = 12, 77, size
        self.written: list[Any] = []
        self.slept: list[float] = []
        self.failure: Exception | None = None
        self.holds: asyncio.Event | None = None
        self.on_sleep: Callable[[], None] = lambda: None
        quorum = SimpleNamespace(
            quorum_at=lambda offset: Quorum() if offset == 12 else pytest.fail(f"at {offset}"),
            snapshot_id_at=lambda offset: SnapshotId(offset, 6),
            snapshot=self.snapshot,
        )
        options = SimpleNamespace(snapshot_period_seconds=30, snapshot_min_log_size=100)
        parts = (self.replica, cast("Any", quorum), cast("Any", options), lambda: 99)
        self.snapshots = Snapshots(*parts)
        self.looks = 0
        monkeypatch.setattr(replica_module, "asyncio", stand_in(asyncio, sleep=self.sleep))

    async def snapshot(self, chunks: Any, end_offset: int) -> SnapshotId:
        self.replica.machine.values.append(b"later")
        if self.holds is not None:
            await self.holds.wait()
        if self.failure is not None:
            raise self.failure
        content = b"".join(chunks)
        self.written.append((end_offset, [record.value for record in decode_snapshot(content)]))
        return SnapshotId(end_offset, 6)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.looks += 1
        if self.looks > 2:
            await asyncio.Event().wait()
        self.on_sleep()

    async def runs(self) -> None:
        self.snapshots.start()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.mark.parametrize(("size", "is_taken"), [(99, False), (100, True), (101, True)])
async def test_one_is_taken_where_the_log_is_worth_it(
    monkeypatch: pytest.MonkeyPatch, size: int, is_taken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = Node(monkeypatch, size)
    await node.runs()
    assert node.written == [(12, [b"a", b"b"])] * is_taken
    assert node.replica.bytes_since_snapshot == (0 if is_taken else size)
    assert node.slept == [30, 30, 30], "it looks again"
    await node.snapshots.stop()
    said = ["a snapshot holds the first 12 records"] * is_taken
    assert [one.getMessage() for one in caplog.records] == said, "an end that was asked for is no failure"


async def test_one_that_cannot_be_written_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(monkeypatch)
    node.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
    node.on_sleep = lambda: setattr(node.replica, "bytes_since_snapshot", 200)
    await node.runs()
    said = "no snapshot of the first 12 records could be written: KAFKA_STORAGE_ERROR: no room"
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("WARNING", said)] * 2
    await node.snapshots.stop()


async def test_a_fault_of_ones_own_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(monkeypatch)
    node.failure = ValueError("a fault")
    await node.runs()
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "snapshots are taken no longer")
    assert record.exc_info is not None
    assert record.exc_info[1] is node.failure
    await node.snapshots.stop()


async def test_one_that_is_being_written_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch)
    node.holds = asyncio.Event()
    await node.runs()
    stopping = asyncio.ensure_future(node.snapshots.stop())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    node.holds.set()
    await stopping
    assert len(node.written) == 1
    await Node(monkeypatch).snapshots.stop()
