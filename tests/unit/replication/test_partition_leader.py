"""The high watermark follows the in-sync replicas, and an event wakes who is due and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.replication.committed import Committed
from penstock.replication.partition_leader import UNKNOWN, PartitionLeader

ME, SECOND, THIRD = 1, 2, 3
BROKER_EPOCH = 77


def a_follower() -> None: ...


def a_reader() -> None: ...


def a_producer() -> None: ...


def leading(
    *isr: int, end: int = 10, high_watermark: int = 0, replicas: Sequence[int] = (ME, SECOND, THIRD), needed: int = 1
) -> PartitionLeader:
    return PartitionLeader(
        ME,
        4,
        0,
        replicas,
        isr,
        log_end_offset=end,
        committed=Committed(high_watermark),
        min_insync_replicas=needed,
        now_ms=1000,
    )


def fetch(leader: PartitionLeader, replica: int, offset: int, now_ms: int = 2000) -> Sequence[Callable[[], None]]:
    return leader.on_fetched(replica, offset, BROKER_EPOCH, now_ms)


def test_alone_an_append_is_committed_at_once() -> None:
    leader = leading(ME, end=5, high_watermark=3)
    assert leader.high_watermark == 5
    leader.on_appended(8)
    assert leader.high_watermark == 8


def test_what_is_not_flushed_is_not_committed() -> None:
    """Where a flush is under way; followers may have it meanwhile, and those who wait for the log's end go on."""
    leader = leading(ME, SECOND, end=5)
    assert not leader.kept.is_stuck
    leader.committed.waits.add(8, a_reader)
    leader.kept.waits.add(7, a_producer)
    leader.appended.add(8, a_follower)
    assert list(leader.on_appended(8, False)) == [a_follower]
    assert not fetch(leader, SECOND, 8)
    assert leader.high_watermark == 5
    assert list(leader.on_kept(7)) == [a_producer]
    assert leader.high_watermark == 7
    assert list(leader.on_kept(8)) == [a_reader]
    leader.kept.waits.add(9, a_producer)
    assert list(leader.on_epoch_over()) == [a_producer]


def test_a_leader_starts_from_what_it_knew_as_far_as_its_log_goes() -> None:
    assert leading(ME, SECOND, end=10, high_watermark=7).high_watermark == 7
    assert leading(ME, SECOND, end=10, high_watermark=12).high_watermark == 10


def test_it_waits_for_who_is_in_sync_or_may_come_in_at_any_time() -> None:
    fourth, fifth = 4, 5
    leader = leading(ME, SECOND, replicas=(ME, SECOND, THIRD, fourth, fifth))
    everybody = range(ME, fifth + 1)
    assert [one for one in everybody if leader.waits_for(one)] == [ME, SECOND]
    leader.on_proposed((ME, THIRD))
    assert [one for one in everybody if leader.waits_for(one)] == [ME, SECOND, THIRD]
    leader.on_joining((fourth,))
    assert [one for one in everybody if leader.waits_for(one)] == [ME, SECOND, THIRD, fourth]
    leader.on_metadata(1, leader.replicas, (ME, THIRD))
    assert [one for one in everybody if leader.waits_for(one)] == [ME, THIRD, fourth]


def test_a_replica_that_has_not_fetched_holds_the_high_watermark() -> None:
    leader = leading(ME, SECOND, THIRD, high_watermark=7)
    leader.on_appended(12)
    fetch(leader, SECOND, 12)
    assert leader.high_watermark == 7
    fetch(leader, THIRD, 9)
    assert leader.high_watermark == 9
    fetch(leader, THIRD, 12)
    assert leader.high_watermark == 12


def test_a_replica_that_leaves_the_isr_lets_go() -> None:
    leader = leading(ME, SECOND, high_watermark=7)
    leader.on_metadata(1, (ME, SECOND), (ME,))
    assert (leader.high_watermark, leader.partition_epoch) == (10, 1)


