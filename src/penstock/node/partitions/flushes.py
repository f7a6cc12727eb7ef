"""Flushes logs as `flush.messages` wants it, by threads of their disks, while the node goes on.

A log has one flush under way at a time. What is appended to it in the same turn of the event loop, or while the flush
before is under way, shares the next one; `AT_ONCE` logs of one disk are flushed beside each other, as a disk syncs
several files in about the time of one.
Nobody is told of records before the flush that began behind them has ended (`IsrPartition.flushed`).

| a flush                             | what follows                                                              |
| ----------------------------------- | ------------------------------------------------------------------------- |
| ends                                | what it brought to the disk is kept, and who waits for that goes on       |
| finds no room                       | it is tried again after `AGAIN_S`; another replica in sync is to lead     |
| finds no file to spare              | it is tried again after `AGAIN_S`; who waits does so                      |
| fails otherwise                     | the directory is offline, as `log/health.py` says                         |
| has not ended in `log.flush.timeout.ms`, its time in the queue included | another replica in sync is to lead    |
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from penstock.log.partition_log import PartitionLog
from penstock.node.environment.tasks import all_ended
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
AT_ONCE: Final = 6
"""Flushes of one disk: it has a few threads more, so that the log of the metadata and cuts do not wait for these."""


class Flushes:
    """`hangs_s`: a flush that takes longer hangs."""

    def __init__(self, threads_of: Callable[[PartitionLog], Executor], hangs_s: float) -> None:
        self._threads_of = threads_of
        self._hangs_s = hangs_s
        self._wanted: dict[IsrPartition, float] = {}
        """Since when (s), the oldest first."""
        self._waiting: dict[str, deque[IsrPartition]] = {}
        """By log directory, those that are next, and how many flushes are under way."""
        self._working = Counter[str]()
        self._under_way: dict[asyncio.Future[None], None] = {}
        self._loop = asyncio.get_running_loop()
        self._look_later: asyncio.TimerHandle | None = None
        self._has_stopped = False

    def want(self, partition: IsrPartition) -> None:
        if partition not in self._wanted:
            self._note(partition)
            self._loop.call_soon(self._queue, partition)

    def _note(self, partition: IsrPartition) -> None:
        self._wanted[partition] = self._loop.time()
        if self._look_later is None:
            self._look_later = self._loop.call_later(self._hangs_s, self._look)

    def _look(self) -> None:
        """Who has waited for too long hears so, and again after a while."""
        self._look_later = None
        late_s, wait_s = self._loop.time() - self._hangs_s, AGAIN_S
        for partition, since_s in list(self._wanted.items()):
            if since_s > late_s:
                wait_s = since_s - late_s
                break
            if not partition.kept.is_stuck:
                logger.error("%s: its flush has not ended for %s s: the disk hangs", partition, self._hangs_s)
            partition.got_stuck()
        if self._wanted and not self._has_stopped:
            self._look_later = self._loop.call_later(wait_s, self._look)

    def _queue(self, partition: IsrPartition) -> None:
        if not partition.log.when_back(partial(self._queue, partition)):
            path = partition.log.parent
            self._waiting.setdefault(path, deque()).append(partition)
            self._work(path)

    def _work(self, path: str) -> None:
        waiting = self._waiting[path]
        while waiting and self._working[path] < AT_ONCE:
            self._begin(waiting.popleft(), path)

    def _begin(self, partition: IsrPartition, path: str) -> None:
        log = partition.log
        if self._has_stopped or _is_gone(log):
            del self._wanted[partition]
            return
        flush = self._loop.run_in_executor(self._threads_of(log), log.flush)
        self._working[path] += 1
        self._under_way[flush] = None
        flush.add_done_callback(partial(self._ended, partition, path))

    def _ended(self, partition: IsrPartition, path: str, flush: asyncio.Future[None]) -> None:
        del self._under_way[flush]
        self._working[path] -= 1
        self._work(path)  # first: whatever comes of this flush, the disk goes on with the next ones
        if not partition.log.when_back(partial(self._queue, partition)):  # else nobody knows what that did
            del self._wanted[partition]
            self._tell(partition, flush)

    def _tell(self, partition: IsrPartition, flush: asyncio.Future[None]) -> None:
        log = partition.log
        try:
            flush.result()
            partition.flushed()
        except KafkaError as error:
            if _is_gone(log):
                return
            logger.error("%s: cannot be flushed, which is tried again: %s", partition, error)
            self._note(partition)
            self._loop.call_later(AGAIN_S, self._queue, partition)
            if log.health.is_full:
                partition.got_stuck()

    async def stop(self) -> None:
        """Wait until all that are under way have ended: the files must not be closed under them. Raises KafkaError."""
        self._has_stopped = True
        if self._look_later is not None:
            self._look_later.cancel()
        await all_ended(self._under_way)


def _is_gone(log: PartitionLog) -> bool:
    return log.is_deleted or log.health.failure is not None
