"""What clients are told that lack a right: Kafka's errors, and nothing that they may not know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest
from tests.unit.node.api.asked import Recording
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode
from tests.unit.node.on_disk import PEER, TOPIC_ID, Node, batch, node_on, topic_records

from penstock.node.serving.access import Authorizer
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.node.serving.handler import load_handlers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.framing import api_of_request, decode_response, encode_request
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID

SECRETS_ID = UUID(int=9)
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
AnswerT = TypeVar("AnswerT", bound=Message)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Topics "orders" and "secrets"."""
    with node_on(tmp_path, *topic_records(), *topic_records("secrets", topic_id=SECRETS_ID)) as node:
        yield node


def without(node: Node, *refuses: str, everything: bool = False) -> Recording:
    """From now on these rights are missing."""
    authorizer = Recording(*refuses, everything=everything)
    node.broker.authorizer = authorizer
    node.dispatcher = Dispatcher(node.broker)
    return authorizer


def told(node: Node, request: Message, version: int, answer: type[AnswerT]) -> AnswerT:
    found = node.ask(request, version)
    assert isinstance(found, answer)
    return found


# records


def produce_to(
    *topics: str | UUID, transactional_id: str | None = None, records: bytes = batch(b"one")
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic if isinstance(topic, str) else "",
                topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                partition_data=[PartitionProduceData(index=0, records=records)],
            )
            for topic in topics
        ],
    )


def produced(node: Node, request: ProduceRequest, version: int) -> list[int]:
    answer = told(node, request, version, ProduceResponse)
    return [topic.partition_responses[0].error_code for topic in answer.responses]


def test_records_are_appended_to_the_topics_alone_that_one_may_write_to(node: Node) -> None:
    authorizer = without(node, "WRITE TOPIC secrets", "WRITE TOPIC nowhere")
    by_name = produce_to("orders", "secrets", "nowhere", "unknown")
    assert produced(node, by_name, 12) == [0, NO_TOPIC, NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert authorizer.asked == [f"WRITE TOPIC {name}" for name in ("orders", "secrets", "nowhere", "unknown")]
    assert produced(node, produce_to(TOPIC_ID, SECRETS_ID, UUID(int=99)), 13) == [
        0,
        NO_TOPIC,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert node.partition("orders").log.log_end_offset == 2
    assert node.partition("secrets").log.log_end_offset == 0


IN_TRANSACTION = bytes(
    encode_batch(
        [Record(0, 0, None, b"one", [])], producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True
    )
)


def test_records_of_a_transaction_need_its_id(node: Node) -> None:
    authorizer = without(node, "WRITE TRANSACTIONAL_ID payments")
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    asked = produce_to("orders", "secrets", transactional_id="payments", records=IN_TRANSACTION)
    assert produced(node, asked, 12) == [refused, refused]
    assert authorizer.asked == ["WRITE TRANSACTIONAL_ID payments"]


def test_one_batch_of_a_transaction_without_an_id_is_the_end_of_all(node: Node) -> None:
    mixed = produce_to("orders", "secrets")
    mixed.topic_data[1].partition_data[0].records = IN_TRANSACTION
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produced(node, mixed, 12) == [refused, refused]
    assert node.partition("orders").log.log_end_offset == 0
    authorizer = without(node)
    assert produced(node, produce_to("orders", transactional_id="payments"), 12) == [0], "nothing is in a transaction"
    assert authorizer.asked == ["WRITE TOPIC orders"]


def test_rights_come_before_what_is_wrong_with_a_request(node: Node) -> None:
    without(node, "WRITE TOPIC secrets")
    request = produce_to("orders", "secrets").replace(acks=7)
    assert produced(node, request, 12) == [ErrorCode.INVALID_REQUIRED_ACKS, NO_TOPIC]


def fetch_of(*topics: str | UUID, replica_id: int = -1) -> FetchRequest:
    return FetchRequest(
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
        max_wait_ms=0,
        topics=[
            FetchTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                partitions=[FetchPartition(partition=0, partition_max_bytes=1000)],
            )
            for topic in topics
        ],
    )


def fetched(node: Node, request: FetchRequest, version: int) -> list[tuple[int, bool]]:
    answer = told(node, request, version, FetchResponse)
    return [(part.error_code, bool(part.records)) for topic in answer.responses for part in topic.partitions]


def test_consumers_get_the_records_alone_that_they_may_read(node: Node) -> None:
    node.produce(b"one")
    node.produce(b"one", topic="secrets")
    authorizer = without(node, "READ TOPIC secrets", "READ TOPIC nowhere")
    assert fetched(node, fetch_of("orders", "secrets", "nowhere"), 12) == [
        (0, True),
        (NO_TOPIC, False),
        (NO_TOPIC, False),
    ]
    assert authorizer.asked == [f"READ TOPIC {name}" for name in ("orders", "secrets", "nowhere")]
    by_id = fetched(node, fetch_of(TOPIC_ID, SECRETS_ID, UUID(int=99)), 17)
    assert by_id == [(0, True), (NO_TOPIC, False), (ErrorCode.UNKNOWN_TOPIC_ID, False)]


# metadata


def described(answer: MetadataResponse) -> list[tuple[str | None, UUID, int, int]]:
    return [(topic.name, topic.topic_id, topic.error_code, len(topic.partitions)) for topic in answer.topics]


@pytest.mark.parametrize("version", [0, 1, 13])
def test_of_all_topics_those_are_left_out_that_one_may_not_know_of(node: Node, version: int) -> None:
    without(node, "DESCRIBE TOPIC secrets")
    everything = MetadataRequest(topics=[] if version == 0 else None)
    assert [topic.name for topic in told(node, everything, version, MetadataResponse).topics] == ["orders"]
    without(node, everything=True)
    assert told(node, everything, version, MetadataResponse).topics == []


@pytest.mark.parametrize("version", [0, 1, 13])
def test_of_named_topics_no_more_is_told_than_was_asked(node: Node, version: int) -> None:
    without(node, "DESCRIBE TOPIC secrets", "DESCRIBE TOPIC nowhere")
    named = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("orders", "secrets", "nowhere")])
    seen = described(told(node, named, version, MetadataResponse))
    assert seen[1:] == [("secrets", ZERO_UUID, NO_TOPIC, 0), ("nowhere", ZERO_UUID, NO_TOPIC, 0)]
    assert seen[0][2:] == (0, 1)


