"""A replica copies from others what it lacks of partitions' logs, and what the group's log has forgotten.

| replica                                                   | from whom, and what it does meanwhile                    |
| --------------------------------------------------------- | -------------------------------------------------------- |
| it is so far behind that the leader has a snapshot for it | from the leader; it counts for no majority, for the core |
|                                                           | takes no records behind a snapshot that is not examined  |
| its disk has lost what its own snapshot says is there     | from any other replica; it takes no part at all          |

All that any replica's partition logs hold is committed, so nothing that is copied is ever taken back, and what this
replica has is the beginning of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

from penstock.log.partition_log import PartitionLog
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.storage_groups.entries import PartitionId

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
"""Pause when the leader has nothing for this replica, or there is none."""


Wanted = Sequence[tuple[GroupPartition, int]]
"""Partitions, and the offset before which each must have all."""

ThreadsOf = Callable[[PartitionLog], Executor | None]
"""Those of the disk on which a log lies."""

Source = Callable[[int, PartitionId, int], Awaitable[tuple[int, bytes]]]
"""Asks a node for a partition's batches from an offset on: where its log starts, and some. KafkaError if it cannot."""


class LostRecordsError(KafkaError):
    """The disk has less of these partitions than the group's log, which has forgotten it, says."""

    def __init__(self, lacking: Wanted) -> None:
        partition, end_offset = lacking[0]
        more = f", and {len(lacking) - 1} more have lost some" if lacking[1:] else ""
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the log of {partition.topic}-{partition.id.number} ends at {partition.end_offset}, and the storage group"
            f" has forgotten what came before {end_offset}: its disk has lost records{more}",
        )
        self.lacking = lacking


async def copy_missing(
    wanted: Wanted,
    fetch: Callable[[PartitionId, int], Awaitable[tuple[int, bytes]]],
    is_removed: Callable[[GroupPartition], bool],
    threads_of: ThreadsOf,
) -> None:
    """Return when each of these logs has all before its offset, and on the disk, or its topic was deleted."""
    for partition, end_offset in wanted:
        while not is_removed(partition) and partition.end_offset < end_offset:
            try:
                start_offset, batches = await fetch(partition.id, partition.end_offset)
            except (KafkaError, OSError):
                goes_on = False
            else:
                goes_on = is_removed(partition) or partition.copy(start_offset, batches)
            if not goes_on:
                await asyncio.sleep(PAUSE_S)
    await flush_apart([partition.log for partition, _ in wanted], threads_of)


async def copy_lost(
    lacking: Wanted,
    others: Sequence[int],
    source: Source,
    is_removed: Callable[[UUID, int], bool],
    threads_of: ThreadsOf,
) -> None:
    """Return when this node's disk has again what it has lost, from any of these nodes."""
    logger.info("what the disk has lost of %d partitions is copied from %s", len(lacking), others)
    ask = partial(ask_all, others, source)
    await copy_missing(lacking, ask, lambda one: is_removed(one.id.topic_id, one.since), threads_of)


async def ask_all(nodes: Sequence[int], source: Source, partition: PartitionId, offset: int) -> tuple[int, bytes]:
    """Batches from the first of these nodes that has them; where none has, the earliest beginning of their logs.

    Raises KafkaError if no node answers.
    """
    starts: list[int] = []
    for node_id in nodes:
        with suppress(KafkaError):
            start_offset, batches = await source(node_id, partition, offset)
            if batches:
                return start_offset, batches
            starts.append(start_offset)
    if not starts:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no other replica of the storage group answers")
    return min(starts), b""


def read_for_copy(log: PartitionLog, offset: int, max_bytes: int) -> tuple[int, bytes]:
    if not log.log_start_offset <= offset < log.log_end_offset:
        return log.log_start_offset, b""
    return log.log_start_offset, log.bytes_of(log.read(offset, max_bytes))


async def flush_apart(logs: Sequence[PartitionLog], threads_of: ThreadsOf) -> None:
    """Syncs these logs, those of each disk in its own threads: one that hangs keeps no other busy."""
    of_disks: dict[Executor | None, list[PartitionLog]] = {}
    for log in logs:
        of_disks.setdefault(threads_of(log), []).append(log)
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(threads, flush_all, its) for threads, its in of_disks.items()))


def flush_all(logs: Sequence[PartitionLog]) -> None:
    """Syncs these logs; for a thread."""
    for log in logs:
        log.flush()
