"""How a share group comes along in a partition: for how long the oldest record has waited, and how fast it goes."""

from __future__ import annotations

from typing import Final

from penstock.log.log_slice import LogSlice
from penstock.node.partitions.partition import Later, Partition
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.errors import KafkaError

HALF_MS: Final = 30_000
"""A rate is that of the last half to whole minute."""
UNKNOWN_MS: Final = -1


class Rate:
    """What is counted, and how much of it there was a second lately."""

    __slots__ = ("_before", "_began_ms", "_count", "_half_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.total = 0
        self._began_ms = self._half_ms = now_ms
        self._before = self._count = 0

    def add(self, count: int, now_ms: int) -> None:
        self._turn(now_ms)
        self.total += count
        self._count += count

    def per_second(self, now_ms: int) -> float:
        self._turn(now_ms)
        took_ms = min(now_ms - self._began_ms, now_ms - self._half_ms + HALF_MS)
        return 1000 * (self._before + self._count) / max(took_ms, 1000)

    def _turn(self, now_ms: int) -> None:
        halves = (now_ms - self._half_ms) // HALF_MS
        if halves:
            self._before, self._count = self._count if halves == 1 else 0, 0
            self._half_ms += halves * HALF_MS


class Deliveries:
    """Of a share partition, from when it is led here: all, and those that were not a record's first."""

    def __init__(self, now_ms: int) -> None:
        self.all = Rate(now_ms)
        self.again = Rate(now_ms)

    def count(self, first: int, again: int, now_ms: int) -> None:
        self.all.add(first + again, now_ms)
        if again:
            self.again.add(again, now_ms)


class Oldest:
    """When the first record came that the group has not finished with; looked up when that is another one."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._offset = -1
        self._came_ms = UNKNOWN_MS

    def is_known(self, offset: int) -> bool:
        return offset == self._offset

    def came_ms(self, offset: int, *, may_look: bool = True) -> int:
        """Of the one before, if it may not be looked up."""
        if may_look and offset != self._offset:
            self._offset, self._came_ms = offset, came_ms(self._partition, offset)
        return self._came_ms


def came_ms(partition: Partition, offset: int) -> int:
    """By the timestamp of the batch of a record; UNKNOWN_MS where it has none, or is not to be read now."""
    try:
        found = partition.read(
            max(offset, partition.log_start_offset),
            1,
            upper_offset=partition.high_watermark,
            at_least_one_batch=True,
        )
    except KafkaError:
        return UNKNOWN_MS
    if isinstance(found, Later) or found.length < HEADER_SIZE:
        return UNKNOWN_MS
    header = read_header(partition.log.bytes_of(LogSlice(found.file, found.position, HEADER_SIZE, found.end_offset)))
    return header.max_timestamp if header.is_log_append_time else header.base_timestamp