def test_a_topic_is_created_for_who_may_create_it(node: Node) -> None:
    named = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    authorizer = without(node, "CREATE CLUSTER kafka-cluster", "CREATE TOPIC new")
    assert described(told(node, named, 13, MetadataResponse)) == [("new", ZERO_UUID, NO_TOPIC, 0)]
    assert authorizer.asked[:3] == ["DESCRIBE TOPIC new", "CREATE CLUSTER kafka-cluster", "CREATE TOPIC new"]
    for missing in ("CREATE CLUSTER kafka-cluster", "CREATE TOPIC new"):
        without(node, missing)
        waiting = node.dispatch(named, 13)
        assert isinstance(waiting, Waiting), "the controller is asked"
        cast("Any", waiting.answer).close()


def test_operations_that_are_told_are_those_that_are_allowed(node: Node) -> None:
    without(node, "WRITE TOPIC orders", "ALTER CLUSTER kafka-cluster")
    asked = MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    answer = told(node, asked, 10, MetadataResponse)
    assert answer.cluster_authorized_operations == 0b1111110100000 & ~(1 << 7)
    assert [topic.topic_authorized_operations for topic in answer.topics] == [0b110111101000, 0b110111111000]
    without(node, "DESCRIBE CLUSTER kafka-cluster")
    assert told(node, asked, 10, MetadataResponse).cluster_authorized_operations == 0
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert told(node, cluster, 1, DescribeClusterResponse).cluster_authorized_operations == 0
    assert told(node, cluster, 1, DescribeClusterResponse).error_code == 0, "brokers describe themselves to all"


def test_pages_of_topics_leave_out_what_one_may_not_know_of(node: Node) -> None:
    without(node, "DESCRIBE TOPIC secrets", "WRITE TOPIC orders")
    everything = told(node, DescribeTopicPartitionsRequest(), 0, DescribeTopicPartitionsResponse)
    assert [topic.name for topic in everything.topics] == ["orders"]
    assert everything.topics[0].topic_authorized_operations == 0b110111101000
    named = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders"), TopicRequest(name="secrets")])
    answer = told(node, named, 0, DescribeTopicPartitionsResponse)
    assert [(one.name, one.topic_id, one.error_code) for one in answer.topics] == [
        ("orders", TOPIC_ID, 0),
        ("secrets", ZERO_UUID, NO_TOPIC),
    ]


