"""Produce: acks, errors per partition, topics by name and by id, waiting for replicas."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.on_disk import NODE_ID, NOW_MS, PEER, Node, batch, node_on, produce_request, topic_records

from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    NodeEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.metadata.resources import ResourceType
from penstock.node.api import producing
from penstock.node.api.broker import produce
from penstock.node.serving import slices
from penstock.node.serving.dispatch import Waiting
from penstock.node.serving.handler import CloseConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.schema import Message

ID = UUID(int=7)
REPLICATED_ID = UUID(int=8)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Topic "orders" with one replica, "copied" with two of which the other one has nothing yet."""
    copied = [
        TopicRecord(name="copied", topic_id=REPLICATED_ID),
        PartitionRecord(
            partition_id=0, topic_id=REPLICATED_ID, replicas=[1, 2], isr=[1, 2], leader=NODE_ID, leader_epoch=0
        ),
    ]
    internal = topic_records("__consumer_offsets", topic_id=UUID(int=9))
    with node_on(tmp_path, *topic_records(max_message_bytes="5000"), *copied, *internal) as node:
        yield node


def answer(node: Node, request: ProduceRequest, version: int = 9) -> PartitionProduceResponse:
    response = node.ask(request, version)
    assert isinstance(response, ProduceResponse)
    (partition,) = response.responses[0].partition_responses
    return partition


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_gets_the_next_offsets(node: Node, version: int, acks: int) -> None:
    for base_offset in (0, 2):
        got = answer(node, produce_request(batch(b"a", b"b"), topic_id=ID, acks=acks), version)
        assert (got.error_code, got.base_offset) == (ErrorCode.NONE, base_offset)
    assert node.partition().high_watermark == 4


def test_a_broker_without_a_lease_takes_what_nobody_else_could_take(node: Node) -> None:
    node.broker.lease.ends()
    assert answer(node, produce_request(batch(b"a"))).error_code == ErrorCode.NONE
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[1, 2]))
    for acks in (1, -1):
        got = answer(node, produce_request(batch(b"a"), acks=acks))
        assert got.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.partition().log.log_end_offset == 1


def test_acks_0_has_no_response(node: Node) -> None:
    assert node.dispatch(produce_request(batch(b"a"), acks=0), 9) == []
    assert node.partition().log.log_end_offset == 1


def test_an_error_with_acks_0_closes_the_connection(node: Node) -> None:
    with pytest.raises(CloseConnection, match="UNKNOWN_TOPIC_OR_PARTITION"):
        node.dispatch(produce_request(batch(b"a"), topic="nowhere", acks=0), 9)


TRANSACTIONAL = bytes(
    encode_batch(
        [Record(0, NOW_MS, None, b"x", [])], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
)
DAMAGED = batch(b"a")[:-1] + b"\xff"

REFUSED = {
    "unknown topic": (produce_request(batch(b"a"), topic="nowhere"), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "unknown partition": (produce_request(batch(b"a"), index=5), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "unknown topic id": (produce_request(batch(b"a"), topic_id=UUID(int=99)), 13, ErrorCode.UNKNOWN_TOPIC_ID),
    "partition of an id": (
        produce_request(batch(b"a"), topic_id=ID, index=4),
        13,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "acks": (produce_request(batch(b"a"), acks=2), 9, ErrorCode.INVALID_REQUIRED_ACKS),
    "no records": (produce_request(None), 9, ErrorCode.INVALID_RECORD),
    "empty records": (produce_request(b""), 9, ErrorCode.INVALID_RECORD),
    "damaged": (produce_request(DAMAGED), 9, ErrorCode.CORRUPT_MESSAGE),
    "too large": (produce_request(batch(bytes(6000))), 9, ErrorCode.MESSAGE_TOO_LARGE),
    "transactional": (produce_request(TRANSACTIONAL), 9, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    "internal": (produce_request(batch(b"a"), topic="__consumer_offsets"), 9, ErrorCode.INVALID_TOPIC_EXCEPTION),
}


@pytest.mark.parametrize(("request_", "version", "code"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_appended_is_refused(
    node: Node, request_: ProduceRequest, version: int, code: ErrorCode
) -> None:
    got = answer(node, request_, version)
    assert (ErrorCode(got.error_code), got.base_offset) == (code, -1)
    assert node.partition().log.log_end_offset == 0


def test_a_batch_of_no_transaction_needs_no_coordinator(node: Node) -> None:
    request = produce_request(batch(b"a"))
    request.transactional_id = "t"
    assert answer(node, request).error_code == ErrorCode.NONE


def test_where_another_node_leads_it_says_so(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=ID, partition_id=0, leader=2))
    assert node.produce(b"a") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def moved(message: Message) -> tuple[int, int, int, list[tuple[int, str, int, str | None]]]:
    """The error, who leads instead and in which epoch, and where the leaders are."""
    assert isinstance(message, ProduceResponse)
    (got,) = message.responses[0].partition_responses
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
    return got.error_code, got.current_leader.leader_id, got.current_leader.leader_epoch, nodes


OTHER = RegisterBrokerRecord(
    broker_id=2, rack="b", fenced=False, end_points=[NodeEndpoint(name="PLAINTEXT", host="other", port=9093)]
)


@pytest.mark.parametrize(("version", "topic"), [(9, "orders"), (10, "orders"), (13, "")])
def test_who_leads_instead_and_where_is_told(node: Node, version: int, topic: str) -> None:
    node.commit(OTHER, PartitionChangeRecord(topic_id=ID, partition_id=0, leader=2))
    got = moved(node.ask(produce_request(batch(b"a"), topic=topic, topic_id=ID), version))
    told = (2, 4, [(2, "other", 9093, "b")]) if version >= 10 else (-1, -1, [])
    assert got == (ErrorCode.NOT_LEADER_OR_FOLLOWER, *told)


def test_of_a_partition_that_lies_elsewhere_the_leader_is_told_as_well(node: Node) -> None:
    elsewhere = PartitionRecord(
        topic_id=ID, partition_id=1, replicas=[2], isr=[2], leader=2, leader_epoch=7, partition_epoch=7
    )
    node.commit(OTHER, elsewhere)
    got = moved(node.ask(produce_request(batch(b"a"), index=1), 12))
    assert got == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 7, [(2, "other", 9093, "b")])


def test_a_leader_that_cannot_be_reached_is_told_without_its_place(node: Node) -> None:
    node.commit(OTHER, PartitionChangeRecord(topic_id=ID, partition_id=0, leader=2))
    node.commit(BrokerRegistrationChangeRecord(broker_id=2, fenced=1))
    got = moved(node.ask(produce_request(batch(b"a")), 10))
    assert got == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 4, [])


def test_another_error_says_nothing_of_leaders(node: Node) -> None:
    node.commit(OTHER)
    got = moved(node.ask(produce_request(batch(b"a"), topic="nowhere"), 10))
    assert got == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, [])


def needs(count: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="copied", name="min.insync.replicas", value=str(count)
    )


def test_too_few_replicas_in_sync(node: Node) -> None:
    node.commit(needs(2))
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID]))
    assert node.produce(b"a", topic="copied", acks=-1) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert node.produce(b"a", topic="copied", acks=1) == (ErrorCode.NONE, 0)
    assert node.partition("copied").high_watermark == 0, "nothing is committed while too few replicas are in sync"


