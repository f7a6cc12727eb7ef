"""Ranges between the offsets where a batch starts and ends, and how they are cut into tasks. Pure functions."""

from collections.abc import Mapping
from itertools import pairwise
from uuid import UUID

from penstock.client.blocking import TopicPartition
from penstock.protocol.value import Value

Offsets = dict[TopicPartition, int]

SMALL_OFFSETS = 10_000
"""Fewer offsets than this are read faster than Spark starts a task."""
OFFSETS_WORTH_A_TASK = 256
TASKS_UNSHARED = 32


class OffsetRange(Value):
    """Records of one partition from `start` to before `end`. `topic_id` may be unknown."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID | None = None

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """The number of offsets; with compaction and transactions there are fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1} of partition {self.partition} of topic {self.topic!r}"


def ranges_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID]
) -> list[OffsetRange]:
    """Ranges that are not empty, in the order of topics and partitions; only of partitions in both."""
    return [
        OffsetRange(topic, partition, start[topic, partition], end[topic, partition], topic_ids.get(topic))
        for topic, partition in sorted(end)
        if end[topic, partition] > start.get((topic, partition), end[topic, partition])
    ]


def split_ranges(
    ranges: list[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """Cut large ranges: first so that none passes the maximum, then in proportion until there are enough."""
    if max_records_per_partition:
        ranges = [part for whole in ranges for part in _cut(whole, -(-whole.size // max_records_per_partition))]
    if min_partitions is None or len(ranges) >= min_partitions:
        return ranges
    total = sum(whole.size for whole in ranges)
    return [part for whole in ranges for part in _cut(whole, round(whole.size / total * min_partitions))]


def pack_ranges(
    ranges: list[OffsetRange], min_partitions: int | None, max_per_task: int | None
) -> list[tuple[OffsetRange, ...]]:
    """Tasks: a large range is one of its own, small ones share some, as a task costs Spark more than a small range.

    Up to `TASKS_UNSHARED` tasks nothing is shared that is worth a task, so that a few partitions are processed in
    parallel.
    """
    large = [(whole,) for whole in ranges if whole.size >= SMALL_OFFSETS]
    small = sorted((whole for whole in ranges if whole.size < SMALL_OFFSETS), key=lambda whole: -whole.size)
    total = sum(whole.size for whole in small)
    tasks = max(
        1,
        (min_partitions or 0) - len(large),
        min(TASKS_UNSHARED - len(large), -(-total // OFFSETS_WORTH_A_TASK)),
        -(-total // SMALL_OFFSETS),
        -(-len(small) // (max_per_task or len(small) or 1)),
    )
    shared = [tuple(sorted(small[first::tasks], key=_place)) for first in range(min(tasks, len(small)))]
    return sorted(large + shared, key=lambda task: _place(task[0]))


def _place(whole: OffsetRange) -> tuple[str, int, int]:
    return whole.topic, whole.partition, whole.start


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(max(parts, 1), whole.size)
    borders = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [whole.replace(start=begin, end=end) for begin, end in pairwise(borders)]


def take_fraction(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], fraction: float
) -> Offsets:
    """Go on by the same fraction of what is left everywhere, by one offset at least: none starves."""
    return {
        partition: min(end, start[partition] + max(1, int((end - start[partition]) * fraction)))
        for partition, end in latest.items()
    }


def lag(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """The number of offsets between them, over all partitions."""
    return sum(max(0, end - start.get(partition, end)) for partition, end in latest.items())
