"""What the logs of a node need from time to time: retention, flushes, checkpoints.

Each partition has one deadline in a heap and one timer stands for the earliest of them, so a partition that needs
nothing costs nothing. Of several that are due at a time the first that was watched is the first. The heap has keys
alone: a deadline that no longer holds keeps nothing alive. Checkpoints are written at their intervals, and only if
something was appended since. What waits for a disk is done by threads of that disk, a log after the other: while it
hangs, the logs of other disks are looked after.

| a partition | is looked at                                           | until                                       |
| ----------- | ------------------------------------------------------ | ------------------------------------------- |
| is watched  | every `retention_check_ms` at least                    | a look finds that only time brings it work  |
| rests       | when its oldest segment, or a producer, is too old     | it is `dirty`: the next checkpoint finds it |
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.log_directory import LogDirectory
from penstock.log.directories.log_roots import LogRoots
from penstock.log.log_holder import LentError
from penstock.log.partition_log import PartitionLog
from penstock.log.retention import CHECK_INTERVAL_MS, FOR_EVER_MS, SEGMENTS_AT_ONCE
from penstock.node.environment.alarm import Turns
from penstock.node.environment.signal import Signal
from penstock.node.environment.tasks import Tasks, Threads, all_ended
from penstock.node.partitions.partition import Partition
from penstock.protocol.errors import KafkaError
from penstock.protocol.sweeping_heap import SweepingHeap
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.node.partitions.flushes import Flushes
    from penstock.node.partitions.isr_partition import IsrPartition

logger = logging.getLogger(__name__)

MAX_DUE_AT_ONCE = 50
"""Partitions that are looked after before requests are served again."""
HELD_UP_MS = 1_000
"""After so long what was due, and could not be done, is looked at again: a segment that is old, and still needed."""
WAITS_S: Final = 10.0
"""What takes longer is no longer waited for: its disk may hang."""


class UpkeepIntervals(Value, kw_only=True):
    retention_check_ms: int = 300_000
    high_watermark_checkpoint_ms: int = 5_000
    recovery_point_checkpoint_ms: int = 60_000
    flush_timeout_ms: int = 10_000


class _Watched(NamedTuple):
    """When to look at a partition, and until when not to read its log in only for that; `number` is its deadline's."""

    number: int
    check_ms: int
    partition: Partition


class EachDisk:
    """Work that comes again and again for all log directories, done by threads of each one's disk. One that hangs holds
    up no other: it is passed by until its work has ended.
    """

    def __init__(self, roots: LogRoots, waits_s: float = WAITS_S) -> None:
        self._roots = roots
        self._waits_s = waits_s
        self._under_way: dict[LogDirectory, asyncio.Future[None]] = {}

    async def do(self, work: Callable[[LogDirectory], None]) -> set[LogDirectory]:
        """Those for which it has not ended yet, or was not begun. Raises KafkaError if it failed for another."""
        loop, begun, left = asyncio.get_running_loop(), dict[asyncio.Future[None], LogDirectory](), set(self._under_way)
        for directory in self._roots.online:
            if directory not in left:
                future = self._under_way[directory] = loop.run_in_executor(directory.threads, work, directory)
                future.add_done_callback(partial(self._ended, directory))
                begun[future] = directory
        try:
            if begun:
                await asyncio.wait(begun, timeout=self._waits_s)
        finally:
            late = [future for future in begun if not future.done()]
            for future in late:
                future.add_done_callback(_tell)
        problems = [error for future in begun if future.done() and (error := future.exception()) is not None]
        if problems:
            raise problems.pop()
        return left.union(begun[future] for future in late)

    def _ended(self, directory: LogDirectory, _: asyncio.Future[None]) -> None:
        del self._under_way[directory]

    async def settle(self) -> None:
        """Wait until what is under way has ended. Raises KafkaError if a disk hangs."""
        await all_ended(self._under_way.values())


def _tell(future: asyncio.Future[None]) -> None:
    """Nobody waits for it any more."""
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("work for a log directory that took long failed: %s", error)


