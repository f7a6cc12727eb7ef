"""Markers and offsets in transactions, as brokers take them: who is asked, what is refused, what the next one finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.transactions import append_all, written
from tests.unit.node.api.broker.test_group_handlers import UNKNOWN_ID
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode, ask, context
from tests.unit.node.on_disk import Node, node_on, topic_records

from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.node.api.broker.offset_fetch import offset_fetch
from penstock.node.api.transactions import txn_offset_commit as handler
from penstock.node.api.transactions.txn_offset_commit import txn_offset_commit
from penstock.node.api.transactions.write_txn_markers import write_txn_markers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.protocol.uuids import ZERO_UUID

COPIED_ID = UNKNOWN_ID.__class__(int=44)
GROUP = "reports"
GROUP_PARTITION = coordinator_partition(GROUP, 2)


def marker(topic: str, *partitions: int, is_commit: bool = True, **changes: Any) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))]
    one = WritableTxnMarker(producer_id=8, transaction_result=is_commit, topics=topics, coordinator_epoch=3)
    return WriteTxnMarkersRequest(markers=[one.replace(**changes)])


def codes(response: Any) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for one in response.markers[0].topics[0].partitions]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    copied = [
        TopicRecord(name="copied", topic_id=COPIED_ID),
        PartitionRecord(partition_id=0, topic_id=COPIED_ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0),
    ]
    with node_on(tmp_path, *topic_records(partitions=2), *copied, request_timeout_ms="50") as node:
        yield node


def marked(node: Node, request: WriteTxnMarkersRequest) -> list[ErrorCode]:
    return codes(node.ask(request, 2))


def test_a_marker_ends_a_transaction_where_it_is_led(node: Node) -> None:
    log = node.partition().log
    append_all(log, written(8, 0))
    assert marked(node, marker("orders", 0, 1, 7)) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert log.last_stable_offset(2) == 2


def test_older_epochs_are_refused(node: Node) -> None:
    append_all(node.partition().log, written(8, 0))
    assert marked(node, marker("orders", 0)) == [ErrorCode.NONE]
    assert marked(node, marker("orders", 0, coordinator_epoch=2)) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    append_all(node.partition().log, written(8, 0, epoch=1))
    assert marked(node, marker("orders", 0)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    second = marker("orders", 0, producer_epoch=1, transaction_version=2)
    assert marked(node, second) == [ErrorCode.INVALID_PRODUCER_EPOCH], "version 2 raises the epoch"
    assert node.partition().last_stable_offset == 2


async def test_a_marker_is_told_when_all_in_sync_have_it(tmp_path: Path, node: Node) -> None:
    partition = node.partition("copied")
    append_all(partition.log, written(8, 0))
    request = marker("copied", 0)
    waiting: Any = node.dispatch(request, 2)
    answer = asyncio.ensure_future(node.wait(request, 2, waiting))
    await asyncio.sleep(0)
    partition.on_fetched(2, 2, -1, node.now_ms)
    response = await answer
    assert isinstance(response, WriteTxnMarkersResponse)
    assert codes(response) == [ErrorCode.NONE]
    waiting = node.dispatch(request, 2)
    response = await node.wait(request, 2, waiting)
    assert codes(response) == [ErrorCode.REQUEST_TIMED_OUT]


@pytest.fixture
async def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupNode]:
    node = GroupNode(tmp_path)
    node.create_flights()
    node.create_offsets_topic()
    await node.ready()

    async def answers_of(broker: Any, asking: Any, partitions: Any) -> Any:
        asked.append((asking.transactional_id, asking.producer_id, *partitions))
        return dict.fromkeys(partitions, node.verdict)  # type: ignore[attr-defined]

    asked: list[Any] = []
    node.asked, node.verdict = asked, ErrorCode.NONE  # type: ignore[attr-defined]
    monkeypatch.setattr(handler, "answers_of", answers_of)
    yield node
    await node.stop()


async def committed(node: GroupNode, version: int, *topics: TxnOffsetCommitRequestTopic) -> list[ErrorCode]:
    request = TxnOffsetCommitRequest(transactional_id="t", group_id=GROUP, producer_id=8, topics=list(topics))
    found: Any = txn_offset_commit(node.broker, context(28, version), request)
    response: Any = node.broker.slices.answer(found)
    response = await response if hasattr(response, "__await__") else response
    return [ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions]


def wanted(
    offset: int, name: str = "flights", topic_id: Any = ZERO_UUID, index: int = 0
) -> TxnOffsetCommitRequestTopic:
    parts = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)]
    return TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=parts)


async def offset_of(node: GroupNode, *, require_stable: bool = True) -> tuple[int, ErrorCode]:
    topics = [OffsetFetchRequestTopics(name="flights", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=require_stable
    )
    (found,) = (await ask(offset_fetch, node, 9, request)).groups[0].topics[0].partitions
    return found.committed_offset, ErrorCode(found.error_code)


async def end(node: GroupNode, *, is_commit: bool = True, **changes: Any) -> list[ErrorCode]:
    request = marker(CONSUMER_OFFSETS, GROUP_PARTITION, is_commit=is_commit, **changes)
    response: Any = node.broker.slices.answer(write_txn_markers(node.broker, context(27, 1), request))
    return codes(await response if hasattr(response, "__await__") else response)


async def test_offsets_wait_for_the_marker_and_the_next_coordinator_knows(groups: GroupNode) -> None:
    assert await committed(groups, 3, wanted(5)) == [ErrorCode.NONE]
    assert await committed(groups, 3, wanted(6)) == [ErrorCode.NONE]
    place = CONSUMER_OFFSETS, GROUP_PARTITION
    assert groups.asked == [("t", 8, place)], "once for a transaction"  # type: ignore[attr-defined]
    assert await offset_of(groups) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await offset_of(groups, require_stable=False) == (-1, ErrorCode.NONE)
    groups.groups._resign(GROUP_PARTITION)
    groups.groups.follow()
    await groups.ready()
    assert await offset_of(groups) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await end(groups) == [ErrorCode.NONE]
    assert await offset_of(groups) == (6, ErrorCode.NONE)


async def test_a_marker_for_groups_that_are_led_elsewhere_or_fenced(groups: GroupNode) -> None:
    await committed(groups, 3, wanted(5))
    assert await end(groups, is_commit=False) == [ErrorCode.NONE]
    assert await end(groups, coordinator_epoch=2) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    groups.groups._resign(GROUP_PARTITION)
    assert await end(groups) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_what_is_not_verified_is_not_written(groups: GroupNode) -> None:
    for verdict, version, told in (
        (ErrorCode.INVALID_PRODUCER_EPOCH, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ):
        groups.verdict = verdict  # type: ignore[attr-defined]
        assert await committed(groups, version, wanted(5)) == [told]
    assert await offset_of(groups) == (-1, ErrorCode.NONE)


async def test_topics_that_are_not_there_are_refused_by_name_and_by_id(groups: GroupNode) -> None:
    by_name = await committed(groups, 5, wanted(5), wanted(5, "trains"), wanted(5, index=9))
    assert by_name == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2]
    by_id = await committed(groups, 6, wanted(6, "", FLIGHTS_ID), wanted(5, "", UNKNOWN_ID))
    assert by_id == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    await end(groups)
    assert await offset_of(groups) == (6, ErrorCode.NONE)
