"""What each call about topics asks, field by field, and what pages of topics are made of."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.client.admin.topics import EligibleLeaders, NewTopic, TopicAdmin
from penstock.client.errors import ConnectionFailedError, ProtocolViolationError
from penstock.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

ANSWERS: dict[type, Callable[[int], Any]] = {
    CreateTopicsRequest: lambda code: CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code)]),
    DeleteTopicsRequest: lambda code: DeleteTopicsResponse(responses=[DeletableTopicResult(name="t", error_code=code)]),
    CreatePartitionsRequest: lambda code: CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name="t", error_code=code)]
    ),
}


class Cluster:
    """What may pass is tried once more."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(request_timeout_ms=1_234)
        self.codes: list[int] = []
        self.pages: list[DescribeTopicPartitionsResponse] = []
        self.asked: list[Any] = []
        self.known: list[ClusterMetadata] = []

    async def to_controller(self, request: Any, answer: type[Any]) -> Any:
        self.asked.append(request)
        return ANSWERS[type(request)](self.codes.pop(0) if self.codes else 0)

    async def to_any(self, request: DescribeTopicPartitionsRequest, answer: type[Any]) -> Any:
        cursor = request.cursor
        self.asked.append(
            (
                [one.name for one in request.topics],
                request.response_partition_limit,
                cursor and (cursor.topic_name, cursor.partition_index),
            )
        )
        return self.pages.pop(0)

    async def to_node(self, node_id: int, request: Any, answer: type[Any]) -> Any:
        self.asked.append((node_id, request))
        rows = [
            DeleteRecordsPartitionResult(partition_index=0, low_watermark=5),
            DeleteRecordsPartitionResult(partition_index=1, low_watermark=9, error_code=self.codes.pop(0)),
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=rows)])

    async def refresh(self, names: Any = None) -> ClusterMetadata:
        self.asked.append(names)
        return self.known.pop(0)

    async def retrying(self, attempt: Callable[[], Any]) -> Any:
        try:
            return await attempt()
        except ConnectionFailedError:
            return await attempt()
        except KafkaError as error:
            if not error.retriable:
                raise
            return await attempt()


def admin() -> tuple[TopicAdmin, Cluster]:
    cluster = Cluster()
    return TopicAdmin(cluster), cluster  # type: ignore[arg-type]


def topic(name: str, *leaders: int, error: ErrorCode = ErrorCode.NONE, internal: bool = False) -> TopicMetadata:
    rows = {
        number: PartitionMetadata(name, number, leader, 0, [], [], [], ErrorCode.NONE)
        for number, leader in enumerate(leaders)
    }
    return TopicMetadata(name, UUID(int=1), internal, error, rows)


def knowing(*topics: TopicMetadata) -> ClusterMetadata:
    return ClusterMetadata(topics={one.name: one for one in topics})


# -- changes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("assigned", [False, True])
async def test_what_is_created(*, validate_only: bool, assigned: bool) -> None:
    made, cluster = admin()
    nodes = {0: (1, 2), 1: (2,)} if assigned else {}
    new = NewTopic(name="t", partitions=3, replication_factor=2, configs={"a": "b"}, assignments=nodes)
    await made.create(new, validate_only=validate_only)
    (request,) = cluster.asked
    (row,) = request.topics
    assert (request.timeout_ms, request.validate_only, row.name) == (1_234, validate_only, "t")
    assert (row.num_partitions, row.replication_factor) == ((-1, -1) if assigned else (3, 2))
    told = {one.partition_index: one.broker_ids for one in row.assignments}
    assert told == ({0: [1, 2], 1: [2]} if assigned else {})
    assert [(one.name, one.value) for one in row.configs] == [("a", "b")]
    assert (NewTopic(name="t").partitions, NewTopic(name="t").replication_factor) == (-1, -1)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("nodes", [None, [(1, 2), (3,)]])