def test_the_high_watermark_does_not_go_back_when_a_replica_joins() -> None:
    leader = leading(ME)
    fetch(leader, SECOND, 4)
    leader.on_metadata(1, (ME, SECOND), (ME, SECOND))
    leader.on_appended(11)
    assert leader.high_watermark == 10


def test_a_replica_that_may_have_joined_counts() -> None:
    leader = leading(ME)
    fetch(leader, SECOND, 10)
    leader.on_proposed((ME, SECOND))
    leader.on_appended(12)
    assert leader.high_watermark == 10, "the controller may have committed it: who leads next may be that replica"
    assert leader.on_refused() == ()
    assert leader.high_watermark == 12


def test_a_replica_that_may_have_left_counts_on() -> None:
    leader = leading(ME, SECOND)
    leader.on_proposed((ME,))
    leader.on_appended(12)
    assert leader.high_watermark == 0
    assert leader.maximal_isr == (ME, SECOND)
    leader.on_metadata(1, (ME, SECOND), (ME,))
    assert leader.high_watermark == 12


def test_a_change_of_the_metadata_ends_a_proposal() -> None:
    leader = leading(ME)
    leader.on_proposed((ME, SECOND))
    leader.on_metadata(1, (ME, SECOND, THIRD), (ME, THIRD))
    assert (leader.proposed_isr, leader.maximal_isr) == (None, (ME, THIRD))


def test_with_too_few_in_sync_nothing_more_is_committed() -> None:
    leader = leading(ME, SECOND, needed=2)
    fetch(leader, SECOND, 10)
    leader.on_metadata(1, (ME, SECOND, THIRD), (ME,))
    leader.on_appended(12)
    assert leader.high_watermark == 10
    leader.on_configured(1)
    assert leader.high_watermark == 12


def test_no_more_are_needed_than_there_are() -> None:
    leader = leading(ME, replicas=(ME,), needed=3)
    assert leader.needed_replicas == 1
    assert leader.high_watermark == 10


def test_a_fetch_tells_where_a_replica_is_and_since_when_it_has_everything() -> None:
    leader = leading(ME, SECOND)
    second, third = leader.followers[SECOND], leader.followers[THIRD]
    assert (second.last_caught_up_ms, third.last_caught_up_ms) == (1000, UNKNOWN)
    fetch(leader, SECOND, 8, now_ms=2000)
    assert (second.log_end_offset, second.last_fetch_ms, second.broker_epoch) == (8, 2000, BROKER_EPOCH)
    assert second.last_caught_up_ms == 1000
    leader.on_appended(20)
    fetch(leader, SECOND, 10, now_ms=3000)
    assert second.last_caught_up_ms == 2000, "it has what there was when it asked the last time"
    fetch(leader, SECOND, 20, now_ms=4000)
    assert second.last_caught_up_ms == 4000


def test_another_life_of_a_broker_has_yet_to_catch_up() -> None:
    leader = leading(ME, SECOND)
    fetch(leader, SECOND, 10, now_ms=2000)
    leader.on_appended(20)
    leader.on_fetched(SECOND, 10, BROKER_EPOCH + 1, 3000)
    assert leader.followers[SECOND].last_caught_up_ms == UNKNOWN
    leader.on_fetched(SECOND, 20, BROKER_EPOCH + 1, 4000)
    assert leader.followers[SECOND].last_caught_up_ms == 4000


def test_a_replica_that_left_the_isr_has_yet_to_catch_up() -> None:
    leader = leading(ME, SECOND, THIRD)
    leader.on_metadata(1, (ME, SECOND, THIRD), (ME, THIRD))
    assert leader.followers[SECOND].last_caught_up_ms == UNKNOWN
    assert leader.followers[THIRD].last_caught_up_ms == 1000


