"""All topics, a page after the other: a topic that is cut between two pages is whole."""

from uuid import UUID

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import NODE_ID, FakeCluster

from penstock.client.admin import Admin
from penstock.client.errors import ProtocolViolationError, UnsupportedByBrokerError
from penstock.client.settings import ClientSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
Place = tuple[str, int]


class Paging(FakeCluster):
    """Tells of so many partitions at a time. `turns` is the place that follows some place instead of the next one."""

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__()
        self.topics = topics
        self.errors: dict[str, ErrorCode] = {}
        self.turns: dict[Place, Place] = {}
        self.begins: list[Place] = []
        self.made_anew: set[Place] = set()
        """Pages before which the topic in which they begin is another one of that name."""
        self.ids: dict[str, UUID] = {}

    def __call__(self, header: RequestHeader, request: Message) -> Message | bytes | None:
        if not isinstance(request, DescribeTopicPartitionsRequest):
            return super().__call__(header, request)
        begin = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
        self.begins.append(begin)
        if begin in self.made_anew:
            self.ids[begin[0]] = UUID(int=len(self.begins))
        places = [(name, index) for name, count in sorted(self.topics.items()) for index in range(count)]
        behind = [place for place in places if place >= begin]
        here, rest = behind[: request.response_partition_limit], behind[request.response_partition_limit :]
        answer = DescribeTopicPartitionsResponse()
        for name, index in here:
            if not answer.topics or answer.topics[-1].name != name:
                code = self.errors.get(name, ErrorCode.NONE)
                answer.topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=code))
                answer.topics[-1].topic_id = self.ids.get(name, UUID(int=0))
            row = DescribeTopicPartitionsResponsePartition(
                partition_index=index, leader_id=NODE_ID, leader_epoch=3, replica_nodes=[NODE_ID], isr_nodes=[NODE_ID]
            )
            answer.topics[-1].partitions.append(row)
        if rest:
            name, index = self.turns.get(rest[0], rest[0])
            answer.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=index)
        return answer


async def pages_of(fake: Paging, at_once: int) -> list[dict[str, list[int]]]:
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        return [{topic.name: list(topic.partitions) for topic in page} async for page in admin.topics.pages(at_once)]


async def test_pages_have_whole_topics() -> None:
    fake = Paging({"a": 2, "b": 5, "c": 1})
    assert await pages_of(fake, 3) == [{"a": [0, 1]}, {}, {"b": [0, 1, 2, 3, 4], "c": [0]}]
    assert fake.begins == [("", 0), ("b", 1), ("b", 4)]
    assert await pages_of(Paging({"a": 2, "b": 1}), 2) == [{"a": [0, 1]}, {"b": [0]}]
    assert await pages_of(Paging({}), 2) == [{}]


async def test_a_topic_that_is_made_anew_between_two_pages_is_not_told_in_part() -> None:
    for place in (("b", 1), ("b", 4)):
        fake = Paging({"a": 2, "b": 5, "c": 1})
        fake.made_anew = {place}
        assert await pages_of(fake, 3) == [{"a": [0, 1]}, {}, {"c": [0]}]


async def test_the_first_ones_are_those_that_are_whole() -> None:
    fake = Paging({"a": 2, "b": 5})
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        found, is_all = await admin.topics.first(3)
        assert ([(topic.name, list(topic.partitions)) for topic in found], is_all) == ([("a", [0, 1])], False)
        assert len((await admin.topics.first(7))[0]) == 2


async def test_a_topic_of_which_nothing_is_told_is_left_out() -> None:
    fake = Paging({"a": 1, "b": 1})
    fake.errors["a"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await pages_of(fake, 5) == [{"b": [0]}]


async def test_a_broker_that_goes_round_is_left() -> None:
    fake = Paging({"a": 9})
    fake.turns["a", 4] = "a", 2
    with pytest.raises(ProtocolViolationError, match="have no end"):
        await pages_of(fake, 2)


async def test_where_there_are_no_pages_it_is_said() -> None:
    fake = Paging({"a": 1})
    narrowed = fake_broker(fake, {ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, -1)})
    async with narrowed as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        with pytest.raises(UnsupportedByBrokerError):
            [page async for page in admin.topics.pages(1)]