def test_no_cursor_names_what_one_may_not_know_of(node: Node) -> None:
    node.commit(*topic_records("zebras", topic_id=UUID(int=10)))
    without(node, "DESCRIBE TOPIC secrets")
    first = DescribeTopicPartitionsRequest(response_partition_limit=1)
    page = told(node, first, 0, DescribeTopicPartitionsResponse)
    assert page.next_cursor is not None
    assert ([topic.name for topic in page.topics], page.next_cursor.topic_name) == (["orders"], "zebras")
    behind = DescribeTopicPartitionsRequestCursor(topic_name="secrets")
    rest = told(node, first.replace(cursor=behind), 0, DescribeTopicPartitionsResponse)
    assert ([topic.name for topic in rest.topics], rest.next_cursor) == (["zebras"], None)


# groups


class Groups:
    """A coordinator with the group "readers", behind a dispatcher."""

    def __init__(self, node: GroupNode) -> None:
        self.node = node
        node.broker.handlers = load_handlers()

    async def ask(self, request: Message, version: int, answer: type[AnswerT], authorizer: Authorizer) -> AnswerT:
        self.node.broker.authorizer = authorizer
        dispatcher = Dispatcher(self.node.broker)
        parts = dispatcher.dispatch(memoryview(bytearray(encode_request(request, version, 1, "test")))[4:], PEER)
        if isinstance(parts, Waiting):
            parts = dispatcher.encode(parts.handler, parts.context, await parts.answer)
        (frame,) = parts
        assert isinstance(frame, bytes | bytearray)
        _, found = decode_response(api_of_request(request).key, version, bytes(frame[4:]))
        assert isinstance(found, answer)
        return found


@pytest.fixture
async def groups(tmp_path: Path) -> AsyncIterator[Groups]:
    node = GroupNode(tmp_path)
    node.create_flights()
    node.create_offsets_topic()
    await node.ready()
    found = Groups(node)
    yield found
    await node.stop()


JOIN = JoinGroupRequest(
    group_id="readers",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)


def commit_to(*topics: str) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    return OffsetCommitRequest(
        group_id="readers", topics=[OffsetCommitRequestTopic(name=topic, partitions=[part]) for topic in topics]
    )


async def test_who_may_not_read_a_group_is_no_member_of_it(groups: Groups) -> None:
    denied = Recording("READ GROUP readers")
    joined = await groups.ask(JOIN, 4, JoinGroupResponse, denied)
    assert (joined.error_code, joined.member_id, joined.generation_id) == (NO_GROUP, "", -1)
    beat = await groups.ask(HeartbeatRequest(group_id="readers"), 4, HeartbeatResponse, denied)
    assert beat.error_code == NO_GROUP
    committed = await groups.ask(commit_to("flights"), 9, OffsetCommitResponse, denied)
    assert [part.error_code for topic in committed.topics for part in topic.partitions] == [NO_GROUP]
    assert set(denied.asked) == {"READ GROUP readers"}


async def test_offsets_are_stored_for_the_topics_alone_that_one_may_read(groups: Groups) -> None:
    denied = Recording("READ TOPIC secrets")
    answer = await groups.ask(commit_to("flights", "secrets"), 9, OffsetCommitResponse, denied)
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        "flights": 0,
        "secrets": NO_TOPIC,
    }


def offsets_of(version: int, *topics: str | UUID) -> OffsetFetchRequest:
    if version < 8:
        named = [OffsetFetchRequestTopic(name=cast("str", topic), partition_indexes=[0]) for topic in topics]
        return OffsetFetchRequest(group_id="readers", topics=named or None)
    asked = [
        OffsetFetchRequestTopics(
            name=topic if isinstance(topic, str) else "",
            topic_id=ZERO_UUID if isinstance(topic, str) else topic,
            partition_indexes=[0],
        )
        for topic in topics
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="readers", topics=asked or None)])


def topics_in(answer: OffsetFetchResponse) -> dict[str | UUID, tuple[int, int]]:
    groups: list[Any] = answer.groups or [answer]
    return {
        getattr(topic, "name", "") or topic.topic_id: (
            topic.partitions[0].committed_offset,
            topic.partitions[0].error_code,
        )
        for topic in groups[0].topics
    }


@pytest.mark.parametrize("version", [7, 9, 10])
async def test_offsets_are_told_for_the_topics_alone_that_one_may_know_of(groups: Groups, version: int) -> None:
    await groups.ask(commit_to("flights"), 9, OffsetCommitResponse, Recording())
    flights: str | UUID = "flights" if version < 10 else FLIGHTS_ID
    denied = Recording("DESCRIBE TOPIC flights")
    everything = await groups.ask(offsets_of(version), version, OffsetFetchResponse, denied)
    assert topics_in(everything) == {}
    assert denied.asked == ["DESCRIBE GROUP readers", "DESCRIBE TOPIC flights"]
    named = await groups.ask(offsets_of(version, flights), version, OffsetFetchResponse, denied)
    assert topics_in(named) == {flights: (-1, NO_TOPIC)}
    allowed = await groups.ask(offsets_of(version, flights), version, OffsetFetchResponse, Recording())
    assert topics_in(allowed) == {flights: (7, 0)}