def test_a_replica_that_was_taken_away_is_not_heard() -> None:
    leader = leading(ME, SECOND)
    leader.on_metadata(1, (ME,), (ME,))
    assert fetch(leader, SECOND, 3) == ()
    assert leader.high_watermark == 10


def test_an_append_wakes_followers_and_a_fetch_who_waits_for_commits() -> None:
    leader = leading(ME, SECOND, replicas=(ME, SECOND))
    called: list[str] = []
    leader.appended.add(11, lambda: called.append("follower"))
    leader.committed.waits.add(11, lambda: called.append("acks=all"))
    leader.committed.waits.add(12, lambda: called.append("consumer"))
    for due, told in (
        (leader.on_appended(11), "follower"),
        (fetch(leader, SECOND, 11), "acks=all"),
        (leader.on_appended(13), None),
        (fetch(leader, SECOND, 13), "consumer"),
    ):
        for waiter in due:
            waiter()
        assert called == ([] if told is None else [told])
        called.clear()


def test_alone_an_append_wakes_both() -> None:
    leader = leading(ME, replicas=(ME,))
    leader.appended.add(11, a_follower)
    leader.committed.waits.add(11, a_reader)
    assert leader.on_appended(11) == [a_follower, a_reader]


def test_the_end_of_an_epoch_wakes_everybody() -> None:
    leader = leading(ME, SECOND)
    leader.appended.add(100, a_follower)
    leader.committed.waits.add(200, a_reader)
    assert leader.on_epoch_over() == [a_follower, a_reader]
    assert not leader.appended
    assert not leader.committed.waits


def test_what_is_known_of_a_follower_outlives_a_change_of_the_partition() -> None:
    leader = leading(ME, SECOND, THIRD, high_watermark=2)
    fetch(leader, SECOND, 8)
    fetch(leader, THIRD, 9)
    leader.on_metadata(3, (ME, SECOND, THIRD), (ME, THIRD))
    assert (leader.followers[SECOND].log_end_offset, leader.followers[THIRD].log_end_offset) == (8, 9)
    assert leader.high_watermark == 9


def test_a_leader_begins_with_what_the_metadata_says() -> None:
    leader = PartitionLeader(ME, 4, 3, (ME, SECOND), (ME,), log_end_offset=10, committed=Committed(0))
    assert (leader.node_id, leader.leader_epoch, leader.partition_epoch) == (ME, 4, 3)
    state = leader.followers[SECOND]
    assert (state.log_end_offset, state.broker_epoch, state.last_fetch_ms, state.last_caught_up_ms) == (UNKNOWN,) * 4


def test_a_replica_that_a_change_brings_is_followed_from_then_on() -> None:
    leader = leading(ME, replicas=(ME, SECOND))
    leader.on_metadata(1, (ME, SECOND, THIRD), (ME,))
    fetch(leader, THIRD, 7)
    assert leader.followers[THIRD].log_end_offset == 7


def test_who_is_in_sync_without_being_a_replica_has_nothing_to_tell() -> None:
    leader = leading(ME, THIRD, end=5, high_watermark=3, replicas=(ME, SECOND))
    leader.on_appended(12)
    assert leader.high_watermark == 3
    leader.on_metadata(1, (ME, SECOND), (ME,))
    assert leader.high_watermark == 12


def test_a_fetch_tells_who_waits_for_a_deletion_where_the_followers_log_begins() -> None:
    leader = leading(ME, SECOND)
    leader.deletions.add(4, a_reader)
    leader.deletions.add(5, a_follower)
    assert leader.on_fetched(SECOND, 10, BROKER_EPOCH, 2000, log_start_offset=3) == []
    assert leader.on_fetched(SECOND, 10, BROKER_EPOCH, 2000, log_start_offset=4) == [a_reader]
    assert leader.on_fetched(SECOND, 10, BROKER_EPOCH, 2000, log_start_offset=4) == ()
    assert leader.on_fetched(SECOND, 10, BROKER_EPOCH, 2000, log_start_offset=6) == [a_follower]
