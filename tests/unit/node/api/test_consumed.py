"""CommittedPositions: a broker speaks only for the shards that it coordinates for certain."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode, ask, with_topics

from penstock.metadata.records import TopicRecord
from penstock.node.api.consumed import HANDLERS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import CommittedPositionsRequest, CommittedPositionsResponse

POSITIONS = HANDLERS[OwnApiKey.COMMITTED_POSITIONS].function
READERS = "readers", "flyers"
"""They have shards 0 and 1."""


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[GroupNode]:
    node = with_topics(GroupNode(tmp_path))
    await node.ready()
    for number, group_id in enumerate(READERS):
        wanted = OffsetCommitRequestPartition(partition_index=number, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name="flights", topic_id=FLIGHTS_ID, partitions=[wanted])]
        shard = node.groups.find(group_id)
        shard.ask(shard.machine.commit, OffsetCommitRequest(group_id=group_id, topics=topics), 10)
    yield node
    await node.stop()


async def told(node: GroupNode, topic_id: UUID = FLIGHTS_ID, key_type: int = 0) -> CommittedPositionsResponse:
    answer = await ask(POSITIONS, node, 0, CommittedPositionsRequest(topic_id=topic_id, key_type=key_type))
    assert isinstance(answer, CommittedPositionsResponse)
    return answer


def shards(answer: CommittedPositionsResponse) -> dict[int, dict[str, dict[int, int]]]:
    assert answer.partition_count == 2
    assert all(one.leader_epoch == 0 for one in answer.coordinated)
    return {
        one.partition: {
            group.group_id: {place.partition: place.offset for place in group.positions} for group in one.groups
        }
        for one in answer.coordinated
    }


async def test_each_shard_is_told_with_its_groups(node: GroupNode) -> None:
    found = shards(await told(node))
    assert found == {node.groups.partition_of(name): {name: {index: 5}} for index, name in enumerate(READERS)}
    assert len(found) == 2


async def test_a_shard_that_goes_to_another_broker_is_left_out(node: GroupNode) -> None:
    hosted = node.groups.hosted(0)
    assert hosted is not None
    hosted.pause()
    assert list(shards(await told(node))) == [1]


async def test_a_shard_that_is_not_read_yet_is_left_out(node: GroupNode) -> None:
    hosted = node.groups.hosted(1)
    assert hosted is not None
    hosted.is_serving = False
    assert list(shards(await told(node))) == [0]


async def test_without_a_lease_nothing_is_told_that_another_broker_may_coordinate(tmp_path: Path) -> None:
    node = with_topics(GroupNode(tmp_path, isr=(1, 2)))
    await node.ready()
    assert list(shards(await told(node))) == [0, 1]
    node.broker.lease.ends()
    assert shards(await told(node)) == {}
    await node.stop()


async def test_of_an_unknown_topic_and_of_other_coordinators_nothing_is_said(node: GroupNode) -> None:
    assert (await told(node, UUID(int=99))).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    node.broker.image.apply(TopicRecord(name=TRANSACTION_STATE, topic_id=UUID(int=77)))
    for key_type in (1, 7):
        answer = await told(node, key_type=key_type)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "of transactions no more than of what is none"
