from pathlib import Path

import pytest
from tests.unit.node.metadata_node import NODE, context, create, start_broker

from penstock.node.api.broker.describe_topic_partitions import describe_topic_partitions
from penstock.node.roles.broker import Broker
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

SIZES = {"a": 3, "b": 2, "c": 4}
Page = list[tuple[str, int]]


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    broker, _ = await start_broker(str(tmp_path))
    for name, partitions in reversed(SIZES.items()):
        await create(broker, name, partitions)
    return broker


def ask(
    broker: Broker, limit: int = 2000, cursor: tuple[str, int] | None = None, *names: str
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    asked, _ = decode(DescribeTopicPartitionsRequest, 0, encode(request, 0))
    answer = broker.slices.answer(describe_topic_partitions(broker, context(0), asked))
    assert isinstance(answer, DescribeTopicPartitionsResponse)
    return decode(DescribeTopicPartitionsResponse, 0, encode(answer, 0))[0]


def partitions(response: DescribeTopicPartitionsResponse) -> Page:
    return [(str(topic.name), p.partition_index) for topic in response.topics for p in topic.partitions]


def everything() -> Page:
    return [(name, index) for name, size in SIZES.items() for index in range(size)]


async def test_all_topics_in_order(broker: Broker) -> None:
    response = ask(broker)
    assert partitions(response) == everything()
    assert response.next_cursor is None
    partition = response.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.isr_nodes) == (NODE, 0, [NODE])
    assert (partition.eligible_leader_replicas, partition.offline_replicas) == ([], [])


@pytest.mark.parametrize("limit", range(1, 11))
async def test_pages_tell_everything_once(broker: Broker, limit: int) -> None:
    told: Page = []
    cursor: tuple[str, int] | None = None
    for _ in range(20):
        response = ask(broker, limit, cursor)
        assert 1 <= len(partitions(response)) <= limit
        told += partitions(response)
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert told == everything()


async def test_the_configuration_bounds_a_page(tmp_path: Path) -> None:
    broker, _ = await start_broker(str(tmp_path), {"max.request.partition.size.limit": "2"})
    await create(broker, "a", 3)
    assert partitions(ask(broker)) == [("a", 0), ("a", 1)]
    assert partitions(ask(broker, -5)) == [("a", 0)]


async def test_named_topics_and_those_that_are_not_there(broker: Broker) -> None:
    response = ask(broker, 2000, None, "c", "nothing", "a", "a", "a/b")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", 0),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", 0),
        ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert {topic.topic_authorized_operations for topic in response.topics} == {0b110111111000}, "there or not"


async def test_a_cursor_may_name_a_topic_that_has_gone(broker: Broker) -> None:
    assert partitions(ask(broker, 2000, ("aa", 7)))[0] == ("b", 0)
    assert partitions(ask(broker, 2000, ("a", 9)))[0] == ("b", 0)
    assert partitions(ask(broker, 2000, ("z", 0))) == []
