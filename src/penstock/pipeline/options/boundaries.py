"""Where a read starts and ends, as options say it, and which topics it is about.

In offsets that are given per partition, -2 stands for earliest and -1 for latest, as in the JVM connector.
"""

import re
from collections.abc import Mapping
from enum import Enum

from penstock.client.blocking import TopicPartition
from penstock.client.values import EARLIEST
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.java_pattern import python_pattern
from penstock.pipeline.options.table import Options
from penstock.pipeline.options.values import choice, number, partition_list, per_partition
from penstock.protocol.value import Value


class Word(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"


class AtOffsets(Value):
    offsets: Mapping[TopicPartition, int]


class AtTimestamps(Value):
    """The first record at or after a time: one for all partitions, or one for each."""

    everywhere_ms: int | None
    per_partition_ms: Mapping[TopicPartition, int]


Boundary = Word | AtOffsets | AtTimestamps


class Subscription(Value):
    """Exactly one of: topics by name, topics by a pattern of Python's that is found in their names, partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def has(self, partition: TopicPartition) -> bool:
        if self.pattern is not None:
            return re.search(self.pattern, partition[0]) is not None
        return partition[0] in self.topics or partition in self.partitions


def subscription(options: Options) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if options.text(name) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none of them"
        raise PipelineError(
            f"Set one of the options subscribe, subscribePattern and assign; {found} is set.",
            option="".join(given[1:2]),
        )
    text = (options.text(given[0]) or "").strip()
    if not text:
        raise PipelineError(f"Option {given[0]} is empty.", option=given[0])
    if given[0] == "assign":
        return Subscription(partitions=tuple(partition_list("assign", text)))
    if given[0] == "subscribePattern":
        return Subscription(pattern=python_pattern(text))
    return Subscription(topics=tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip())))


def boundary(options: Options, which: str, default: Word) -> Boundary:
    """`which` is "starting" or "ending". A timestamp goes before timestamps per partition, those before offsets."""
    timestamp = options.text(f"{which}Timestamp")
    if timestamp is not None:
        return AtTimestamps(number(f"{which}Timestamp", timestamp), {})
    by_timestamp = options.text(f"{which}OffsetsByTimestamp")
    if by_timestamp is not None:
        return AtTimestamps(None, per_partition(f"{which}OffsetsByTimestamp", by_timestamp, 0))
    text = (options.text(f"{which}Offsets") or default.value).strip()
    if text.startswith("{"):
        return AtOffsets(per_partition(f"{which}Offsets", text, EARLIEST))
    return Word(choice(f"{which}Offsets", text, ("earliest", "latest", "committed")))
