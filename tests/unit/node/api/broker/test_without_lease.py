"""What a broker answers whose lease is over, about partitions that somebody else may lead by now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.api.asked import Recording
from tests.unit.node.api.broker.fetches import fetch_of, told, told_of
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, batch, node_on

from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

OTHER = 2
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Three records, which the follower has."""
    topic = TopicRecord(name="orders", topic_id=TOPIC_ID)
    replicas = [NODE_ID, OTHER]
    partition = PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, leader=NODE_ID, leader_epoch=0
    )
    with node_on(tmp_path, topic, partition) as node:
        node.produce(b"a", b"b", b"c")
        node.partition().on_fetched(OTHER, 3, -1, node.now_ms)
        yield node


def asked_for(node: Node) -> dict[str, int]:
    """What each request is answered with."""
    produced = PartitionProduceData(index=0, records=batch(b"late"))
    produce = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[produced])]
    )
    offsets = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    deleted = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
    return {
        "end of an epoch": end_of_epoch(node),
        "fetch": told_of(told(node, fetch_of(0), 10)).error_code,
        "fetch from any replica": told_of(told(node, fetch_of(0))).error_code,
        "offsets": node.ask(ListOffsetsRequest(topics=[offsets]), 7).topics[0].partitions[0].error_code,  # type: ignore[attr-defined]
        "deletion": node.ask(DeleteRecordsRequest(topics=[deleted]), 2).topics[0].partitions[0].error_code,  # type: ignore[attr-defined]
        "produce": node.ask(produce, 9).responses[0].partition_responses[0].error_code,  # type: ignore[attr-defined]
    }


def end_of_epoch(node: Node, replica_id: int = -1) -> int:
    wanted = OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
    answer = node.ask(OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[wanted]), 4)
    return answer.topics[0].partitions[0].error_code  # type: ignore[attr-defined,no-any-return]


def test_it_answers_nothing_as_a_leader_until_it_is_renewed(node: Node) -> None:
    node.broker.lease.ends()
    assert set(asked_for(node).values()) == {REFUSED}
    assert node.partition().log.log_end_offset == 3
    node.broker.lease.is_renewed(node.broker.lease.beats())
    node.partition().on_fetched(OTHER, 3, -1, node.now_ms, 0)
    assert set(asked_for(node).values()) == {ErrorCode.NONE}


def test_followers_go_on(node: Node) -> None:
    node.broker.lease.ends()
    assert told_of(told(node, fetch_of(3, replica=OTHER, leader_epoch=0))).error_code == ErrorCode.NONE
    assert end_of_epoch(node, OTHER) == ErrorCode.NONE


def test_a_partition_with_one_replica_needs_no_lease(node: Node) -> None:
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[NODE_ID], isr=[NODE_ID]))
    node.broker.lease.ends()
    assert set(asked_for(node).values()) == {ErrorCode.NONE}


def test_a_follower_answers_consumers_without_a_lease(node: Node) -> None:
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))
    node.broker.lease.ends()
    assert told_of(told(node, fetch_of(0))).error_code == ErrorCode.NONE


def test_a_follower_with_access_rules_does_not(node: Node) -> None:
    """It may have them from before a right was taken away."""
    node.broker.authorizer = Recording()
    node.dispatcher = Dispatcher(node.broker)
    assert told_of(told(node, fetch_of(0))).error_code == ErrorCode.NONE
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))
    assert told_of(told(node, fetch_of(0))).error_code == ErrorCode.NONE
    node.broker.lease.ends()
    assert told_of(told(node, fetch_of(0))).error_code == REFUSED


def test_nothing_new_is_not_said_either(node: Node) -> None:
    """A session tells only news, and that there are none is for a leader to say."""
    session_id = told(node, fetch_of(3, session=(0, 0)), 12).session_id
    node.broker.lease.ends()
    asked = FetchRequest(session_id=session_id, session_epoch=1, max_bytes=1 << 20)
    assert told_of(told(node, asked, 12)).error_code == REFUSED


async def test_a_long_poll_ends_with_a_refusal(node: Node) -> None:
    asked = fetch_of(3, max_wait_ms=60_000)
    found = node.dispatch(asked, 12)
    assert isinstance(found, Waiting)
    waiting = asyncio.ensure_future(node.wait(asked, 12, found))
    await asyncio.sleep(0)
    node.broker.lease.ends()
    node.partition().append(memoryview(bytearray(batch(b"d"))), acks=1, now_ms=node.now_ms)
    node.partition().on_fetched(OTHER, 4, -1, node.now_ms)
    async with asyncio.timeout(30):
        answer = await waiting
    assert isinstance(answer, FetchResponse)
    assert told_of(answer).error_code == REFUSED