async def test_what_is_added(nodes: Any, *, validate_only: bool) -> None:
    made, cluster = admin()
    await made.create_partitions("t", 5, assignments=nodes, validate_only=validate_only)
    (request,) = cluster.asked
    (row,) = request.topics
    assert (request.timeout_ms, request.validate_only, row.name, row.count) == (1_234, validate_only, "t", 5)
    told = None if row.assignments is None else [one.broker_ids for one in row.assignments]
    assert told == (None if nodes is None else [[1, 2], [3]])


async def test_what_is_deleted() -> None:
    made, cluster = admin()
    await made.delete("t")
    (request,) = cluster.asked
    named = [one.name for one in request.topics]
    assert (named, request.topic_names, request.timeout_ms) == (["t"], ["t"], 1_234)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "TOPIC_AUTHORIZATION_FAILED: topic 't'$"),
        (ErrorCode.TOPIC_ALREADY_EXISTS, "TOPIC_ALREADY_EXISTS: topic 't'$"),
    ],
)
async def test_a_refusal_is_told(code: ErrorCode, text: str) -> None:
    made, cluster = admin()
    changes: list[Callable[[], Any]] = [
        lambda: made.create(NewTopic(name="t")),
        lambda: made.create_partitions("t", 2),
        lambda: made.delete("t"),
    ]
    for change in changes:
        cluster.codes = [code]
        with pytest.raises(KafkaError, match=text):
            await change()
    cluster.codes = [code]
    if code is ErrorCode.TOPIC_ALREADY_EXISTS:
        await made.create_unless_there(NewTopic(name="t"))
    else:
        with pytest.raises(KafkaError, match=text):
            await made.create_unless_there(NewTopic(name="t"))
    cluster.codes = [ErrorCode.NOT_CONTROLLER]
    await made.delete("t")
    assert len(cluster.asked) == 6, "that one passes, and is asked again"


async def test_what_is_not_there_is_said_so() -> None:
    made, cluster = admin()
    cluster.codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: topic 't' does not exist"):
        await made.delete("t")


@pytest.mark.parametrize("code", [0, ErrorCode.OFFSET_OUT_OF_RANGE])
async def test_what_is_cut_off(code: int) -> None:
    made, cluster = admin()
    cluster.codes = [code]
    places = {TopicPartition("t", 0): 3, TopicPartition("t", 1): -1}
    found, refused = await made._delete_at(7, places)
    ((node_id, request),) = cluster.asked
    told = [(row.partition_index, row.offset) for one in request.topics for row in one.partitions]
    assert (node_id, request.timeout_ms, told) == (7, 1_234, [(0, 3), (1, -1)])
    assert found == {TopicPartition("t", 0): 5} | ({} if code else {TopicPartition("t", 1): 9})
    words = {place: str(error) for place, error in refused.items()}
    assert words == ({TopicPartition("t", 1): "OFFSET_OUT_OF_RANGE: records of t-1"} if code else {})


# -- what is there ----------------------------------------------------------------------------------------------------


async def test_names_and_descriptions_are_sorted() -> None:
    made, cluster = admin()
    all_of_them = knowing(topic("b", 1), topic("in", 1, internal=True), topic("a", 1))
    cluster.known = [all_of_them] * 4
    assert await made.names() == ["a", "b", "in"]
    assert await made.names(include_internal=False) == ["a", "b"]
    assert [one.name for one in await made.describe()] == ["a", "b", "in"]
    assert [one.name for one in await made.describe(["in", "a"])] == ["a", "in"]
    assert cluster.asked == [None, None, None, ["in", "a"]]


@pytest.mark.parametrize(
    "first", [knowing(), knowing(topic("t", 1, -1)), knowing(topic("t", error=ErrorCode.LEADER_NOT_AVAILABLE))]
)
async def test_a_topic_is_waited_for_until_it_is_led(first: ClusterMetadata) -> None:
    made, cluster = admin()
    cluster.known = [first, knowing(topic("t", 0, 1))]
    assert await made.wait_until_led("t") == topic("t", 0, 1)
    assert cluster.asked == [["t"], ["t"]]


