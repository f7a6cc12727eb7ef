"""A replica that is so far behind that the group's log has forgotten what it lacks copies it from the leader.

All that the leader's partition logs hold is committed, so nothing that is copied is ever taken back, and what this
replica has is the beginning of it. Meanwhile it counts for no majority: the consensus core takes no records behind a
snapshot before that was examined.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from penstock.log.partition_log import PartitionLog
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.errors import KafkaError
from penstock.replication.storage_groups.entries import PartitionId

PAUSE_S: Final = 0.1
"""So long it waits when the leader has nothing for it, or there is none."""


async def copy_missing(
    wanted: Sequence[tuple[GroupPartition, int]],
    fetch: Callable[[PartitionId, int], Awaitable[tuple[int, bytes]]],
    is_removed: Callable[[GroupPartition], bool],
) -> None:
    """Return when each of these logs has all before its offset, and on the disk, or its topic was deleted."""
    for partition, end_offset in wanted:
        while not is_removed(partition) and partition.end_offset < end_offset:
            try:
                start_offset, batches = await fetch(partition.id, partition.end_offset)
            except (KafkaError, OSError):
                await asyncio.sleep(PAUSE_S)
                continue
            if is_removed(partition):
                break
            if not partition.copy(start_offset, batches):
                await asyncio.sleep(PAUSE_S)
    await asyncio.get_running_loop().run_in_executor(None, flush_all, [partition.log for partition, _ in wanted])


def read_for_copy(log: PartitionLog, offset: int, max_bytes: int) -> tuple[int, bytes]:
    """What another replica gets that asks for the batches from an offset on. Raises KafkaError."""
    if not log.log_start_offset <= offset < log.log_end_offset:
        return log.log_start_offset, b""
    try:
        return log.log_start_offset, log.read(offset, max_bytes).read()
    except OSError as error:
        raise log.health.report(error, f"reading {log.directory}") from error


def flush_all(logs: Sequence[PartitionLog]) -> None:
    """Bring these logs to the disk; for a thread."""
    for log in logs:
        log.flush()