class Upkeep:
    """`dirty`: the partitions appended to since the last checkpoint."""

    def __init__(self, directories: LogDirectories, intervals: UpkeepIntervals, now_ms: Callable[[], int]) -> None:
        self.dirty: dict[Partition, None] = {}
        self.turns = Turns(now_ms)
        """Of those who deliver records that wait."""
        self.kept_until_consumed = Signal[Partition]()
        """Its log was looked after, and what all groups have consumed may go."""
        self._directories = directories
        self._intervals = intervals
        self._now_ms = now_ms
        self._watched: dict[int, _Watched] = {}
        self._heap = SweepingHeap[tuple[int, int, int]](self._counts)
        self._resting: dict[int, Partition] = {}
        self._far: dict[int, tuple[int, int]] = {}
        """Deadlines in the heap of partitions that rest, or did: it has one of them for each, however often they do."""
        self._numbers = itertools.count()
        self._high_watermarks: dict[tuple[str, int], int] = {}
        self._tasks = Tasks()
        self._high_watermark_writes, self._log_writes = EachDisk(directories.roots), EachDisk(directories.roots)
        self._looks = Tasks()
        """Each flushes the logs of a directory that are due."""
        self._due: dict[str, dict[Partition, None]] = {}
        self._flushes: Flushes | None = None
        self._changed = asyncio.Event()

    def watch(self, partition: Partition, *, due_ms: int | None = None) -> None:
        """`due_ms` is the next time; by default when its log asks for it, or sooner where the interval says so."""
        log, interval_ms = partition.log, self._intervals.retention_check_ms
        check_ms = log.next_deadline_ms(self._now_ms()) if due_ms is None else due_ms
        if interval_ms < CHECK_INTERVAL_MS:
            check_ms = min(check_ms, self._now_ms() + interval_ms)
        # A log that is not read in yet spreads its first check; but what is appended to it is to be flushed in time.
        due_ms = check_ms if log.is_loaded else min(check_ms, self._now_ms() + log.config.flush_ms)
        self._watch(partition, due_ms, check_ms)

    def retired(self, partition: Partition, segments: int) -> None:
        """After so many segments more of them may be left to go."""
        if segments >= SEGMENTS_AT_ONCE:
            self.watch(partition, due_ms=self._now_ms())

    def flush(self, partition: IsrPartition) -> None:
        """Soon, as `flush.messages` wants it."""
        if self._flushes is None:
            from penstock.node.partitions.flushes import Flushes  # few nodes have to flush what comes

            self._flushes = Flushes(self._directories.threads_of, self._intervals.flush_timeout_ms / 1000)
        self._flushes.want(partition)

    def _watch(self, partition: Partition, due_ms: int, check_ms: int) -> None:
        number, key = next(self._numbers), id(partition)
        self._watched[key] = _Watched(number, check_ms, partition)
        self._heap.push((due_ms, number, key))
        self._resting.pop(key, None)
        if (first := self._heap.first) is not None and first[1] == number:
            self._changed.set()

    def _rest(self, partition: Partition, due_ms: int) -> None:
        key = id(partition)
        far_ms, number = self._far.get(key, (FOR_EVER_MS, -1))
        if due_ms < far_ms:
            self._far[key] = far_ms, number = due_ms, next(self._numbers)
            self._heap.push((far_ms, number, key))
        self._watched[key] = _Watched(number, far_ms, partition)
        self._resting[key] = partition

    def _counts(self, entry: tuple[int, int, int]) -> bool:
        """Whether a deadline in the heap still holds: the far one of a partition that is awake does."""
        _, number, key = entry
        watched = self._watched.get(key)
        return (watched is not None and watched.number == number) or self._far.get(key, (0, -1))[1] == number

    def _wake(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            if id(partition) in self._resting:
                self.watch(partition)

    def remember(self, partition: Partition) -> None:
        """Write down its high watermark with the others, also before it moves."""
        if partition.high_watermark:
            self._high_watermarks[partition.topic, partition.index] = partition.high_watermark

    def forget(self, partition: Partition) -> None:
        """Its log is deleted."""
        for known in (self._watched, self._resting, self._far):
            known.pop(id(partition), None)
        self.dirty.pop(partition, None)
        self._high_watermarks.pop((partition.topic, partition.index), None)
        for due in self._due.values():
            due.pop(partition, None)

    def start(self) -> None:
        times, keep, repeat = self._intervals, self._tasks.keep, self._repeat
        keep(self._look_after_logs, "look after logs")
        keep(partial(repeat, times.high_watermark_checkpoint_ms, self.checkpoint_high_watermarks), "high watermarks")
        keep(partial(repeat, times.recovery_point_checkpoint_ms, self._checkpoint_logs), "recovery points")

    async def stop(self) -> None:
        """The caller closes the logs."""
        await self._tasks.stop()
        for due in self._due.values():
            due.clear()
        try:
            await asyncio.gather(*(it.settle() for it in (self._looks, self._log_writes, self._high_watermark_writes)))
        finally:
            if self._flushes is not None:
                await self._flushes.stop()
        try:
            await self.checkpoint_high_watermarks()
        except KafkaError as error:
            logger.error("a checkpoint could not be written: %s", error.message)
        await self._high_watermark_writes.settle()

    async def checkpoint_high_watermarks(self) -> None:
        if not self.dirty:
            return
        written = dict(self.dirty)
        self.dirty.clear()
        self._wake(written)
        for partition in written:
            self._high_watermarks[partition.topic, partition.index] = partition.high_watermark
        write, left = self._directories.checkpoints.write_high_watermarks, self._directories.roots.paths
        try:
            hang = await self._high_watermark_writes.do(partial(write, self._directories.logs, self._high_watermarks))
            left = [directory.path for directory in hang]
        finally:
            if left:
                self.dirty.update((one, None) for one in written if id(one) in self._watched and one.log.parent in left)

    async def _checkpoint_logs(self) -> None:
        await self._log_writes.do(partial(self._directories.checkpoints.write, self._directories.logs))

    async def run_due(self) -> None:
        now_ms = self._now_ms()
        for _ in range(MAX_DUE_AT_ONCE):
            first = self._heap.first
            if first is None or first[0] > now_ms:
                return
            _, number, key = self._heap.pop()
            watched = self._watched.get(key)
            if self._far.get(key, (0, -1))[1] == number:
                del self._far[key]
            if watched is not None and watched.number == number:
                await self._maintain(watched, now_ms)

    async def _maintain(self, watched: _Watched, now_ms: int) -> None:
        partition = watched.partition
        log = partition.log
        if log.when_back(partial(self._look_again, partition)):
            return
        if not log.is_loaded and now_ms < watched.check_ms:
            self._watch(partition, min(watched.check_ms, now_ms + log.config.flush_ms), watched.check_ms)
            return
        if log.flush_is_due(now_ms) or log.parent in self._due:  # then that disk may hang, and nobody touches it here
            self._flush_later(partition)
            return
        await self._look_at(partition, asyncio.sleep(0), now_ms)  # others have their turn all the same

    def _flush_later(self, partition: Partition) -> None:
        path = partition.log.parent
        if path not in self._due:
            self._due[path] = {}
            self._looks.start(self._flush_due(path), f"flush logs in {path}")
        self._due[path][partition] = None

    async def _flush_due(self, path: str) -> None:
        """Those of a directory that are due, until there is none."""
        due, threads = self._due[path], Threads(self._directories.roots[path].threads)
        while due:
            partition, now_ms = next(iter(due)), self._now_ms()
            if partition.log.parent == path:
                await self._look_at(partition, threads.do(partition.log.maybe_flush, now_ms), now_ms)
            else:
                self._look_again(partition)
            due.pop(partition, None)
        del self._due[path]

    async def _look_at(self, partition: Partition, is_flushed: Awaitable[object], now_ms: int) -> None:
        log, retired, is_done = partition.log, 0, False
        try:
            await is_flushed
            if id(partition) in self._watched:
                retired = partition.retain(now_ms)
                if log.config.retention_consumed:
                    self.kept_until_consumed(partition)
            is_done = not retired
        except LentError:  # since it was due
            if not log.when_back(partial(self._look_again, partition)):
                self._look_again(partition)
            return
        except KafkaError as error:
            logger.error("%s-%s: %s", partition.topic, partition.index, error.message)
        except Exception:  # it has its next turn all the same
            logger.exception("%s-%s could not be looked after", partition.topic, partition.index)
        if id(partition) in self._watched:
            self._go_on(partition, retired, now_ms, is_done=is_done)

    def _go_on(self, partition: Partition, retired: int, now_ms: int, *, is_done: bool) -> None:
        try:
            deadline_ms = self._next_ms(partition.log, retired, now_ms)
            rests_until_ms = self._rests_until_ms(partition) if is_done else None
        except OSError:  # it is not known when: no file may be left to open for a moment
            deadline_ms, rests_until_ms = now_ms + HELD_UP_MS, None
        if rests_until_ms is not None and rests_until_ms > deadline_ms:
            self._rest(partition, rests_until_ms)
        else:
            self._watch(partition, max(deadline_ms, now_ms + 1), deadline_ms)

    def _rests_until_ms(self, partition: Partition) -> int | None:
        """None while it is to be watched: what changes it does not make it `dirty`, or that is found too late."""
        log, intervals = partition.log, self._intervals
        if not partition.owns_log or intervals.high_watermark_checkpoint_ms > intervals.retention_check_ms:
            return None
        if partition.high_watermark != log.log_end_offset or partition in self.dirty:
            return None
        return log.rests_until_ms()

    def _next_ms(self, log: PartitionLog, retired: int, now_ms: int) -> int:
        next_ms = log.next_deadline_ms(now_ms)
        if next_ms <= now_ms and not retired:
            next_ms = now_ms + HELD_UP_MS
        wait_ms = self._intervals.retention_check_ms if retired < SEGMENTS_AT_ONCE else 0
        return min(next_ms, now_ms + wait_ms)

    def _look_again(self, partition: Partition) -> None:
        if id(partition) in self._watched:
            self.watch(partition, due_ms=self._now_ms())

    async def _look_after_logs(self) -> None:
        while True:
            self._changed.clear()
            await self.run_due()
            wait_s = self._seconds_to_next()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _seconds_to_next(self) -> float | None:
        first = self._heap.first
        if first is None:
            return None
        wait_ms = first[0] - self._now_ms()
        return min(max(0, wait_ms), self._intervals.retention_check_ms) / 1000  # the clock may jump, the machine sleep

    @staticmethod
    async def _repeat(interval_ms: int, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await action()
            except KafkaError as error:
                logger.error("a checkpoint could not be written: %s", error.message)
