"""What a follower makes of the answers of its leader."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.node.followed import KEY, Followed, Leader
from tests.unit.node.on_disk import TOPIC_ID, batch

from penstock.node.partitions import replica_fetcher
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.fetch import FetchPartitionResult, encode_fetch_response
from penstock.replication.quota import ReplicationQuota


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
