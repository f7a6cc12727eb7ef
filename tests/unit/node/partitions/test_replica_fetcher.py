"""What a follower makes of the answers of its leader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.held_threads import HeldThreads
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, batch, topic_records

from penstock.client.connection import Taker
from penstock.client.errors import ConnectionFailedError
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.metadata.image import PartitionImage
from penstock.node.partitions import replica_fetcher
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replica_fetcher import Follower, ReplicaFetcher
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import FetchFrame, FetchPartitionResult, encode_fetch_response, parse_fetch
from penstock.protocol.requests.following import Key
from penstock.protocol.requests.framing import read_request_header
from penstock.replication.quota import ReplicationQuota

LEADER = NODE_ID + 1
KEY = (TOPIC_ID.bytes, 0)
ADDRESS = Address("leader", 9092)


class Leader:
    """The connection to a leader's broker, which says what the test wants."""

    def __init__(self) -> None:
        self.closed = False
        self.address = ADDRESS
        self.asked: list[FetchFrame] = []
        self.taker: Taker | None = None
        self.on_offsets_asked: Callable[[], object] = list

    def version_for(self, _: ApiKey) -> int:
        return 17

    def exchange(self, _: ApiKey, encode: Callable[[int], bytes], taker: Taker) -> None:
        frame = memoryview(encode(5))[4:]
        position = read_request_header(frame)[-1]
        self.asked.append(parse_fetch(frame, position, 17))
        self.taker = taker

    async def request(self, *_: object) -> ListOffsetsResponse:
        self.on_offsets_asked()
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[ListOffsetsPartitionResponse()])])

    def abort(self, why: str) -> None:
        self.closed = True
        if self.taker is not None:
            self.taker.fail(ConnectionFailedError(why))

    async def close(self) -> None:
        self.abort("closed")

    def last_asked(self) -> dict[Key, int]:
        """From where on the last request asks for what."""
        topics = self.asked[-1].topics
        return {(topic.topic_id.bytes, one.index): one.fetch_offset for topic in topics for one in topic.partitions}


