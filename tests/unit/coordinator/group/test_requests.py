"""What heartbeats of each kind are refused before anything is looked up: each rule alone, limits from both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.coordinator.group.streams.bench import tasks, topology

from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer import heartbeat as consumer_heartbeat
from penstock.coordinator.group.consumer import requests as consumers
from penstock.coordinator.group.share import requests as shares
from penstock.coordinator.group.streams import requests as streams
from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.coordinator.group.streams.group import Offsets
from penstock.coordinator.group.streams.topology import MAX_TASKS
from penstock.coordinator.group.streams.values import Member
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestTaskIds,
    TaskOffset,
)

OWNED = ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=UUID(int=1), partitions=[0])
MANY_BYTES = "é" * 16_383 + "x"
"""As many as a name may have."""

CONSUMER = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=1,
    topic_partitions=[],
    subscribed_topic_names=["a"],
)
SHARE = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["a"])
STREAMS = StreamsGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=1,
    topology=topology(),
    process_id="p",
    active_tasks=[],
    standby_tasks=[],
    warmup_tasks=[],
)


def refusal(check: Callable[[], object]) -> str:
    try:
        check()
    except KafkaError as error:
        return f"{error.code.name}: {error.message}"
    return ""


def too_long(name: str, most: int = 32_767) -> str:
    return f"INVALID_REQUEST: {name} has more than {most:,} bytes"


ROWS_OF_CONSUMERS: list[tuple[dict[str, Any], int, str]] = [
    ({}, 1, ""),
    ({"member_id": ""}, 0, ""),
    ({"member_id": ""}, 1, "INVALID_REQUEST: MemberId is empty"),
    ({"member_id": "", "member_epoch": 1}, 0, "INVALID_REQUEST: MemberId is empty"),
    ({"member_id": "", "member_epoch": -1}, 0, "INVALID_REQUEST: MemberId is empty"),
    ({"member_id": "", "member_epoch": -2, "instance_id": "i"}, 0, ""),
    ({"group_id": " "}, 1, "INVALID_REQUEST: GroupId is empty"),
    ({"instance_id": ""}, 1, "INVALID_REQUEST: InstanceId is empty"),
    ({"rack_id": " "}, 1, "INVALID_REQUEST: RackId is empty"),
    ({"subscribed_topic_regex": ""}, 1, ""),
    *(({name: MANY_BYTES}, 1, "") for name in consumers._BOUNDED),
    *(({name: MANY_BYTES + "x"}, 1, too_long(name)) for name in consumers._BOUNDED),
    ({"rebalance_timeout_ms": -1}, 1, "INVALID_REQUEST: RebalanceTimeoutMs is missing, where a member joins"),
    ({"rebalance_timeout_ms": -1, "member_epoch": 1}, 1, ""),
    ({"topic_partitions": None}, 1, "INVALID_REQUEST: TopicPartitions is not empty, where a member joins"),
    ({"topic_partitions": [OWNED]}, 1, "INVALID_REQUEST: TopicPartitions is not empty, where a member joins"),
    ({"topic_partitions": [OWNED], "member_epoch": 1}, 1, ""),
    (
        {"subscribed_topic_names": None},
        1,
        "INVALID_REQUEST: neither names nor an expression say what a member reads that joins",
    ),
    ({"subscribed_topic_names": None, "subscribed_topic_regex": "a"}, 1, ""),
    ({"subscribed_topic_names": []}, 1, ""),
    ({"member_epoch": -2}, 1, "INVALID_REQUEST: InstanceId is null, and only static members come back"),
    ({"member_epoch": -2, "instance_id": "i"}, 1, ""),
    ({"member_epoch": -1}, 1, ""),
    ({"member_epoch": -3, "instance_id": "i"}, 1, "INVALID_REQUEST: MemberEpoch is -3"),
    ({"subscribed_topic_names": ["a"] * 10_000}, 1, ""),
    (
        {"subscribed_topic_names": ["a"] * 10_001},
        1,
        "INVALID_REQUEST: a member names at most 10,000 topics, and may give an expression for more",
    ),
    ({"server_assignor": "range"}, 1, ""),
    ({"server_assignor": "other"}, 1, "UNSUPPORTED_ASSIGNOR: the assignor other is none of uniform, range"),
]


@pytest.mark.parametrize(("fields", "version", "refused"), ROWS_OF_CONSUMERS)
def test_of_consumers(fields: dict[str, Any], version: int, refused: str) -> None:
    request = CONSUMER.replace(**fields)
    assert refusal(lambda: consumers.check_request(request, version, ("uniform", "range"))) == refused


ROWS_OF_SHARES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"member_id": " "}, "INVALID_REQUEST: MemberId is empty"),
    ({"group_id": ""}, "INVALID_REQUEST: GroupId is empty"),
    ({"rack_id": ""}, "INVALID_REQUEST: RackId is empty"),
    ({"rack_id": None}, ""),
    *(({name: MANY_BYTES}, "") for name in ("member_id", "group_id", "rack_id")),
    ({"member_id": MANY_BYTES + "x"}, too_long("MemberId")),
    ({"group_id": MANY_BYTES + "x"}, too_long("GroupId")),
    ({"rack_id": MANY_BYTES + "x"}, too_long("RackId")),
    ({"subscribed_topic_names": None}, "INVALID_REQUEST: SubscribedTopicNames is missing, where a member joins"),
    ({"subscribed_topic_names": []}, "INVALID_REQUEST: SubscribedTopicNames is missing, where a member joins"),
    ({"subscribed_topic_names": None, "member_epoch": 1}, ""),
    ({"member_epoch": -1}, ""),
    ({"member_epoch": -2}, "INVALID_REQUEST: MemberEpoch is -2"),
    ({"subscribed_topic_names": ["a"] * 10_000}, ""),
    ({"subscribed_topic_names": ["a"] * 10_001}, "INVALID_REQUEST: a member names at most 10,000 topics"),
]


@pytest.mark.parametrize(("fields", "refused"), ROWS_OF_SHARES)
def test_of_shares(fields: dict[str, Any], refused: str) -> None:
    assert refusal(lambda: shares.check_request(SHARE.replace(**fields))) == refused


def ids(*counts: int) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=list(range(it))) for it in counts]


GOES_ON: dict[str, Any] = {"member_epoch": 1, "topology": None}
TASKS = {"ActiveTasks": "active_tasks", "StandbyTasks": "standby_tasks", "WarmupTasks": "warmup_tasks"}
LONG = "x" * 1_024
ROWS_OF_STREAMS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    *(({field: text}, f"INVALID_REQUEST: {name} is empty") for name, field, _ in streams._TEXTS for text in ("", " ")),
    *(({field: "x" * most}, "") for _, field, most in streams._TEXTS),
    *(({field: "x" * (most + 1)}, too_long(name, most)) for name, field, most in streams._TEXTS),
    ({"client_tags": [KeyValue(key=LONG, value=LONG)] * 20, "process_id": LONG}, ""),
    (
        {"client_tags": [KeyValue(key="k", value="v")] * 21},
        "INVALID_REQUEST: 21 ClientTags are more than the 20 that a member may have",
    ),
    ({"client_tags": [KeyValue(key=LONG + "x")]}, too_long("a key of ClientTags", 1_024)),
    ({"client_tags": [KeyValue(value=LONG + "x")]}, too_long("a value of ClientTags", 1_024)),
    ({"process_id": LONG + "x"}, too_long("ProcessId", 1_024)),
    ({"user_endpoint": StreamsGroupHeartbeatRequestEndpoint(host=LONG)}, ""),
    (
        {"user_endpoint": StreamsGroupHeartbeatRequestEndpoint(host=LONG + "x")},
        too_long("the host of UserEndpoint", 1_024),
    ),
    ({"rebalance_timeout_ms": -1}, "INVALID_REQUEST: RebalanceTimeoutMs is missing, where a member joins"),
    ({"topology": None}, "INVALID_REQUEST: Topology is missing, where a member joins"),
    *(
        ({field: tasks(s0=[1])}, f"INVALID_REQUEST: {name} is not empty, where a member joins")
        for name, field in TASKS.items()
    ),
    (GOES_ON, ""),
    ({"member_epoch": 1}, "INVALID_REQUEST: Topology is only to be told where a member joins"),
    (GOES_ON | {"rebalance_timeout_ms": -1}, ""),
    (
        GOES_ON | {"member_epoch": -2},
        "INVALID_REQUEST: InstanceId is null, and only static members come back",
    ),
    (GOES_ON | {"member_epoch": -2, "instance_id": "i"}, ""),
    (GOES_ON | {"member_epoch": -1}, ""),
    (GOES_ON | {"member_epoch": -3, "instance_id": "i"}, "INVALID_REQUEST: MemberEpoch is -3"),
    *(
        (GOES_ON | {field: None}, "INVALID_REQUEST: a member says of all kinds of tasks what it has, or of none")
        for field in TASKS.values()
    ),
    (GOES_ON | dict.fromkeys(TASKS.values()), ""),
    *((GOES_ON | {field: ids(MAX_TASKS - 1, 1)}, "") for field in TASKS.values()),
    *(
        (
            GOES_ON | {field: said},
            f"INVALID_REQUEST: {name} has more tasks than the {MAX_TASKS} that a group may have",
        )
        for name, field in TASKS.items()
        for said in (ids(MAX_TASKS, 1), ids(*[0] * (MAX_TASKS + 1)))
    ),
    *(
        (
            GOES_ON | {field: [TaskOffset()] * count},
            ""
            if count == MAX_TASKS
            else f"INVALID_REQUEST: {name} has more tasks than the {MAX_TASKS} that a group may have",
        )
        for name, field in streams._OFFSETS
        for count in (MAX_TASKS, MAX_TASKS + 1)
    ),
]


@pytest.mark.parametrize(
    ("fields", "refused"), ROWS_OF_STREAMS, ids=[f"{at}: {refused}" for at, (_, refused) in enumerate(ROWS_OF_STREAMS)]
)
def test_of_streams(fields: dict[str, Any], refused: str) -> None:
    assert refusal(lambda: streams.check_request(STREAMS.replace(**fields))) == refused


@pytest.mark.parametrize(
    ("fields", "is_full"),
    [
        ({}, True),
        ({"member_epoch": 5}, True),
        ({"rebalance_timeout_ms": -1}, False),
        ({"rebalance_timeout_ms": 0}, True),
        ({"subscribed_topic_names": None}, False),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "a"}, True),
        ({"topic_partitions": None}, False),
    ],
)
def test_who_says_all_of_itself_is_told_all(fields: dict[str, Any], is_full: bool) -> None:
    assert consumer_heartbeat._is_full(CONSUMER.replace(**fields)) is is_full


# -- what a member of a streams group says ----------------------------------------------------------------------------

BEFORE = Member("i", "r", "client", "/host", 7, 3, "p", ("host", 1), (("k", "v"),))
CALLER = Caller("other", "/elsewhere", 1)


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({}, {}),
        ({"instance_id": "j"}, {"instance_id": "j"}),
        ({"rack_id": "s"}, {"rack_id": "s"}),
        ({"rebalance_timeout_ms": 9}, {"rebalance_timeout_ms": 9}),
        ({"topology": topology(5)}, {"topology_epoch": 5}),
        ({"process_id": "q"}, {"process_id": "q"}),
        ({"user_endpoint": StreamsGroupHeartbeatRequestEndpoint(host="h", port=2)}, {"endpoint": ("h", 2)}),
        ({"client_tags": [KeyValue(key="b", value="1"), KeyValue(key="a", value="2")]},
         {"tags": (("a", "2"), ("b", "1"))}),
        ({"client_tags": []}, {"tags": ()}),
        ({"member_epoch": 0}, {"endpoint": None}),
    ],
)  # fmt: skip
def test_what_a_member_leaves_out_stays_as_it_was(fields: dict[str, Any], changes: dict[str, Any]) -> None:
    request = StreamsGroupHeartbeatRequest(member_epoch=4).replace(**fields)
    expected = BEFORE.replace(client_id="other", client_host="/elsewhere", **changes)
    assert streams.member_said_by(request, BEFORE, CALLER) == expected


@pytest.mark.parametrize(
    ("partition", "refused"),
    [
        (0, ""),
        (1, ""),
        (2, "subtopology 0 has 2 tasks, and no task 2"),
        (-1, "subtopology 0 has 2 tasks, and no task -1"),
    ],
)
@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
def test_there_have_to_be_such_tasks(role: str, partition: int, refused: str) -> None:
    said = Roles().replace(**{role: {"0": (partition,)}})
    expected = f"INVALID_REQUEST: {refused}" if refused else ""
    assert refusal(lambda: streams.check_tasks(said, {"0": 2})) == expected
    other = Roles().replace(**{role: {"1": (0,)}})
    assert refusal(lambda: streams.check_tasks(other, {"0": 2})) == "INVALID_REQUEST: the topology has no subtopology 1"
    streams.check_tasks(None, {})


def test_offsets_of_tasks_that_there_are_not_are_left_out_and_what_is_not_said_stays() -> None:
    def offset(partition: int, value: int, name: str = "0") -> TaskOffset:
        return TaskOffset(subtopology_id=name, partition=partition, offset=value)

    before, counts = Offsets({("0", 0): 1}, {("0", 0): 2}), {"0": 2}
    request = StreamsGroupHeartbeatRequest()
    assert streams.offsets_said_by(request, before, counts) == before
    said = [offset(-1, 5), offset(0, 6), offset(1, 7), offset(2, 8), offset(0, 9, "1")]
    found = {("0", 0): 6, ("0", 1): 7}
    assert streams.offsets_said_by(request.replace(task_offsets=said), before, counts) == before.replace(reached=found)
    assert streams.offsets_said_by(request.replace(task_end_offsets=said), before, counts) == before.replace(ends=found)
    twice = request.replace(task_offsets=[offset(1, 1), offset(1, 1)])
    expected = "INVALID_REQUEST: two offsets are told of task 0_1"
    assert refusal(lambda: streams.offsets_said_by(twice, before, counts)) == expected


def test_what_a_member_has_is_known_if_it_says_it_of_all_roles() -> None:
    request = StreamsGroupHeartbeatRequest(
        active_tasks=tasks(s0=[1, 0, 1]), standby_tasks=[], warmup_tasks=tasks(s1=[])
    )
    assert streams.said_by(request) == Roles({"0": (0, 1)}, {}, {})
    for field in TASKS.values():
        assert streams.said_by(request.replace(**{field: None})) is None
