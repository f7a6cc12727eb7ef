"""Groups that an earlier version wrote into another partition than Kafka does, and how they get where they belong.

An early version put a group into the partition `(hash & 0x7fffffff) % n` of `__consumer_offsets`. Kafka's is
`abs(hash) % n`, another one for most names whose hash is negative. Such a group is found when its old partition is
loaded: its records are written to the partition that it belongs to, and when they are committed there, tombstones to
the old one. Until then nobody is served from the old partition, nor is that group from the new one. That the group is
there is the only mark, so what a crash leaves behind is found again at the next start. Of what both partitions have,
the later one holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.coordinator.group.shard import GroupShard
from penstock.node.coordinators.hosted import Hosted
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition, java_string_hash

logger = logging.getLogger(__name__)

NAMES_IN_A_LINE: Final = 10
RECORDS_AT_ONCE: Final = 1_000
"""Records in one batch, so that none is too large."""


def former_partition(group_id: str, partitions: int) -> int:
    """Where an earlier version put a group."""
    return (java_string_hash(group_id) & 0x7FFFFFFF) % partitions


async def move_misplaced(
    source: Hosted[GroupShard], partitions: int, hosted: Callable[[int], Hosted[GroupShard] | None]
) -> list[str]:
    """Move the groups of `source` that belong to other partitions which this node leads. Raises KafkaError.

    `hosted` finds those. The result: groups of partitions that other nodes lead.
    """
    index = source.partition.index
    moved: list[str] = []
    left: list[str] = []
    for group_id in source.machine.group_ids():
        belongs_to = coordinator_partition(group_id, partitions)
        if belongs_to == index or former_partition(group_id, partitions) != index:
            continue
        target = hosted(belongs_to)
        if target is None:
            left.append(group_id)
        else:
            await _move(group_id, source, target)
            moved.append(group_id)
    if moved:
        logger.warning("%s: %d groups moved to the partitions of their names: %s", source, len(moved), _named(moved))
    return left


async def _move(group_id: str, source: Hosted[GroupShard], target: Hosted[GroupShard]) -> None:
    await asyncio.sleep(0)  # There may be very many.
    await target.settled.wait()
    if not target.is_read:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{target} could not be loaded")
    records = source.machine.records_of(group_id)
    for start in range(0, len(records), RECORDS_AT_ONCE):
        await _done(target.ask(target.machine.adopt, records[start : start + RECORDS_AT_ONCE]))
    if source.is_over:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    await _done(source.ask(source.machine.remove_group, group_id))


async def _done(answer: Any) -> None:
    error: ErrorCode = answer if isinstance(answer, ErrorCode) else await answer
    if error is not ErrorCode.NONE:
        raise KafkaError(error)


def _named(group_ids: list[str]) -> str:
    more = len(group_ids) - NAMES_IN_A_LINE
    return ", ".join(group_ids[:NAMES_IN_A_LINE]) + (f" and {more} more" if more > 0 else "")
