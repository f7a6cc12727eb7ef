"""Compacts the logs of a node whose topics ask for it, the dirtiest first, `log.cleaner.threads` at a time.

| what happens to a log meanwhile                | what becomes of the round                                       |
| ---------------------------------------------- | --------------------------------------------------------------- |
| it is appended to, read, made longer or sealed | nothing: a round has what was sealed and stable at its beginning|
| its oldest segments are deleted                | what was made of them is dropped, the rest goes on              |
| it is cut, moved, deleted, or its disk fails   | it is given up; what was swapped in before stays                |
| it turns out to be damaged                     | it is given up, and the log is passed by until a restart        |
| the process that compacts dies                 | it is given up; the log has its turn again                      |

A log is flushed before its round: an older record must not go on the disk before the newer one is there.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Generator
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from penstock.log.compaction.planning import Cleanable
from penstock.log.compaction.preparing import Buffers, look_at, prepare
from penstock.log.compaction.rounds import Cleaned, Round, Summary
from penstock.log.names import CLEANED_SUFFIX
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.node.environment.cleaning_process import RoundRunner, WorkerDiedError
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import Tasks, Threads
from penstock.node.partitions.cleaner_metrics import CleanerMetrics
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHANGED = "the compaction of %s is given up: the log has changed"
LOOKED_AT_ONCE = 100
"""Partitions, or topics, that are looked at before requests are served again."""
IDLE_S = 60.0
"""How long the idle process that compacts is kept: starting it takes longer than many a round."""


class _GivenUpError(Exception):
    """The log is not what it was when the round began."""


class Cleaner:
    """`uncleanable`: logs that are passed by, and why."""

    def __init__(self, context: NodeContext, table: PartitionTable) -> None:
        self._config = context.config
        self._directories = context.directories
        self._table = table
        self._now_ms = context.now_ms
        self._make_runner = partial(context.environment.run_rounds, context.environment.disk)
        self._busy: dict[PartitionLog, None] = {}
        self._untidy: dict[PartitionLog, None] = {}
        """Where something may be left that was written and not swapped in."""
        self._tasks = Tasks()
        self._workers: list[asyncio.Task[None]] = []
        self._threads = Threads()
        self.uncleanable: dict[PartitionLog, str] = {}
        self.metrics = CleanerMetrics(context.metrics, context.now_ms, self.uncleanable.keys())

    def start(self) -> None:
        """Works in the background of the running event loop, unless `log.cleaner.enable` is false."""
        if self._config.log_cleaner_enable:
            self._tasks.keep(self._run, "compaction")

    async def stop(self) -> None:
        """Give up what is under way; the caller closes the logs."""
        await self._tasks.stop()
        await self._threads.settle()  # the files must not be closed under them

    # what to do next

    async def _run(self) -> None:
        """Keep as many logs in work as the setting says."""
        while True:
            wanted = self._config.log_cleaner_threads
            workers = self._workers
            workers += [self._tasks.keep(self._clean_on, "compact") for _ in range(len(workers), wanted)]
            for worker in workers[wanted:]:
                worker.cancel()
            del workers[wanted:]
            await asyncio.sleep(max(self._config.log_cleaner_backoff_ms, 1) / 1000)

    async def _clean_on(self) -> None:
        runner, loop = self._make_runner(), asyncio.get_running_loop()
        worked_s = loop.time()
        try:
            while True:
                if await self.clean_dirtiest(runner):
                    worked_s = loop.time()
                    continue
                if loop.time() - worked_s >= IDLE_S:
                    await runner.rest()
                await asyncio.sleep(max(self._config.log_cleaner_backoff_ms, 1) / 1000)
        finally:
            await runner.rest()

    async def clean_dirtiest(self, runner: RoundRunner) -> bool:
        """Whether there was a log to compact, and it is cleaner now."""
        found = await self._dirtiest()
        return found is not None and await self._clean(*found, runner)

    async def _dirtiest(self) -> tuple[Partition, Cleanable] | None:
        now_ms, best, ratio = self._now_ms(), None, 0.0
        self.metrics.begin_look(now_ms)
        for known in (self.uncleanable, self._untidy):
            for log in [log for log in known if log.is_deleted]:
                del known[log]
        for number, partition in enumerate(await self._compacted()):
            if number % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            found = self._look_at(partition, now_ms)
            if found is None:
                continue
            ratio = max(ratio, found.ratio)
            self.metrics.delay_ms = max(self.metrics.delay_ms, found.delay_ms)
            if found.is_due(partition.log.config) and (best is None or found.ratio > best[1].ratio):
                best = partition, found
        self.metrics.dirtiest_ratio = ratio
        return best

    async def _compacted(self) -> list[Partition]:
        """Of a node with very many partitions that are not: of their topics one is looked at."""
        found: list[Partition] = []
        for number, partitions in enumerate(self._table.by_topic()):
            if number % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            one = next(iter(partitions.values()), None)
            if one is not None and one.log.config.is_compacted:
                found += partitions.values()
        return found

    def _look_at(self, partition: Partition, now_ms: int) -> Cleanable | None:
        log = partition.log
        if not self._may_clean(partition) or log.segments.active.base_offset <= log.cleaned_to:
            return None
        try:
            return look_at(log, partition.last_stable_offset, now_ms)
        except KafkaError as error:
            logger.error("%s is not compacted: %s", partition, error.message)
            return None

    def _may_clean(self, partition: Partition) -> bool:
        """A log that is not read in yet is left alone; its first retention reads it at the latest."""
        log = partition.log
        return (
            log.config.is_compacted
            and partition.owns_log  # a replica that copies another one needs every offset
            and log.is_loaded
            and log.health.failure is None
            and log not in self._busy
            and log not in self.uncleanable
            and (partition.topic, partition.index) not in self._directories.futures
        )

    def state(self, log: PartitionLog, high_watermark: int) -> tuple[int, int, str | None]:
        """(per cent that wait for compaction, -1 if that is not known; when it was the log's turn; why it has none)."""
        percent = -1
        try:
            if log.is_loaded:
                percent = int(100 * look_at(log, log.last_stable_offset(high_watermark), self._now_ms()).ratio)
        except KafkaError as error:
            return -1, self.metrics.cleaned_ms(log), error.message
        return percent, self.metrics.cleaned_ms(log), self.uncleanable.get(log)

    # one round

    async def _clean(self, partition: Partition, found: Cleanable, runner: RoundRunner) -> bool:
        """Whether the log is cleaner now."""
        log = partition.log
        if not self._may_clean(partition):
            return False
        before, self._busy[log] = _Before(log), None
        try:
            await self._do_round(partition, found, runner, before)
        except _GivenUpError:
            logger.info(CHANGED, partition)
            return False
        except WorkerDiedError as error:
            self.metrics.deaths += 1
            logger.error("%s: %s", partition, error.message)
            return False
        except (KafkaError, DecodeError) as error:
            if isinstance(error, KafkaError) and error.code is not ErrorCode.CORRUPT_MESSAGE:
                logger.error("%s is not compacted: %s", partition, error.message)
            elif log.is_deleted or not before.still_holds:
                logger.info(CHANGED, partition)  # while it was read
            else:
                self.uncleanable[log] = str(error)
                logger.warning("%s cannot be compacted and is passed by from now on: %s", partition, error)
            return False
        finally:
            del self._busy[log]
        return True

    async def _do_round(self, partition: Partition, found: Cleanable, runner: RoundRunner, before: _Before) -> None:
        log, directory, began_ms = partition.log, partition.log.directory, self._now_ms()
        if log.recovery_point < found.first_uncleanable:
            await self._threads.do(log.flush)
        if not before.still_holds or log.directory != directory:
            raise _GivenUpError
        work, segments = await _prepared(prepare(log, found, self._buffers(), began_ms), before)
        by_base = {segment.base_offset: segment for segment in segments}
        has_swapped_all, is_over = True, False
        config = self._config
        bytes_per_s = _limit(config.log_cleaner_io_max_bytes_per_second) / max(1, config.log_cleaner_threads)
        try:
            async with aclosing(runner.run(work, bytes_per_s)) as steps:  # type: ignore[type-var]  # it is a generator
                async for step in steps:
                    if not before.still_holds:
                        raise _GivenUpError
                    if isinstance(step, Cleaned):
                        old = [by_base[base_offset] for base_offset in step.base_offsets]
                        has_swapped_all &= await self._swap_in(log, step, old)
                    elif isinstance(step, Summary):
                        log.cleaned_to = min(step.end_offset, log.log_end_offset)
                        write = self._directories.checkpoints.write_cleaned_offsets
                        await self._threads.do(write, self._directories.logs, self._directories.roots[log.parent])
                        self.metrics.note_round(log, step, began_ms, self._now_ms())
                        logger.info("%s is compacted up to %d: %s", partition, step.end_offset, _told(step))
                        is_over = has_swapped_all
        except FileNotFoundError:  # of a log that was cut, moved or deleted; that is no failing disk
            raise _GivenUpError from None
        except OSError as error:
            raise log.health.report(error, f"compacting {log.directory}") from error
        finally:
            if not is_over or log in self._untidy:
                self._discard(log, work)

    def _buffers(self) -> Buffers:
        config, threads = self._config, max(1, self._config.log_cleaner_threads)
        return Buffers(
            dedupe_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=min(max(config.log_cleaner_io_buffer_load_factor, 0.0), 1.0),
            io_bytes=config.log_cleaner_io_buffer_size // threads // 2,
        )

    async def _swap_in(self, log: PartitionLog, step: Cleaned, old: list[Segment]) -> bool:
        """Whether it took their place."""
        if log.is_loaded and step.base_offsets[-1] < log.segments[0].base_offset:
            return False  # retention was faster
        if not log.swap_in(old, self._now_ms(), step.gone):
            raise _GivenUpError
        await self._threads.do(log.segments.sync_names)  # what follows may rely on it
        return True

    def _discard(self, log: PartitionLog, work: Round) -> None:
        """Remove what was written and not swapped in; the next start does it otherwise. All names of the directory are
        looked at, which takes long where there are very many.
        """
        self._untidy.pop(log, None)
        if log.is_deleted or log.is_lent or log.directory != work.directory or log.health.failure is not None:
            if log.is_lent:
                self._untidy[log] = None  # until after its next round
            return
        try:
            self._directories.discard(log, CLEANED_SUFFIX)
        except KafkaError as error:
            logger.error("%s", error.message)


class _Before:
    """What a round of compaction reads may be cut off meanwhile, and other records be written in its place."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._content = log.load()
        self._cuts = self._content.cuts

    @property
    def still_holds(self) -> bool:
        log = self._log
        return log.is_loaded and log.load() is self._content and self._content.cuts == self._cuts


async def _prepared(steps: Generator[None, None, T], before: _Before) -> T:
    """Others have their turn in between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
        if not before.still_holds:
            raise _GivenUpError


def _limit(bytes_per_s: float) -> float:
    """Below 0 there is none, as in Kafka. With 0 Kafka's cleaner sleeps for ever; here it is as slow as can be."""
    return math.inf if bytes_per_s < 0 else max(bytes_per_s, 1.0)


def _told(step: Summary) -> str:
    return f"{step.bytes_read} bytes are {step.bytes_written} now, {step.records_read} records {step.records_written}"