def test_no_more_replicas_must_be_in_sync_than_there_are(node: Node) -> None:
    node.partition().min_insync_replicas = 2
    assert node.produce(b"a", acks=-1) == (ErrorCode.NONE, 0)
    assert node.partition().high_watermark == 1


def waiting(node: Node, timeout_ms: int = 60_000) -> tuple[ProduceRequest, Waiting]:
    """A request with acks=-1 that waits for the other replica."""
    request = produce_request(batch(b"a"), topic="copied", acks=-1)
    request.timeout_ms = timeout_ms
    found = node.dispatch(request, 9)
    assert isinstance(found, Waiting)
    return request, found


async def result(node: Node, request: ProduceRequest, found: Waiting) -> tuple[ErrorCode, int]:
    response = await node.wait(request, 9, found)
    assert isinstance(response, ProduceResponse)
    (got,) = response.responses[0].partition_responses
    return ErrorCode(got.error_code), got.base_offset


async def test_acks_all_waits_until_the_high_watermark_has_passed(node: Node) -> None:
    request, found = waiting(node)
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID]))
    assert await result(node, request, found) == (ErrorCode.NONE, 0)
    await asyncio.sleep(0)
    assert not node.partition("copied").committed.waits


async def test_acks_all_gives_up_in_time(node: Node) -> None:
    request, found = waiting(node, timeout_ms=1)
    assert await result(node, request, found) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert not node.partition("copied").committed.waits


async def test_a_leaders_flush_has_no_time_out(tmp_path: Path) -> None:
    with node_on(tmp_path, *topic_records(), log_flush_interval_messages="1") as node:
        request = produce_request(batch(b"a"), acks=1)
        request.timeout_ms = 0
        found = node.dispatch(request, 9)
        assert isinstance(found, Waiting)
        assert await result(node, request, found) == (ErrorCode.NONE, 0)


def of_requests() -> list[object]:
    return [one for one in gc.get_objects() if type(one).__module__ in (produce.__name__, producing.__name__)]


@pytest.mark.parametrize("is_in_time", [True, False])
async def test_what_waited_leaves_nothing_for_the_collector(node: Node, is_in_time: bool) -> None:
    before = {id(one) for one in of_requests()}  # other tests' requests
    gc.disable()
    try:
        request, found = waiting(node, timeout_ms=60_000 if is_in_time else 1)
        if is_in_time:
            node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID]))
        await result(node, request, found)
        del found
        await asyncio.sleep(0)
        assert not [one for one in of_requests() if id(one) not in before]
    finally:
        gc.enable()


async def test_acks_all_ends_with_the_leadership(node: Node) -> None:
    request, found = waiting(node)
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, leader=2))
    assert await result(node, request, found) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_who_waits_for_acks_all_is_told_who_leads_instead(node: Node) -> None:
    request = produce_request(batch(b"a"), topic="copied", acks=-1)
    found = node.dispatch(request, 10)
    assert isinstance(found, Waiting)
    node.commit(OTHER, PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, leader=2))
    got = moved(await node.wait(request, 10, found))
    assert got == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 1, [(2, "other", 9093, "b")])


