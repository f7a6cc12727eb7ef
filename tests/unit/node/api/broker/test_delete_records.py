"""DeleteRecords waits for the followers that live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.api.broker.fetches import fetch_of, told, told_of
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, node_on

from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

OTHER, THIRD = 2, 3
VERSION = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Three records, which both followers have."""
    brokers = [RegisterBrokerRecord(broker_id=number, fenced=False) for number in (NODE_ID, OTHER, THIRD)]
    replicas = [NODE_ID, OTHER, THIRD]
    topic = TopicRecord(name="orders", topic_id=TOPIC_ID)
    partition = PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, leader=NODE_ID, leader_epoch=0
    )
    with node_on(tmp_path, *brokers, topic, partition) as node:
        node.produce(b"a", b"b", b"c")
        for replica in (OTHER, THIRD):
            follow(node, replica, 0)
        yield node


def follow(node: Node, replica: int, start_offset: int) -> None:
    """The log of a follower begins here."""
    node.partition().on_fetched(replica, 3, -1, node.now_ms, start_offset)


class Deletion:
    """A request that waits."""

    def __init__(self, node: Node, offset: int, timeout_ms: int = 60_000) -> None:
        partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
        topics = [DeleteRecordsTopic(name="orders", partitions=partitions)]
        self._request = DeleteRecordsRequest(timeout_ms=timeout_ms, topics=topics)
        self._node = node
        found = node.dispatch(self._request, VERSION)
        assert isinstance(found, Waiting), "nobody is waited for"
        self.task = asyncio.ensure_future(node.wait(self._request, VERSION, found))

    async def is_waiting(self) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return not self.task.done()

    async def result(self) -> tuple[ErrorCode, int]:
        """The error and the low watermark."""
        async with asyncio.timeout(10):
            response = await self.task
        assert isinstance(response, DeleteRecordsResponse)
        (result,) = response.topics[0].partitions
        return ErrorCode(result.error_code), result.low_watermark


async def test_the_answer_waits_until_all_followers_have_moved(node: Node) -> None:
    deletion = Deletion(node, 2)
    assert node.partition().log.log_start_offset == 2
    follow(node, OTHER, 2)
    assert await deletion.is_waiting()
    follow(node, THIRD, 1)
    assert await deletion.is_waiting()
    follow(node, THIRD, 3)
    assert await deletion.result() == (ErrorCode.NONE, 2)
    assert not node.partition().leader.deletions  # type: ignore[union-attr]


async def test_it_gives_up_in_time_and_says_how_far_they_are(node: Node) -> None:
    follow(node, OTHER, 1)
    follow(node, THIRD, 3)
    deletion = Deletion(node, 3, timeout_ms=1)
    assert await deletion.result() == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert not node.partition().leader.deletions  # type: ignore[union-attr]


async def test_dead_followers_are_not_waited_for(node: Node) -> None:
    node.commit(BrokerRegistrationChangeRecord(broker_id=THIRD, fenced=1))
    deletion = Deletion(node, 3)
    assert await deletion.is_waiting()
    node.commit(
        BrokerRegistrationChangeRecord(broker_id=OTHER, fenced=1),
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE_ID]),
    )
    assert await deletion.result() == (ErrorCode.NONE, 3)


async def test_it_ends_with_the_leadership(node: Node) -> None:
    deletion = Deletion(node, 3)
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=OTHER))
    assert await deletion.result() == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_who_goes_away_is_not_waited_for(node: Node) -> None:
    deletion = Deletion(node, 3)
    assert await deletion.is_waiting()
    deletion.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deletion.task
    await asyncio.sleep(0)
    assert not node.partition().leader.deletions  # type: ignore[union-attr]


async def test_followers_hear_at_once_where_the_log_begins(node: Node) -> None:
    opened = told(node, fetch_of(3, replica=OTHER, session=(0, 0), log_start_offset=0))
    asked = fetch_of(3, replica=OTHER, session=(opened.session_id, 1), max_wait_ms=60_000)
    asked.topics.clear()
    found = node.dispatch(asked, 18)
    assert isinstance(found, Waiting)
    poll = asyncio.ensure_future(node.wait(asked, 18, found))
    node.partition().log.advance_log_start(2)
    node.replicas.on_log_start_moved(node.partition())
    async with asyncio.timeout(10):
        answer = await poll
    assert told_of(answer).log_start_offset == 2  # type: ignore[arg-type]


async def test_it_is_answered_in_time_where_the_log_waits_for_its_disk(node: Node) -> None:
    deletion = Deletion(node, 3, timeout_ms=1)
    log = node.partition().log
    log.lend()
    follow_while_lent(node)
    assert await deletion.result() == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    log.take_back(is_whole=True)


def follow_while_lent(node: Node) -> None:
    """What wakes those who wait must not fail because of them: the leader leads on."""
    leader = node.partition().leader
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE_ID, OTHER]))
    assert node.partition().leader is leader
