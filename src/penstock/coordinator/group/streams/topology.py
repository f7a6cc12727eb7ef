"""A topology with the topics of the cluster: how many tasks it has, and what is missing before they can run.

| status | what is wrong |
| --- | --- |
| MISSING_SOURCE_TOPICS | topics are not there that only the user can create |
| INCORRECTLY_PARTITIONED_TOPICS | topics that are read together differ, an internal topic is not as it has to be, |
| | or there are more than MAX_TASKS |
| MISSING_INTERNAL_TOPICS | topics are not there that are created for the application |
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any, Final

from penstock.coordinator.group.streams.sizing import (
    Counts,
    IncorrectlyPartitionedError,
    copartition_counts,
    repartition_counts,
    task_count,
)
from penstock.coordinator.group.streams.values import InternalTopic, Subtopology, Topology
from penstock.metadata.topic_names import topic_name_error
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3

MAX_PARTS: Final = 1_000
"""Subtopologies, and topics that they name, of one topology: each takes the event loop some 5 to 10 µs."""
MAX_CONFIGS: Final = 2_000
"""Of all internal topics of a topology together: each takes a tenth of that."""
MAX_TASKS: Final = 10_000
"""Of a group; also, of one kind, that a member may name in a heartbeat. Each that a member gets takes some 2 µs."""
_NAMED_AT_MOST: Final = 3
"""Topics in the text of a status."""


class Configured(Value):
    """Kafka calls it ConfiguredTopology."""

    tasks: Mapping[str, int] | None = None
    """Subtopology to its number of tasks, by ascending ids; None if that is not known."""
    topology: Topology | None = None
    """With the numbers of partitions that were decided."""
    missing: tuple[InternalTopic, ...] = ()
    """Topics to be created, by ascending names."""
    status: int | None = None
    """What heartbeats tell the members; None if all is well."""
    detail: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be given out."""
        return self.status is None


def check_size(said: Any) -> None:
    """Of the topology in a heartbeat, before anything else is asked of it: KafkaError(STREAMS_INVALID_TOPOLOGY)."""
    if any(parts > MAX_PARTS for parts in accumulate(map(_parts, said.subtopologies))):
        raise _invalid(f"a topology may have {MAX_PARTS} subtopologies and topics, and this one has more")
    topics = (
        one for sub in said.subtopologies for one in (*sub.state_changelog_topics, *sub.repartition_source_topics)
    )
    configs = sum(len(topic.topic_configs) for topic in topics)
    if configs > MAX_CONFIGS:
        raise _invalid(f"{configs} configs of topics are more than the {MAX_CONFIGS} that a topology may have")


def check(topology: Topology) -> None:
    """What no state of the cluster makes right: KafkaError, with STREAMS_INVALID_TOPOLOGY, INVALID_TOPIC_EXCEPTION, or
    INVALID_REQUEST for what Kafka does not serve either. `topology` has passed `check_size`.
    """
    if len({sub.subtopology_id for sub in topology.subtopologies}) < len(topology.subtopologies):
        raise _invalid("two subtopologies have the same id")
    for sub in topology.subtopologies:
        _check_subtopology(sub)


def _parts(sub: Any) -> int:
    groups = sub.copartition_groups
    lists = [sub.source_topics, sub.source_topic_regex, sub.repartition_sink_topics, groups]
    lists += [sub.state_changelog_topics, sub.repartition_source_topics]
    for group in groups:
        lists += [group.source_topics, group.source_topic_regex, group.repartition_source_topics]
    return 1 + sum(map(len, lists))


