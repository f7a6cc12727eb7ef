"""What one member may say at most, and that what it says is read in a time that grows with its length alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.unit.coordinator.group.streams.bench import Bench, topology
from tests.unit.coordinator.group.streams.test_topology import sub, topics

from penstock.coordinator.group.streams.requests import (
    MOST_TAGS,
    MOST_WORD_BYTES,
    said_by,
)
from penstock.coordinator.group.streams.sizing import repartition_counts
from penstock.coordinator.group.streams.topology import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MAX_CONFIGS,
    MAX_PARTS,
    MAX_TASKS,
    configure,
)
from penstock.coordinator.group.streams.values import InternalTopic, Topology
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import streams_group_heartbeat as messages
from penstock.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TaskOffset,
    TopicInfo,
)

STEPS: Final = 20
"""For each thing that is said."""
LONG: Final = "x" * (MOST_WORD_BYTES + 1)
CONFIG: Final = KeyValue(key="a", value="b")


def tagged(count: int, key: str = "k", value: str = "") -> dict[str, Any]:
    return {"client_tags": [KeyValue(key=f"{key}{number}", value=value) for number in range(count)]}


def read_by(*subtopologies: Subtopology) -> dict[str, Any]:
    return {"topology": messages.Topology(epoch=1, subtopologies=list(subtopologies))}


def one(**fields: Any) -> Subtopology:
    return Subtopology(subtopology_id="0", **({"source_topics": ["words"]} | fields))


TOO_MUCH: Final[dict[str, tuple[dict[str, Any], ErrorCode]]] = {
    "tags": (tagged(MOST_TAGS + 1), ErrorCode.INVALID_REQUEST),
    "the key of a tag": (tagged(1, LONG), ErrorCode.INVALID_REQUEST),
    "the value of a tag": (tagged(1, value=LONG), ErrorCode.INVALID_REQUEST),
    "a process": ({"process_id": LONG}, ErrorCode.INVALID_REQUEST),
    "a rack": ({"rack_id": LONG}, ErrorCode.INVALID_REQUEST),
    "an endpoint": (
        {"user_endpoint": StreamsGroupHeartbeatRequestEndpoint(host=LONG, port=1)},
        ErrorCode.INVALID_REQUEST,
    ),
    "topics": (read_by(one(source_topics=["words"] * MAX_PARTS)), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    "patterns": (read_by(one(source_topic_regex=["w"] * MAX_PARTS)), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    "copartition groups": (
        read_by(one(copartition_groups=[CopartitionGroup(source_topics=[0] * MAX_PARTS)])),
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
    "configs": (
        read_by(one(state_changelog_topics=[TopicInfo(name="log", topic_configs=[CONFIG] * (MAX_CONFIGS + 1))])),
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_is_too_much_is_refused_and_not_kept(what: str) -> None:
    bench = Bench()
    fields, code = TOO_MUCH[what]
    assert bench.join("a", **fields).error_code == code
    assert not bench.shard._table.groups


def test_what_is_not_too_much_is_taken() -> None:
    bench = Bench()
    configs = [CONFIG] * MAX_CONFIGS
    fields = tagged(MOST_TAGS) | read_by(one(source_topics=["words"] * (MAX_PARTS - 2), state_changelog_topics=[]))
    assert bench.join("a", **fields).error_code == ErrorCode.NONE
    bench = Bench()
    log = TopicInfo(name="log", topic_configs=configs)
    assert bench.join("a", **read_by(one(state_changelog_topics=[log]))).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["active_tasks", "task_offsets", "task_end_offsets"])
def test_more_tasks_than_a_group_has_are_refused_before_they_are_looked_at(name: str) -> None:
    bench = Bench()
    epoch = bench.join("a").member_epoch
    numbers = list(range(MAX_TASKS + 1))
    said: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    said[name] = [TaskOffset(subtopology_id="0", partition=number) for number in numbers]
    if name == "active_tasks":
        said[name] = [StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=numbers)]
    answer = bench.beat("a", epoch, **said)
    assert (answer.error_code, str(MAX_TASKS) in answer.error_message) == (ErrorCode.INVALID_REQUEST, True)


def test_a_topology_of_more_tasks_runs_none_and_creates_no_topics() -> None:
    wide = Topology(0, (sub("1", "s", changelogs=topics("log")), sub("2", "t")))
    assert configure(wide, {"s": MAX_TASKS - 1, "t": 1}.get).missing == (InternalTopic("log", MAX_TASKS - 1),)
    configured = configure(wide, {"s": MAX_TASKS, "t": 1}.get)
    assert (configured.status, configured.missing) == (INCORRECTLY_PARTITIONED_TOPICS, ())
    assert f"{MAX_TASKS + 1} tasks" in configured.detail


class _Topics(tuple[InternalTopic, ...]):
    """Counts how often they are looked through."""

    looks = 0

    def __iter__(self) -> Iterator[InternalTopic]:
        _Topics.looks += 1
        return super().__iter__()


def test_a_subtopology_that_reads_much_is_sized_once() -> None:
    count = 100
    names = [f"r{number}" for number in range(count)]
    reads = sub("1", repartition_sources=_Topics(topics(*names)))
    writes = sub("0", "source1", repartition_sinks=tuple(names))
    assert set(repartition_counts([writes, reads], {"source1": 3}).values()) == {3}
    assert _Topics.looks < STEPS


class _Number(int):
    """Counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        _Number.compared += 1
        return int(self) < other


def test_tasks_of_one_subtopology_may_be_said_one_by_one() -> None:
    count = 500
    each = [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=[_Number(number * 7 % count)])
        for number in range(count)
    ]
    roles = said_by(StreamsGroupHeartbeatRequest(active_tasks=[*each, *each], standby_tasks=[], warmup_tasks=[]))
    assert roles is not None
    assert roles.active == {"0": tuple(range(count))}
    assert _Number.compared < STEPS * count


def test_who_has_an_older_topology_creates_no_topics_that_another_member_named() -> None:
    bench = Bench()
    bench.join("a", topology=topology(2))
    assert [topic.name for topic in bench.heard["a"].missing] == ["by-word", "counts"]
    answer = bench.join("b", topology=topology(1))
    assert (answer.error_code, bench.statuses("b")[0], bench.heard["b"].missing) == (0, 0, ())
    bench.obey("b")
    assert bench.heard["b"].missing == ()
    bench.obey("a")
    assert len(bench.heard["a"].missing) == 2