class Followed:
    """A partition that this node follows in epoch 4, and its fetcher, which has asked."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.now_ms = 0
        self.node = node = Node(directory, settings)
        node.open(*topic_records(partitions=2))
        self.partition: IsrPartition = node.partition()
        self.obey(4)
        self.leader = Leader()
        self.address = ADDRESS
        self.fetcher = ReplicaFetcher(
            LEADER,
            Follower(
                node_id=NODE_ID,
                cluster_id="cluster",
                lease=node.context.lease,
                config=node.broker.config,
                settings=ClientSettings(now_ms=lambda: self.now_ms),
                disks=node.directories,
                address_of=lambda _: self.address,
            ),
        )
        self.fetcher._link = Link(self._connect)
        self.fetcher.follow(self.partition)

    async def _connect(self, _: Address) -> Any:
        return self.leader

    def obey(self, leader_epoch: int, partition: IsrPartition | None = None, *, is_in_sync: bool = True) -> None:
        replicas = (LEADER, NODE_ID)
        isr = replicas if is_in_sync else replicas[:1]
        image = PartitionImage(LEADER, leader_epoch, leader_epoch, replicas, isr)
        (partition or self.partition).obey(NODE_ID, image, 0)

    async def asked(self, times: int) -> None:
        """Until so many requests went out."""
        while len(self.leader.asked) < times:
            await asyncio.sleep(0)

    async def take(
        self, records: bytes = b"", error: ErrorCode = ErrorCode.NONE, session_id: int = 7, high_watermark: int = 1
    ) -> int:
        """The leader answers; where the log ends then."""
        data = FetchPartitionResult(0, error, high_watermark, log_start_offset=0, records=records)
        self.answer([data], session_id)
        return self.partition.log.log_end_offset

    def answer(self, data: list[FetchPartitionResult], session_id: int = 7) -> None:
        """The leader says this."""
        (response,) = encode_fetch_response([(TOPIC_ID, data)], 17, 5, session_id=session_id)
        assert isinstance(response, bytes)
        assert self.leader.taker is not None
        self.leader.taker.take(memoryview(response)[4:])


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    one = Followed(tmp_path)
    await one.asked(1)
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
    assert followed.leader.last_asked() == {KEY: 1}


async def test_a_log_that_never_had_a_record_is_followed_without_being_read_in(followed: Followed) -> None:
    """A node may follow thousands of them."""
    await followed.take(high_watermark=0)
    (asked,) = followed.leader.asked[0].topics[0].partitions
    assert (asked.fetch_offset, asked.log_start_offset, asked.last_fetched_epoch) == (0, 0, -1)
    log = followed.partition.log
    assert (log.is_loaded, log.latest_epoch) == (False, -1)
    assert await followed.take(batch(b"a")) == 1
    log.append_as_leader(memoryview(bytearray(batch(b"b"))), leader_epoch=4, now_ms=1_700_000_000_000)
    assert log.latest_epoch == 4


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
    assert followed.leader.last_asked() == {KEY: 2}


async def test_where_logs_part_is_not_believed_of_a_log_that_changed_since(followed: Followed) -> None:
    followed.partition.append_fetched(batch(b"a", b"b"), 0, 0)
    followed.answer([FetchPartitionResult(0, diverging_epoch=(0, 1))])
    assert followed.partition.log.log_end_offset == 2


async def test_nothing_is_asked_before_all_records_are_taken_from_where_they_were_received(followed: Followed) -> None:
    """An answer to a question in between would come to lie in their place."""
    ends: list[int] = []
    followed.leader.on_offsets_asked = lambda: ends.append(followed.partition.log.log_end_offset)
    other = followed.node.partition(index=1)
    followed.obey(4, other)
    followed.fetcher.follow(other)
    await followed.take()
    assert followed.leader.last_asked() == {(TOPIC_ID.bytes, 1): 0}
    followed.answer(
        [
            FetchPartitionResult(1, ErrorCode.OFFSET_OUT_OF_RANGE),
            FetchPartitionResult(0, high_watermark=1, log_start_offset=0, records=bytes(batch(b"a"))),
        ]
    )
    await followed.asked(3)
    assert ends
    assert set(ends) == {1}


@pytest.mark.parametrize("session_id", [7, 0])
async def test_an_offset_that_is_not_there_is_looked_into_with_a_session_and_without(
    followed: Followed, session_id: int
) -> None:
    """A leader without room for a session forgets at once what it was asked, and the follower asked it for ever."""
    asked: list[int] = []
    followed.leader.on_offsets_asked = lambda: asked.append(len(followed.leader.asked))
    await followed.take(error=ErrorCode.OFFSET_OUT_OF_RANGE, session_id=session_id)
    await followed.asked(2)
    assert asked[:1] == [1]


async def test_where_a_log_ends_is_not_believed_of_a_leader_of_an_earlier_epoch(followed: Followed) -> None:
    """The leader of before ends at 0; this one has all that is committed, and nothing is cut."""
    await followed.take(batch(b"a"))
    await followed.asked(2)
    followed.leader.on_offsets_asked = lambda: followed.obey(5)
    await followed.take(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    while not followed.fetcher._resting and followed.partition.log.log_end_offset:
        await asyncio.sleep(0)
    assert followed.partition.log.log_end_offset == 1


async def test_the_next_request_goes_out_in_the_turn_in_which_the_answer_has_come(followed: Followed) -> None:
    await followed.take(batch(b"a"))
    assert len(followed.leader.asked) == 2


async def test_very_much_is_appended_in_several_turns(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    other = followed.node.partition(index=1)
    followed.obey(4, other)
    followed.fetcher.follow(other)
    await followed.take()
    monkeypatch.setattr(replica_fetcher, "APPENDED_AT_ONCE", 1)
    records = bytes(batch(b"a"))
    followed.answer([FetchPartitionResult(index, high_watermark=1, records=records) for index in (0, 1)])
    assert [one.log.log_end_offset for one in (followed.partition, other)] == [1, 0]
    assert len(followed.leader.asked) == 2, "the records are still where the next answer would come"
    await followed.asked(3)
    assert [one.log.log_end_offset for one in (followed.partition, other)] == [1, 1]


async def test_a_session_belongs_to_one_connection(followed: Followed) -> None:
    def session() -> tuple[int, int]:
        return followed.leader.asked[-1].session_id, followed.leader.asked[-1].session_epoch

    assert session() == (0, 0)
    await followed.take(batch(b"a"))
    assert session() == (7, 1)
    await followed.take(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    await followed.asked(3)
    assert session() == (7, 2), "over the same connection it goes on"
    elsewhere = Address("elsewhere", 9092)
    followed.leader = Leader()
    followed.leader.address = followed.address = elsewhere
    (response,) = encode_fetch_response([], 17, 5, session_id=7)
    assert isinstance(response, bytes)
    followed.fetcher.take(memoryview(response)[4:])
    await followed.asked(1)
    assert session() == (7, 0), "it takes the place of the other one"


async def test_a_leader_that_does_not_answer_in_time_is_asked_no_longer(tmp_path: Path) -> None:
    followed = Followed(tmp_path, {"replica.socket.timeout.ms": "1"})
    await followed.asked(1)
    while not followed.leader.closed:
        await asyncio.sleep(0)
    await followed.fetcher.stop()


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
    assert len(followed.leader.asked) == 1
    followed.fetcher._go_on(KEY)
    await followed.asked(2)
    assert followed.leader.last_asked() == {KEY: 0}


async def test_a_leader_that_has_not_heard_of_it_yet_is_asked_again_soon(followed: Followed) -> None:
    await followed.take(error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    (pause,) = followed.fetcher._resting.values()
    assert pause.when() - asyncio.get_running_loop().time() < 0.5
    for _ in range(10):
        assert followed.fetcher._passing_ms(KEY) <= 1_000
    assert followed.fetcher._passing_ms(KEY) == 1_000, "and then no sooner than after any other refusal"
    followed.fetcher._go_on(KEY)
    await followed.asked(2)
    await followed.take(batch(b"a"))
    assert not followed.fetcher._passing


# throttled


def throttle(followed: Followed, bytes_per_s: int) -> None:
    """As a replica that is not in sync."""
    followed.obey(4, is_in_sync=False)
    followed.partition.follower_quota = ReplicationQuota(windows=11, window_ms=1000, bytes_per_s=bytes_per_s)


def fetches(followed: Followed) -> bool:
    """Whether the partition is asked for."""
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


async def test_a_replica_in_sync_is_not_held_back_where_a_new_leader_has_told_nothing_yet(followed: Followed) -> None:
    throttle(followed, 1)
    assert followed.partition.follower_quota is not None
    followed.partition.follower_quota.record(9_000, 0)
    followed.obey(5)
    followed.fetcher.follow(followed.partition)
    assert fetches(followed)
    assert not followed.fetcher._resting, "not even for a moment"
    followed.obey(6, is_in_sync=False)
    followed.fetcher.follow(followed.partition)
    assert not fetches(followed)


async def test_a_replica_that_may_come_in_sync_is_not_held_back(followed: Followed) -> None:
    throttle(followed, 1)
    await followed.take(batch(b"a"), high_watermark=1)
    await followed.take(high_watermark=9)
    assert fetches(followed), "it had all that was committed, and may come in sync"


async def test_what_is_not_throttled_does_not_count(followed: Followed) -> None:
    records = batch(b"a")
    await followed.take(records, high_watermark=5)
    throttle(followed, 1)
    await followed.take(high_watermark=5)
    assert fetches(followed)


# full


async def test_a_partition_on_a_full_disk_rests_until_there_is_room(followed: Followed) -> None:
    followed.obey(4, is_in_sync=False)
    followed.partition.log.health.is_full = True
    followed.fetcher.follow(followed.partition)
    assert not fetches(followed)
    followed.partition.log.health.is_full = False
    followed.fetcher._go_on(KEY)
    assert fetches(followed)


async def test_a_replica_in_sync_goes_on_where_its_disk_is_full(followed: Followed) -> None:
    followed.partition.log.health.is_full = True
    followed.obey(5)
    followed.fetcher.follow(followed.partition)
    assert fetches(followed), "it may have all that there is"


FLUSHES_EACH = {"log.flush.interval.messages": "1"}


async def turns() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_the_next_request_waits_until_what_came_is_flushed(tmp_path: Path) -> None:
    followed = Followed(tmp_path, FLUSHES_EACH)
    threads = HeldThreads.of(followed.node)
    await followed.asked(1)
    assert await followed.take(batch(b"a")) == 1
    await turns()
    assert len(followed.leader.asked) == 1, "the leader would take it for kept"
    threads.do()
    await followed.asked(2)
    assert followed.leader.last_asked() == {KEY: 1}
    await followed.fetcher.stop()


async def test_a_request_goes_without_a_partition_whose_disk_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_fetcher, "FLUSH_PATIENCE_S", 0.0)
    followed = Followed(tmp_path, FLUSHES_EACH)
    threads = HeldThreads.of(followed.node)
    other = followed.node.partition(index=1)
    followed.obey(4, other)
    followed.fetcher.follow(other)
    await followed.asked(1)
    rows = [FetchPartitionResult(index, records=batch(b"a") if not index else b"") for index in range(2)]
    followed.answer(rows)
    await followed.asked(2)
    (forgotten,) = followed.leader.asked[-1].forgotten_topics
    assert KEY not in followed.leader.last_asked()
    assert (forgotten.topic_id, forgotten.partitions) == (TOPIC_ID, [0])
    threads.do()
    await turns()
    followed.answer([])
    await followed.asked(3)
    assert followed.leader.last_asked() == {KEY: 1}
    await followed.fetcher.stop()


async def test_a_connection_that_is_lost_while_flushes_are_waited_for_is_opened_anew(tmp_path: Path) -> None:
    followed = Followed(tmp_path, FLUSHES_EACH)
    threads = HeldThreads.of(followed.node)
    await followed.asked(1)
    await followed.take(batch(b"a"))
    await turns()
    followed.leader.abort("gone")
    followed.leader.closed = False
    threads.do()
    await followed.asked(2)
    assert followed.leader.last_asked() == {KEY: 1}
    await followed.fetcher.stop()