# -- pages ------------------------------------------------------------------------------------------------------------


def page(rest: tuple[str, int] | None, *rows: tuple[str, list[int]], ids: int = 1) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=UUID(int=ids),
                partitions=[
                    DescribeTopicPartitionsResponsePartition(
                        partition_index=number, eligible_leader_replicas=None if number else [8], last_known_elr=None
                    )
                    for number in numbers
                ],
            )
            for name, numbers in rows
        ],
        next_cursor=None
        if rest is None
        else DescribeTopicPartitionsResponseCursor(topic_name=rest[0], partition_index=rest[1]),
    )


async def paged(*answers: DescribeTopicPartitionsResponse) -> tuple[list[dict[str, list[int]]], list[Any]]:
    made, cluster = admin()
    cluster.pages = list(answers)
    found = [{one.name: list(one.partitions) for one in some} async for some in made.pages(4)]
    return found, [asked[2] for asked in cluster.asked]


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([page(None, ("a", [0]))], [{"a": [0]}]),
        ([page(("b", 0), ("a", [0])), page(None, ("b", [0]))], [{"a": [0]}, {"b": [0]}]),
        ([page(("b", 1), ("a", [0]), ("b", [0])), page(None, ("b", [1]))], [{"a": [0]}, {"b": [0, 1]}]),
        (
            [page(("b", 1), ("b", [0])), page(("b", 2), ("b", [1])), page(None, ("b", [2]), ("c", [0]))],
            [{}, {}, {"b": [0, 1, 2], "c": [0]}],
        ),
        ([page(("b", 1), ("b", [0])), page(None, ("b", [1]), ("c", [0]), ids=2)], [{}, {"c": [0]}]),
        ([page(("b", 1), ("a", [0])), page(None, ("b", [1]))], [{"a": [0]}, {}]),
        ([page(("b", 1), ("b", [0])), page(None, ("c", [0]))], [{}, {"c": [0]}]),
        ([page(("b", 1), ("b", [0])), page(None)], [{}, {}]),
    ],
)
async def test_topics_that_are_cut_between_pages_are_whole_or_left_out(answers: Any, found: Any) -> None:
    cursors = [None, *((one.next_cursor.topic_name, one.next_cursor.partition_index) for one in answers[:-1])]
    assert await paged(*answers) == (found, cursors)


@pytest.mark.parametrize("second", [("b", 1), ("b", 0), ("a", 9)])
async def test_pages_go_on(second: tuple[str, int]) -> None:
    with pytest.raises(ProtocolViolationError, match="the topics behind 'b' have no end"):
        await paged(page(("b", 1), ("b", [0])), page(second, ("b", [1])), page(None))


async def test_the_first_ones_are_whole() -> None:
    made, cluster = admin()
    for rest, names, is_all in (
        (None, ["a", "b"], True),
        (("b", 1), ["a"], False),
        (("c", 0), ["a", "b"], False),
        (("b", 0), ["a", "b"], False),
    ):
        cluster.pages = [page(rest, ("a", [0]), ("b", [0]))]
        found, told = await made.first(9)
        assert ([one.name for one in found], told) == (names, is_all)
    assert cluster.asked == [([], 9, None)] * 4


async def test_eligible_leaders_are_of_all_pages() -> None:
    made, cluster = admin()
    cluster.pages = [page(("t", 1), ("t", [0])), page(None, ("t", [1]))]
    found = await made.eligible_leaders(["t"])
    assert found == {TopicPartition("t", number): EligibleLeaders([] if number else [8], []) for number in (0, 1)}
    assert [(names, cursor) for names, _, cursor in cluster.asked] == [(["t"], None), (["t"], ("t", 1))]
