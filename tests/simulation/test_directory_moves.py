"""A replica moves between log directories while it is written, cut, shortened and sent elsewhere, and its node dies.

Its disks hang now and then, so that cuts and the renames at the end of a move take long, and a call fails.

What is looked for: the log has what it was given, after a power cut what was synced; it ends in the directory that was
asked for last, and no copy is left.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.log.removed import remove_due

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.log_slice import LogSlice
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions import moves
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.moves import DirectoryMoves
from penstock.node.partitions.partition import NotAppendingError
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.replication.quota import ReplicationQuota
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

TOPIC, TOPIC_ID = "t", UUID(int=7)
PATHS = ("/a", "/b", "/c")
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=50, log_delete_delay_ms=50)
STEPS = 60
MOST_CALLS = 60
"""A node that dies in the middle of a call to its disk does so in one of so many."""


class World:
    """One replica on one node; what it should have is known by offsets."""

    def __init__(self, seed: int, *often: str) -> None:
        """What happens more often than it would."""
        self.random = Random(seed)
        self.often = often
        self.loop = VirtualLoop(Random(seed))
        self.host = HostDisk(self.loop, Random(seed))
        for path in PATHS:
            self.host.add_root(path)
        self.host.root.sync()
        self.host.on_crash = lambda: self.process.kill()
        self.loop.thread_delay_s = lambda _: self.random.choice((0.001, 0.001, 0.01, 0.3))
        self.values: dict[int, bytes] = {}
        self.start = self.synced = 0
        self.epoch = 1
        self.path = ""
        self.swaps = 0

    def boot(self) -> None:
        self.process = Process("host")
        self.process.context.copy().run(self._begin)

    def _begin(self) -> None:
        disk = SimulatedDisk(self.host, self.process)
        directories = self.directories = LogDirectories(
            PATHS, node_id=1, random=Random(self.random.random()), cluster_id="c", disk=disk
        )
        directories.open_all(lambda _: CONFIG)
        directories.begin()
        log = directories.create(TOPIC, 0, TOPIC_ID, CONFIG, is_new=False)
        self.log = log
        self.partition = IsrPartition(log, TOPIC_ID)
        table = SimpleNamespace(get=lambda *_: self.partition)
        node = SimpleNamespace(directories=directories, now_ms=self.loop.now_ms)
        quota = ReplicationQuota(windows=11, window_ms=1000)
        self.moves = DirectoryMoves(cast("Any", node), cast("Any", table), quota, self._moved)
        self.moves.start()

    def _moved(self, _: object) -> None:
        self.swaps += 1

    async def run(self) -> None:
        self.boot()
        self.path = self.log.parent
        actions = [self.append] * 4 + [self.sync, self.cut, self.delete, self.send] * 2 + [self.die, self.die_in_a_call]
        actions += [self.fail]
        actions += [getattr(self, name) for name in self.often] * 8
        for _ in range(STEPS):
            action = self.random.choice(actions)
            if not self.log.is_lent:
                await action()
            elif action == self.append:
                with pytest.raises(NotAppendingError):
                    self.partition.append(memoryview(b""), acks=1, now_ms=0)
            elif action in (self.die, self.send):
                await action()
            await asyncio.sleep(self.random.choice((0, 0.002, 0.02)))
            self.look()
        await self.settle()

    async def append(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            value = b"%d" % self.random.getrandbits(99)
            batch = memoryview(encode_batch([Record(0, 0, None, value)]))
            place = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=self.loop.now_ms())
            self.values[place.base_offset] = value

    async def sync(self) -> None:
        self.log.flush()
        self.synced = self.log.log_end_offset

    async def cut(self) -> None:
        """As of a follower whose leader has changed."""
        end = self.random.randrange(self.start, self.log.log_end_offset + 1)
        cut = self.partition.cut_to(end, self.directories.threads_of(self.log))
        self.values = {offset: value for offset, value in self.values.items() if offset < end}
        self.synced = min(self.synced, end)
        self.epoch += 1
        process = self.process
        while process.is_alive and not cut.done():
            await asyncio.sleep(0.01)
        if process.is_alive and not self.log.is_lent:
            await self.append()

    async def fail(self) -> None:
        """The disks refuse a call; what had one of its logs there needs another start."""
        self.host.error_in = self.random.randrange(1, MOST_CALLS // 4)
        await asyncio.sleep(0.02)
        self.host.error_in = None
        if any(directory.health.failure for directory in self.directories.roots.for_data):
            await self.die()

    async def delete(self) -> None:
        """DeleteRecords; the segments may go."""
        self.start = self.random.randrange(self.start, self.log.log_end_offset + 1)
        self.log.advance_log_start(self.start)
        if self.random.random() < 0.5:
            self.log.retire_below_start(self.loop.now_ms())
        remove_due(self.directories, self.loop.now_ms())

    async def send(self) -> None:
        self.path = self.random.choice(PATHS)
        self.moves.move(self.partition, self.path)

    async def die(self) -> None:
        self.process.kill()
        await self.again()

    async def die_in_a_call(self) -> None:
        self.host.crash_in = self.random.randrange(1, MOST_CALLS)
        await asyncio.sleep(0.02)
        self.host.crash_in = None
        if not self.process.is_alive:
            await self.again()

    async def again(self) -> None:
        if self.random.random() < 0.5:
            self.host.lose_power()
        self.boot()
        await asyncio.sleep(0)
        self.look(self.synced)
        self.log.truncate_to(max(self.synced, self.log.log_start_offset))  # what comes again has another place
        self.values = {offset: value for offset, value in self.values.items() if offset < self.log.log_end_offset}
        self.epoch += 1
        self.start = max(self.log.log_start_offset, min(self.start, self.log.log_end_offset))
        self.log.flush()
        self.path = self.log.parent if self.directories.futures == {} else next(iter(self.moves._wanted.values()))[1]

    def look(self, until: int | None = None) -> None:
        """Up to that offset, or all."""
        if self.log.is_lent or self.log.health.failure is not None:
            return
        end = self.log.log_end_offset if until is None else until
        wanted = {offset: value for offset, value in self.values.items() if self.start <= offset < end}
        found = {offset: value for offset, value in values_of(self.log).items() if self.start <= offset < end}
        assert found == wanted

    async def settle(self) -> None:
        for _ in range(10_000):
            if self.log.parent == self.path and not self.directories.futures and not self.moves._wanted:
                break
            await asyncio.sleep(0.01)
        assert (self.log.parent, self.directories.futures, self.moves._wanted) == (self.path, {}, {})
        self.look()


def values_of(log: PartitionLog) -> dict[int, bytes]:
    found, offset = dict[int, bytes](), log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 30).read()  # of one segment
        for position, header in iterate_batches(data):
            found |= {one.offset: one.value or b"" for one in iterate_records(data, position, header)}
            offset = header.last_offset + 1
    return found


def simulated(seed: int, *often: str) -> World:
    world = World(seed, *often)
    world.loop.run_until_complete(world.run())
    assert not world.loop.failures
    return world


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "SLICE_BYTES", 200)


def test_a_log_has_what_it_was_given_wherever_it_lies() -> None:
    """142 asks for its old place while it gets a new one."""
    assert sum(simulated(seed).swaps for seed in (*range(16), 142)) > 12


def is_found(*often: str, first: int = 0) -> bool:
    """Whether one of some seeds finds what was planted; the one that found it last comes first."""
    for seed in (first, *range(200)):
        try:
            simulated(seed, *often)
        except AssertionError:
            return True
    return False


def test_a_copy_that_keeps_what_its_log_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "_cut", lambda log, future: None)
    assert is_found("cut")


def test_a_copy_that_gets_what_came_where_the_log_was_cut_while_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def copy(moving: DirectoryMoves, log: PartitionLog, found: LogSlice, future: PartitionLog) -> None:
        end_offset = log.log_end_offset
        batches = await moving._in_thread(log.parent, partial(log.bytes_of, found))
        await moving._in_thread(future.parent, partial(moves._grow, future, batches, end_offset))

    monkeypatch.setattr(DirectoryMoves, "_copy", copy)
    assert is_found("cut", "append", first=299)


def test_a_copy_that_begins_behind_what_its_log_has_after_a_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = moves._cut

    def cut_before(log: PartitionLog, future: PartitionLog) -> object:
        return None if future.log_start_offset > log.log_start_offset else cut(log, future)

    monkeypatch.setattr(moves, "_cut", cut_before)
    assert is_found("delete", "die", first=31)


def test_a_copy_that_takes_the_place_of_its_log_before_it_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    close, flush = PartitionLog.close, PartitionLog.flush

    def close_most(log: PartitionLog, *, durable: bool = True) -> None:
        close(log, durable=durable and not log.directory.endswith("-future"))

    monkeypatch.setattr(PartitionLog, "close", close_most)
    monkeypatch.setattr(PartitionLog, "flush", lambda log: None if log.directory.endswith("-future") else flush(log))
    assert is_found("sync", "die", first=14)


def test_a_move_that_ends_where_nobody_wants_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectoryMoves, "_is_wanted", lambda moving, key, move: True)
    assert is_found("send", first=3)
