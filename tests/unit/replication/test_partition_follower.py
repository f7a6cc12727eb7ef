"""A follower knows as much as committed as its leader told it, up to the end of its own log."""

from __future__ import annotations

from penstock.replication.committed import Committed
from penstock.replication.partition_follower import PartitionFollower


def a_reader() -> None: ...


def following(high_watermark: int = 0) -> PartitionFollower:
    return PartitionFollower(2, 4, Committed(high_watermark))


def test_the_high_watermark_is_the_leaders_as_far_as_the_log_goes() -> None:
    follower = following()
    follower.on_appended(log_end_offset=5, leader_high_watermark=9)
    assert follower.committed.high_watermark == 5
    follower.on_appended(log_end_offset=20, leader_high_watermark=9)
    assert follower.committed.high_watermark == 9


def test_a_new_leader_that_knows_of_less_does_not_move_it_back() -> None:
    follower = following(9)
    assert follower.on_appended(log_end_offset=20, leader_high_watermark=4) == ()
    assert follower.committed.high_watermark == 9


def test_readers_are_due_when_it_moves_and_when_the_epoch_is_over() -> None:
    follower = following()
    follower.committed.waits.add(3, a_reader)
    follower.committed.waits.add(6, a_reader)
    assert follower.on_appended(5, 5) == [a_reader]
    assert follower.on_epoch_over() == [a_reader]


def test_a_follower_may_be_held_back_until_it_has_had_all_that_was_committed() -> None:
    follower = following()
    assert follower.may_be_held_back, "this leader has told nothing yet"
    follower.on_appended(log_end_offset=8, leader_high_watermark=9)
    assert follower.may_be_held_back
    follower.on_appended(log_end_offset=9, leader_high_watermark=9)
    assert not follower.may_be_held_back, "it is about to come in sync"
    follower.on_appended(log_end_offset=9, leader_high_watermark=12)
    assert not follower.may_be_held_back, "and the leader waits for it"


def test_who_is_in_sync_is_not_held_back_whatever_the_leader_has_told() -> None:
    follower = PartitionFollower(2, 4, Committed(0), is_in_sync=True)
    assert not follower.may_be_held_back
    follower.on_metadata(is_in_sync=False)
    assert follower.may_be_held_back, "it has lagged for too long"
    follower.on_metadata(is_in_sync=True)
    assert not follower.may_be_held_back


def test_a_follower_knows_whom_it_follows_and_what_that_has_told_last() -> None:
    follower = following(7)
    assert (follower.leader_id, follower.leader_epoch, follower.leader_high_watermark) == (2, 4, -1)
    follower.on_appended(log_end_offset=20, leader_high_watermark=9)
    follower.on_appended(log_end_offset=20, leader_high_watermark=4)
    assert follower.leader_high_watermark == 4
