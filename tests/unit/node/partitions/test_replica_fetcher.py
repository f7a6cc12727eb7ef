"""What a follower makes of the answers of its leader."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, batch, topic_records

from penstock.client.settings import ClientSettings
from penstock.metadata.image import PartitionImage
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replica_fetcher import Follower, ReplicaFetcher
from penstock.protocol.errors import ErrorCode
from penstock.protocol.fetch import DivergingEpoch, FollowedPartition, FollowedTopic, FollowerFetchResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.replication.quota import ReplicationQuota

LEADER = NODE_ID + 1
KEY = (TOPIC_ID, 0)


class Followed:
    """A partition that this node follows in epoch 4, and its fetcher."""

    def __init__(self, directory: Path) -> None:
        self.now_ms = 0
        self.node = node = Node(directory)
        node.open(*topic_records(partitions=2))
        self.partition: Partition = node.partition()
        self.obey(4)
        self.fetcher = ReplicaFetcher(
            LEADER,
            Follower(
                node_id=NODE_ID,
                broker_epoch=lambda: 1,
                config=node.broker.config,
                settings=ClientSettings(now_ms=lambda: self.now_ms),
                address_of=lambda _: None,
            ),
        )
        self.fetcher._task.cancel()  # the test says what the leader answers
        self.fetcher.follow(self.partition)
        self.fetcher._session.next()

    def obey(self, leader_epoch: int, partition: Partition | None = None) -> None:
        replicas = (LEADER, NODE_ID)
        (partition or self.partition).obey(
            NODE_ID, PartitionImage(LEADER, leader_epoch, leader_epoch, replicas, replicas), 0
        )

    async def take(
        self, records: bytes = b"", error: ErrorCode = ErrorCode.NONE, session_id: int = 7, high_watermark: int = 1
    ) -> int:
        """The leader answers; where the log ends then."""
        data = FollowedPartition(
            index=0,
            error_code=error,
            high_watermark=high_watermark,
            log_start_offset=0,
            records=records,
        )
        await self.answer(data, session_id)
        return self.partition.log.log_end_offset

    async def answer(self, data: FollowedPartition, session_id: int = 7) -> None:
        """The leader says this."""
        response = FollowerFetchResponse(
            session_id=session_id, topics=[FollowedTopic(topic_id=TOPIC_ID, partitions=[data])]
        )
        await self.fetcher._take(response, None)  # type: ignore[arg-type]  # it is for what is out of range only
        self.fetcher._session.answered(session_id)


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    one = Followed(tmp_path)
    yield one
    await one.fetcher.stop()


async def test_records_are_appended_and_committed_as_far_as_the_leader_says(followed: Followed) -> None:
    assert await followed.take(batch(b"a", b"b")) == 2
    assert followed.partition.high_watermark == 1


@pytest.mark.parametrize("session_id", [7, 0])
async def test_the_next_request_goes_on_from_there_with_a_session_and_without(
    followed: Followed, session_id: int
) -> None:
    await followed.take(batch(b"a"), session_id=session_id)
    ((key, position),) = followed.fetcher._session.next().positions
    assert (key, position.fetch_offset) == (KEY, 1)


async def test_what_a_leader_said_in_an_earlier_epoch_is_not_appended(followed: Followed) -> None:
    followed.obey(5)
    followed.fetcher.follow(followed.partition)
    assert await followed.take(batch(b"old")) == 0


async def test_what_was_asked_for_before_the_log_changed_is_not_appended_but_asked_for_again(
    followed: Followed,
) -> None:
    """The log got its records otherwise while the request was under way: the answer would append them twice."""
    followed.partition.append_fetched(batch(b"a", b"b"), 0, 0)
    assert await followed.take(batch(b"a")) == 2
    assert not followed.fetcher._resting
    ((key, position),) = followed.fetcher._session.next().positions
    assert (key, position.fetch_offset) == (KEY, 2)


async def test_where_logs_part_is_not_believed_of_a_log_that_changed_since(followed: Followed) -> None:
    followed.partition.append_fetched(batch(b"a", b"b"), 0, 0)
    data = FollowedPartition(index=0, diverging_epoch=DivergingEpoch(epoch=0, end_offset=1))
    await followed.answer(data)
    assert followed.partition.log.log_end_offset == 2


async def test_nothing_is_asked_before_all_records_are_taken_from_where_they_were_received(followed: Followed) -> None:
    """An answer to a question in between would come to lie in their place."""
    ends: list[int] = []

    class Asked:
        async def request(self, *_: object) -> ListOffsetsResponse:
            ends.append(followed.partition.log.log_end_offset)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[ListOffsetsPartitionResponse()])])

    other = followed.node.partition(index=1)
    followed.obey(4, other)
    followed.fetcher.follow(other)
    followed.fetcher._session.next()
    answers = [
        FollowedPartition(index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        FollowedPartition(index=0, high_watermark=1, log_start_offset=0, records=memoryview(batch(b"a"))),
    ]
    response = FollowerFetchResponse(session_id=7, topics=[FollowedTopic(topic_id=TOPIC_ID, partitions=answers)])
    await followed.fetcher._take(response, Asked())  # type: ignore[arg-type]  # all that is used of a connection
    assert ends
    assert set(ends) == {1}


async def test_what_is_followed_no_longer_is_not_appended(followed: Followed) -> None:
    followed.fetcher.leave(followed.partition)
    assert await followed.take(batch(b"late")) == 0


async def test_damaged_records_are_not_appended_and_the_partition_rests(followed: Followed) -> None:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    assert await followed.take(bytes(damaged)) == 0
    assert list(followed.fetcher._resting) == [KEY]


async def test_a_partition_whose_leader_refuses_rests_and_goes_on(followed: Followed) -> None:
    await followed.take(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert list(followed.fetcher._resting) == [KEY]
    assert list(followed.fetcher._session.next().positions) == []
    followed.fetcher._session.answered(7)
    followed.fetcher._go_on(KEY)
    assert [key for key, _ in followed.fetcher._session.next().positions] == [KEY]


# throttled


def throttle(followed: Followed, bytes_per_s: int) -> None:
    followed.partition.follower_quota = ReplicationQuota(windows=11, window_ms=1000, bytes_per_s=bytes_per_s)


def fetches(followed: Followed) -> bool:
    """Whether the partition is in the session after the next request."""
    followed.fetcher._session.next()
    followed.fetcher._session.answered(7)
    return len(followed.fetcher._session) == 1


async def test_a_throttled_partition_rests_while_too_much_has_passed(followed: Followed) -> None:
    records = batch(b"a")
    throttle(followed, len(records) // 2)
    assert await followed.take(records, high_watermark=5) == 1, "what came is taken"
    assert not fetches(followed)
    followed.now_ms = 1900
    followed.fetcher._go_on(KEY)
    assert not fetches(followed), "it is still too much"
    (pause,) = followed.fetcher._resting.values()
    assert pause.when() - asyncio.get_running_loop().time() < 0.5, "no longer than the limit needs"
    followed.now_ms = 2100
    followed.fetcher._go_on(KEY)
    assert fetches(followed)


async def test_a_throttled_partition_goes_on_below_the_limit(followed: Followed) -> None:
    records = batch(b"a")
    throttle(followed, len(records))
    await followed.take(records, high_watermark=5)
    assert fetches(followed)


async def test_a_replica_that_has_all_that_is_committed_is_not_held_back(followed: Followed) -> None:
    throttle(followed, 1)
    await followed.take(batch(b"a"), high_watermark=1)
    assert fetches(followed)


async def test_what_is_not_throttled_does_not_count(followed: Followed) -> None:
    records = batch(b"a")
    await followed.take(records, high_watermark=5)
    throttle(followed, 1)
    await followed.take(high_watermark=5)
    assert fetches(followed)