@pytest.mark.parametrize("version", [1, 7, 10])
async def test_offsets_of_a_group_are_told_to_who_may_know_of_it(groups: Groups, version: int) -> None:
    denied = Recording("DESCRIBE GROUP readers")
    asked = offsets_of(version, FLIGHTS_ID if version >= 10 else "flights")
    answer = await groups.ask(asked, version, OffsetFetchResponse, denied)
    if version == 1:
        assert topics_in(answer) == {"flights": (-1, NO_GROUP)}
    else:
        assert (answer.groups[0] if version >= 8 else answer).error_code == NO_GROUP
    assert denied.asked == ["DESCRIBE GROUP readers"]


Told = tuple[int, list[tuple[int, int]]]
"""Of a group: its error, and for each topic the error and the offset."""


@pytest.mark.parametrize("version", [8, 10])
async def test_offsets_of_several_groups_are_told_each_by_its_rights(groups: Groups, version: int) -> None:
    flights: str | UUID = "flights" if version < 10 else FLIGHTS_ID
    for group_id in ("readers", "writers"):
        committed = commit_to("flights").replace(group_id=group_id)
        await groups.ask(committed, 9, OffsetCommitResponse, Recording())
    (one,) = offsets_of(version, flights).groups
    (everything,) = offsets_of(version).groups
    requests = [OffsetFetchRequest(groups=[it, it.replace(group_id="writers")]) for it in (one, everything)]

    async def told_of(*missing: str) -> list[Told]:
        answers = [await groups.ask(it, version, OffsetFetchResponse, Recording(*missing)) for it in requests]
        return [
            (
                group.error_code,
                [(topic.partitions[0].error_code, topic.partitions[0].committed_offset) for topic in group.topics],
            )
            for pair in zip(*(answer.groups for answer in answers), strict=True)
            for group in pair
        ]

    seven: Told = (0, [(0, 7)])
    refused: Told = (NO_GROUP, [])
    assert await told_of() == [seven] * 4
    assert await told_of("DESCRIBE GROUP writers") == [seven, seven, refused, refused]
    no_topic: list[Told] = [(0, [(NO_TOPIC, -1)]), (0, [])]
    assert await told_of("DESCRIBE TOPIC flights") == no_topic * 2
    assert await told_of("DESCRIBE TOPIC flights", "DESCRIBE GROUP readers") == [refused, refused, *no_topic]


async def test_groups_are_listed_for_who_may_know_of_them(groups: Groups) -> None:
    await groups.ask(commit_to("flights"), 9, OffsetCommitResponse, Recording())
    cluster, group = "DESCRIBE CLUSTER kafka-cluster", "DESCRIBE GROUP readers"
    for refuses, listed in (((cluster,), ["readers"]), ((group,), ["readers"]), ((cluster, group), [])):
        answer = await groups.ask(ListGroupsRequest(), 4, ListGroupsResponse, Recording(*refuses))
        assert ([one.group_id for one in answer.groups], answer.error_code) == (listed, 0)


async def test_coordinators_are_found_by_who_may_know_of_the_key(groups: Groups) -> None:
    denied = Recording("DESCRIBE GROUP writers", "DESCRIBE TRANSACTIONAL_ID payments")
    both = FindCoordinatorRequest(coordinator_keys=["readers", "writers"])
    answer = await groups.ask(both, 4, FindCoordinatorResponse, denied)
    assert [(one.key, one.error_code) for one in answer.coordinators] == [("readers", 0), ("writers", NO_GROUP)]
    old = await groups.ask(FindCoordinatorRequest(key="writers"), 3, FindCoordinatorResponse, denied)
    assert (old.error_code, old.node_id) == (NO_GROUP, -1)
    shares = Recording("CLUSTER_ACTION CLUSTER kafka-cluster")
    wanted = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:id:0"])
    for version, code in ((5, ErrorCode.INVALID_REQUEST), (6, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)):
        answer = await groups.ask(wanted, version, FindCoordinatorResponse, shares)
        assert [one.error_code for one in answer.coordinators] == [code]
    transactions = FindCoordinatorRequest(key_type=1, coordinator_keys=["payments"])
    answer = await groups.ask(transactions, 6, FindCoordinatorResponse, denied)
    assert denied.asked[-1] == "DESCRIBE TRANSACTIONAL_ID payments"
