"""What becomes of a topology with the topics that are there: rows are cases of Kafka's tests of the same rules."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from penstock.coordinator.group.streams.sizing import (
    IncorrectlyPartitionedError,
    copartition_counts,
    repartition_counts,
    task_count,
)
from penstock.coordinator.group.streams.topology import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    Configured,
    check,
    configure,
)
from penstock.coordinator.group.streams.values import Copartition, InternalTopic, Subtopology, Topology
from penstock.protocol.errors import ErrorCode, KafkaError

Counts = Mapping[str, int]
NO_TOPICS: Final[Counts] = {}


def topics(*named: str | tuple[str, int]) -> tuple[InternalTopic, ...]:
    return tuple(InternalTopic(*((one,) if isinstance(one, str) else one)) for one in named)


def sub(name: str, *sources: str, **fields: Any) -> Subtopology:
    return Subtopology(name, sources, **fields)


# -- repartition topics -----------------------------------------------------------------------------------------------

SOURCES: Final = {"source1": 3, "source2": 3}
REPARTITIONS: Final[dict[str, tuple[list[Subtopology], dict[str, int]]]] = {
    "as many as the application says": (
        [
            sub("1", "source1", "source2", repartition_sinks=("r1",)),
            sub("2", repartition_sources=topics(("r1", 4))),
        ],
        {"r1": 4},
    ),
    "as many as the topic that is read": (
        [
            sub("0", "source1", repartition_sinks=("r1", "r"), repartition_sources=topics(("r2", 2))),
            sub("1", repartition_sources=topics(("r1", 4), "r")),
        ],
        {"r1": 4, "r2": 2, "r": 3},
    ),
    "as many as the repartition topic that is read": (
        [
            sub("0", "source1", repartition_sources=topics(("r1", 4)), repartition_sinks=("r",)),
            sub("1", repartition_sources=topics("r"), repartition_sinks=("r1",)),
        ],
        {"r1": 4, "r": 4},
    ),
    "none at all": ([sub("0", "source1")], {}),
    "a chain, in the other order": (
        [
            sub("0", repartition_sources=topics("r2")),
            sub("1", repartition_sources=topics("r1"), repartition_sinks=("r2",)),
            sub("2", "source1", repartition_sinks=("r1",)),
        ],
        {"r1": 3, "r2": 3},
    ),
}
UNSIZED: Final[dict[str, tuple[list[Subtopology], str]]] = {
    "a circle": (
        [sub("1", repartition_sources=topics("r"), repartition_sinks=("r",))],
        "give one topic of the circle",
    ),
    "nothing writes to it": ([sub("1", repartition_sources=topics("r"))], "no subtopology writes"),
}


@pytest.mark.parametrize("name", REPARTITIONS)
def test_partitions_of_repartition_topics(name: str) -> None:
    subtopologies, expected = REPARTITIONS[name]
    assert repartition_counts(subtopologies, SOURCES) == expected


@pytest.mark.parametrize("name", UNSIZED)
def test_repartition_topics_without_a_number(name: str) -> None:
    subtopologies, text = UNSIZED[name]
    with pytest.raises(KafkaError, match=text) as caught:
        repartition_counts(subtopologies, SOURCES)
    assert caught.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_long_chain_takes_as_many_steps_as_it_has_links() -> None:
    links = 20_000
    chain = [
        sub(str(link), repartition_sources=topics(f"r{link + 1}"), repartition_sinks=(f"r{link}",))
        for link in range(links)
    ]
    end = sub("end", "source1", repartition_sinks=(f"r{links}",))
    start = sub("start", repartition_sources=topics("r0"))
    assert repartition_counts([start, *chain, end], SOURCES)["r0"] == 3


# -- topics that are read together ------------------------------------------------------------------------------------

TOGETHER: Final[dict[str, tuple[Counts, tuple[InternalTopic, ...], Counts | str]]] = {
    "sources differ": ({"s1": 2, "s2": 1}, (), "s1 2, s2 1"),
    "as many as the sources": ({"s1": 2, "s2": 2, "r1": 10}, topics("r1"), {"r1": 2}),
    "as many as the largest": (
        {"r1": 1, "r2": 15, "r3": 5},
        topics("r1", "r2", "r3"),
        {"r1": 15, "r2": 15, "r3": 15},
    ),
    "given numbers differ": ({"r1": 10, "r2": 5}, topics(("r1", 10), ("r2", 5)), "r1 10, r2 5"),
    "all the same": ({"r1": 10, "r2": 10}, topics("r1", "r2"), {"r1": 10, "r2": 10}),
    "a given number and a source differ": ({"r1": 10, "s1": 2}, topics(("r1", 10)), "r1 has 10 partitions.* with it 2"),
    "as the source": ({"r1": 2, "s1": 2}, topics("r1"), {"r1": 2}),
    "a given number and a source are the same": ({"r1": 2, "s1": 2}, topics(("r1", 2)), {"r1": 2}),
    "as the given number": (
        {"r1": 2, "r2": 5, "r3": 2},
        topics(("r1", 2), "r2", ("r3", 2)),
        {"r1": 2, "r2": 2, "r3": 2},
    ),
    "a number given elsewhere does not count": ({"r1": 4, "r2": 3}, topics("r1", "r2", ("r9", 7)), {"r1": 4, "r2": 4}),
    "nothing": ({}, (), {}),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_topics_that_are_read_together(name: str) -> None:
    counts, repartitions, expected = TOGETHER[name]
    by_name = {topic.name: topic for topic in repartitions}
    if isinstance(expected, str):
        with pytest.raises(IncorrectlyPartitionedError, match=expected):
            copartition_counts(counts, by_name, counts)
    else:
        assert copartition_counts(counts, by_name, counts) == expected


# -- changelogs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subtopology", "tasks"),
    [
        (sub("1", repartition_sources=topics("r")), 2),
        (sub("1", "s"), 3),
        (sub("1", "s", "t", repartition_sources=topics("r")), 5),
    ],
)
def test_a_subtopology_has_a_task_for_each_partition_of_its_largest_topic(subtopology: Subtopology, tasks: int) -> None:
    assert task_count(subtopology, {"r": 2, "s": 3, "t": 5}) == tasks


CHANGELOGS: Final[dict[str, tuple[tuple[InternalTopic, ...], Counts]]] = {
    "none without state": ((), {}),
    "one of its own": (topics("log"), {"log": 3}),
    "a source": (topics("source"), {"source": 3}),
    "both": (topics("source", "log"), {"source": 3, "log": 3}),
}


@pytest.mark.parametrize("name", CHANGELOGS)
def test_changelogs_have_a_partition_for_each_task(name: str) -> None:
    changelogs, expected = CHANGELOGS[name]
    one = sub("1", "source", repartition_sources=topics(("r", 3)), changelogs=changelogs)
    configured = configure(Topology(0, (one,)), {"source": 3}.get)
    assert configured.topology is not None
    assert {topic.name: topic.partitions for topic in configured.topology.subtopologies[0].changelogs} == expected


# -- all in all -------------------------------------------------------------------------------------------------------

COMPACT: Final = (("cleanup.policy", "compact"),)
FIRST: Final = sub("1", "source1", repartition_sinks=("r",), changelogs=(InternalTopic("log1", configs=COMPACT),))
SECOND: Final = sub(
    "2",
    "source2",
    repartition_sources=(InternalTopic("r", replication_factor=3),),
    changelogs=topics("log2"),
    copartition_groups=(Copartition((0,), (), (0,)),),
)
TOPOLOGY: Final = Topology(3, (FIRST, SECOND))
LOG1: Final = InternalTopic("log1", 2, 0, COMPACT)
R: Final = InternalTopic("r", 2, 3)
DECIDED: Final = Topology(
    3,
    (
        FIRST.replace(changelogs=(LOG1,)),
        SECOND.replace(changelogs=topics(("log2", 2)), repartition_sources=(R,)),
    ),
)
TASKS: Final = {"1": 2, "2": 2}
THERE: Final = {"source1": 2, "source2": 2}
READY: Final = Configured(TASKS, DECIDED)
CONFIGURED: Final[dict[str, tuple[Counts, Configured]]] = {
    "a source is missing": (
        {"source1": 2},
        Configured(status=MISSING_SOURCE_TOPICS, detail="Source topics are missing: source2"),
    ),
    "topics are to be created": (
        {**THERE, "log2": 2},
        READY.replace(missing=(LOG1, R), status=MISSING_INTERNAL_TOPICS, detail="Internal topics are missing: log1, r"),
    ),
    "all is there": ({**THERE, "log1": 2, "log2": 2, "r": 2}, READY),
    "a changelog has too few": (
        {**THERE, "log1": 1, "log2": 2, "r": 2},
        Configured(
            status=INCORRECTLY_PARTITIONED_TOPICS,
            detail="Topic log1 has 1 partitions, and needs 2, as what it is made of",
        ),
    ),
    "a source and the repartition topic that is read with it differ": (
        {"source1": 2, "source2": 4, "log1": 2, "log2": 4, "r": 2},
        Configured(
            status=INCORRECTLY_PARTITIONED_TOPICS, detail="Topic r has 2 partitions, and needs 4, as what it is made of"
        ),
    ),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_topology_with_the_topics_that_are_there(name: str) -> None:
    there, expected = CONFIGURED[name]
    configured = configure(TOPOLOGY, there.get)
    assert configured == expected
    assert configured.is_ready == (expected == READY)


def test_a_status_names_some_topics_and_counts_the_others() -> None:
    configured = configure(Topology(0, (sub("1", "e", "d", "c", "b", "a"),)), NO_TOPICS.get)
    assert configured.detail == "Source topics are missing: a, b, c and 2 more"


WRONG: Final = {
    "two of one id": ((sub("1", "s"), sub("1", "t")), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    "a pattern": ((sub("1", source_topic_regex=("s.*",)),), ErrorCode.INVALID_REQUEST),
    "a changelog with a number": ((sub("1", "s", changelogs=topics(("log", 2))),), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    "a number below zero": (
        (sub("1", "s", repartition_sources=topics(("r", -1))),),
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
    "no name for a topic": ((sub("1", "s", changelogs=topics("no topic")),), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a copartition group of a topic that it has not": (
        (sub("1", "s", copartition_groups=(Copartition((1,)),)),),
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
    "a copartition group of a place below zero": (
        (sub("1", "s", copartition_groups=(Copartition((-1,)),)),),
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_topologies_that_no_cluster_makes_right(name: str) -> None:
    subtopologies, code = WRONG[name]
    with pytest.raises(KafkaError) as caught:
        check(Topology(0, subtopologies))
    assert caught.value.code == code


def test_a_subtopology_that_reads_nothing() -> None:
    check(Topology(0, (sub("1"),)))
    with pytest.raises(KafkaError, match="subtopology 1 reads no topic"):
        configure(Topology(0, (sub("1"),)), NO_TOPICS.get)


def test_a_good_topology_passes() -> None:
    check(TOPOLOGY)
    assert TOPOLOGY.required_topics == ("log1", "log2", "r", "source1", "source2")
    assert TOPOLOGY.source_of == {"source1": "1", "source2": "2", "r": "2"}
