"""How many partitions the topics get that a streams application has created for itself.

A topic that is there counts with the partitions that it has; whether these are what was decided is asked at the end
(`topology.py`).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from penstock.coordinator.group.streams.values import InternalTopic, Subtopology
from penstock.protocol.errors import ErrorCode, KafkaError

Counts = Mapping[str, int]
"""Topic to its number of partitions."""


class IncorrectlyPartitionedError(Exception):
    """Topics that have to have the same number of partitions have not. Its text is for users."""


def repartition_counts(subtopologies: Sequence[Subtopology], there: Counts) -> dict[str, int]:
    """Of repartition topics: what the application says, or else as many as the largest has that the subtopology reads
    which writes it. KafkaError(STREAMS_INVALID_TOPOLOGY) if that does not follow.

    What a subtopology reads may in turn be written by another one; those of a circle need one that is known.
    """
    counts = {topic.name: topic.partitions for sub in subtopologies for topic in sub.repartition_sources}
    counts = {name: count for name, count in counts.items() if count}
    readers: dict[str, list[int]] = {}
    for place, sub in enumerate(subtopologies):
        for topic in sub.repartition_sources:
            readers.setdefault(topic.name, []).append(place)
    waiting, sized = deque(range(len(subtopologies))), set[int]()
    while waiting:
        place = waiting.popleft()
        if place in sized:
            continue
        sub = subtopologies[place]
        known = [counts[topic.name] for topic in sub.repartition_sources if topic.name in counts]
        known += [there[name] for name in sub.source_topics if name in there]
        if not known:
            continue
        sized.add(place)
        for sink in sub.repartition_sinks:
            if sink not in counts:
                counts[sink] = max(known)
                waiting.extend(readers.get(sink, ()))
    _check_all_are_sized(subtopologies, counts)
    return counts


def _check_all_are_sized(subtopologies: Sequence[Subtopology], counts: Counts) -> None:
    sinks = {sink for sub in subtopologies for sink in sub.repartition_sinks}
    for name in [*sorted(sinks), *(topic.name for sub in subtopologies for topic in sub.repartition_sources)]:
        if name in counts:
            continue
        why = (
            "what it is made of comes from itself: give one topic of the circle a number of partitions"
            if name in sinks
            else "no subtopology writes to it"
        )
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"the partitions of repartition topic {name} do not follow: {why}"
        )


def copartition_counts(
    group: Iterable[str], repartitions: Mapping[str, InternalTopic], counts: Counts
) -> dict[str, int]:
    """Of the repartition topics among the topics of a copartition group. IncorrectlyPartitionedError.

    | what is in the group | the number of all |
    | --- | --- |
    | topics that are no repartition topics | theirs |
    | else, repartition topics for which the application gives a number | that |
    | else | the largest |

    Kafka looks at numbers given anywhere in the topology, as if all repartition topics were in each group; here, as in
    Kafka's own client of the classic protocol, those of the group count.
    """
    names = sorted(group)
    sizes = {name: counts[name] for name in names if name in repartitions}
    others = {name: counts[name] for name in names if name not in repartitions}
    fixed = {name: count for name, count in sizes.items() if repartitions[name].partitions}
    if not sizes and not others:
        return {}
    count = _same(others) if others else _same(fixed) if fixed else max(sizes.values())
    for name, own in fixed.items():
        if own != count:
            raise IncorrectlyPartitionedError(
                f"Repartition topic {name} has {own} partitions, and topics that are read together with it {count}"
            )
    return dict.fromkeys(sizes, count)


def _same(counts: Counts) -> int:
    if len(set(counts.values())) > 1:
        described = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise IncorrectlyPartitionedError(
            f"Topics that are read together have different numbers of partitions: {described}"
        )
    return next(iter(counts.values()))


def task_count(sub: Subtopology, counts: Counts) -> int:
    """One for each partition of the largest topic that it reads; so many partitions its changelogs have, too.
    KafkaError(STREAMS_INVALID_TOPOLOGY) if it reads none.
    """
    if not sub.inputs:
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"subtopology {sub.subtopology_id} reads no topic")
    return max(counts[name] for name in sub.inputs)