async def test_acks_all_waits_on_while_too_few_replicas_are_left(node: Node) -> None:
    node.commit(needs(2))
    request, found = waiting(node, timeout_ms=1)
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID]))
    assert await result(node, request, found) == (ErrorCode.REQUEST_TIMED_OUT, -1)


@pytest.mark.parametrize("needed_then", [1, 2])
async def test_acks_all_is_answered_when_enough_are_in_sync_again(node: Node, needed_then: int) -> None:
    partition = node.partition("copied")
    node.commit(needs(2))
    request, found = waiting(node)
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID]))
    partition.on_fetched(2, 1, -1, 0)
    assert partition.high_watermark == 0, "all have the record, and too few are in sync"
    if needed_then == 2:
        node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID, 2]))
    node.commit(needs(needed_then))
    assert await result(node, request, found) == (ErrorCode.NONE, 0)


async def test_acks_all_waits_on_where_the_leader_goes_on_in_a_new_epoch(node: Node) -> None:
    request, found = waiting(node)
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, leader=NODE_ID))
    assert node.partition("copied").leader_epoch == 1
    node.commit(PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, isr=[NODE_ID]))
    assert await result(node, request, found) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(
    ("meanwhile", "code"),
    [
        (None, ErrorCode.NONE),
        (PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, leader=NODE_ID), ErrorCode.NONE),
        (PartitionChangeRecord(topic_id=REPLICATED_ID, partition_id=0, leader=2), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["nothing else", "a new epoch", "another leader"],
)
async def test_acks_all_hears_of_what_happens_between_the_append_and_the_rest_of_the_request(
    node: Node, monkeypatch: pytest.MonkeyPatch, meanwhile: PartitionChangeRecord | None, code: ErrorCode
) -> None:
    monkeypatch.setattr(produce, "POOLED_FRAME_BYTES", 0)  # a large request is appended in steps
    monkeypatch.setattr(produce, "PARTITIONS_A_STEP", 1)
    monkeypatch.setattr(slices, "SLICE_NS", -1)  # of which each has a turn of its own
    request, found = waiting(node, timeout_ms=1_000)
    answered = asyncio.ensure_future(result(node, request, found))
    partition = node.partition("copied")
    while partition.log.log_end_offset == 0:
        await asyncio.sleep(0)
    if meanwhile is not None:
        node.commit(meanwhile)
    partition.on_fetched(2, 1, 9, 0)
    assert (await answered)[0] is code
    assert not partition.committed.waits


async def test_who_goes_away_is_not_waited_for(node: Node) -> None:
    _, found = waiting(node)
    future = asyncio.ensure_future(found.answer)
    await asyncio.sleep(0)  # it waits
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    await asyncio.sleep(0)
    assert not node.partition("copied").committed.waits


def test_versions_that_are_gone_are_told_for_old_clients_and_refused(node: Node) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    told = node.ask(request, 3)
    assert isinstance(told, ApiVersionsResponse)
    assert [(api.min_version, api.max_version) for api in told.api_keys if api.api_key == ApiKey.PRODUCE] == [(0, 13)]
    frame = memoryview(bytearray(encode_request(ProduceRequest(), 3, 1, "old")))[4:]
    frame[3] = 2
    with pytest.raises(CloseConnection, match="version 2 of Produce is not served"):
        node.dispatcher.dispatch(frame, PEER)


def wide(acks: int, batches: int) -> ProduceRequest:
    """Two partitions that are there, in turn, and very many that are not."""
    data = [
        PartitionProduceData(index=n % 2 if n < batches else n, records=bytes(batch(b"a"))) for n in range(produce.WIDE)
    ]
    topics = [TopicProduceData(name="orders", partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[*topics, *topics])


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_request_about_very_many_partitions_is_appended_in_slices_and_in_its_order(
    node: Node, acks: int
) -> None:
    request = wide(acks, batches=60)
    found = node.dispatch(request, 9)
    assert isinstance(found, Waiting)
    assert not found.handler.pipelined, "what comes behind it on its connection waits"
    response = await node.wait(request, 9, found)
    assert isinstance(response, ProduceResponse)
    told = [(one.index, one.error_code) for topic in response.responses for one in topic.partition_responses]
    assert [index for index, _ in told] == [one.index for topic in request.topic_data for one in topic.partition_data]
    assert {code for index, code in told if index == 0} == {ErrorCode.NONE}
    assert {code for index, code in told if index > 1} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    offsets = [one.base_offset for topic in response.responses for one in topic.partition_responses if one.index == 0]
    assert offsets == list(range(60))


async def test_a_wide_request_is_appended_though_its_client_has_gone(node: Node) -> None:
    found = node.dispatch(wide(acks=1, batches=60), 9)
    assert isinstance(found, Waiting)
    asyncio.ensure_future(found.answer).cancel()
    while node.partition().log.log_end_offset < 60:
        await asyncio.sleep(0)