def _check_subtopology(sub: Subtopology) -> None:
    if sub.source_topic_regex:
        message = f"subtopology {sub.subtopology_id} reads a pattern of topics, which is not supported: name the topics"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    for topic in sub.changelogs:
        if topic.partitions:
            raise _invalid(f"changelog {topic.name} gives a number of partitions, which follows from its source")
    for topic in sub.internal_topics:
        error = topic_name_error(topic.name)
        if error:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
        if topic.partitions < 0:
            raise _invalid(f"topic {topic.name} cannot have {topic.partitions} partitions")
    for group in sub.copartition_groups:
        places = ((group.source_topics, sub.source_topics), (group.repartition_sources, sub.repartition_sources))
        if not all(0 <= place < len(topics) for named, topics in places for place in named):
            raise _invalid(f"a copartition group of subtopology {sub.subtopology_id} names a topic it has not")


def configure(topology: Topology, partitions_of: Callable[[str], int | None]) -> Configured:
    """`topology` has passed `check`; `partitions_of` says how many partitions a topic has, None if there is none.
    KafkaError(STREAMS_INVALID_TOPOLOGY) if no numbers of partitions follow from it.
    """
    found = {name: partitions_of(name) for name in topology.required_topics}
    there = {name: count for name, count in found.items() if count is not None}
    absent = sorted({name for sub in topology.subtopologies for name in sub.source_topics if name not in there})
    if absent:
        return Configured(status=MISSING_SOURCE_TOPICS, detail=f"Source topics are missing: {_named(absent)}")
    try:
        return _configured(topology, there)
    except IncorrectlyPartitionedError as error:
        return Configured(status=INCORRECTLY_PARTITIONED_TOPICS, detail=str(error))


def _configured(topology: Topology, there: Counts) -> Configured:
    subtopologies = topology.subtopologies
    repartitions = {topic.name: topic for sub in subtopologies for topic in sub.repartition_sources}
    decided = repartition_counts(subtopologies, there)
    counts: Counts = ChainMap(dict(there), decided)
    for sub in subtopologies:
        for names in _copartition_groups(sub):
            decided.update(copartition_counts(names, repartitions, counts))
    tasks = {sub.subtopology_id: task_count(sub, counts) for sub in subtopologies}
    if sum(tasks.values()) > MAX_TASKS:
        raise IncorrectlyPartitionedError(
            f"The topology has {sum(tasks.values())} tasks, more than the {MAX_TASKS} that a group may have"
        )
    for sub in subtopologies:
        decided.update((topic.name, tasks[sub.subtopology_id]) for topic in sub.changelogs)
    configured = topology.replace(subtopologies=tuple(_with_counts(sub, decided) for sub in subtopologies))
    missing = _missing(configured, there)
    if not missing:
        return Configured(tasks, configured)
    detail = f"Internal topics are missing: {_named([topic.name for topic in missing])}"
    return Configured(tasks, configured, missing, MISSING_INTERNAL_TOPICS, detail)


def _copartition_groups(sub: Subtopology) -> list[set[str]]:
    return [
        {
            *(sub.source_topics[place] for place in group.source_topics),
            *(sub.repartition_sources[place].name for place in group.repartition_sources),
        }
        for group in sub.copartition_groups
    ]


def _with_counts(sub: Subtopology, decided: Counts) -> Subtopology:
    """A number that the application gives stays."""

    def sized(topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
        return tuple(topic if topic.partitions else topic.replace(partitions=decided[topic.name]) for topic in topics)

    return sub.replace(changelogs=sized(sub.changelogs), repartition_sources=sized(sub.repartition_sources))


def _missing(topology: Topology, there: Counts) -> tuple[InternalTopic, ...]:
    """IncorrectlyPartitionedError if one is there that has to be different."""
    internal = {
        topic.name: topic for sub in topology.subtopologies for topic in (*sub.repartition_sources, *sub.changelogs)
    }
    for name, topic in sorted(internal.items()):
        if there.get(name, topic.partitions) != topic.partitions:
            raise IncorrectlyPartitionedError(
                f"Topic {name} has {there[name]} partitions, and needs {topic.partitions}, as what it is made of"
            )
    return tuple(topic for name, topic in sorted(internal.items()) if name not in there)


def _named(topics: list[str]) -> str:
    more = len(topics) - _NAMED_AT_MOST
    return ", ".join(topics[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
