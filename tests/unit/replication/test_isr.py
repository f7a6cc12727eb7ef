"""Who comes into the ISR and who goes."""

import pytest

from penstock.replication.committed import Committed
from penstock.replication.isr import IsrProposal, Watch, grown_isr, keeps_up, proposal
from penstock.replication.partition_leader import PartitionLeader

LAG_MS = 1_000


def leader(isr: tuple[int, ...], *, end: int = 10, high_watermark: int = 10) -> PartitionLeader:
    """Node 1 leads replicas 1, 2 and 3 in epoch 4, which began at `end`; it is 0 ms."""
    return PartitionLeader(1, 4, 7, (1, 2, 3), isr, log_end_offset=end, committed=Committed(high_watermark), now_ms=0)


@pytest.mark.parametrize(("offset", "comes_in"), [(9, False), (10, True), (11, True)])
def test_a_replica_comes_in_at_the_high_watermark(offset: int, comes_in: bool) -> None:
    one = leader((1, 3), end=10)
    one.on_appended(12)
    one.on_fetched(2, offset, 55, 0)
    assert grown_isr(one, 2) == ((1, 3, 2) if comes_in else None)


def test_a_replica_comes_in_at_the_start_of_the_leaders_epoch_and_not_before() -> None:
    one = leader((1, 3), end=10, high_watermark=5)
    one.on_fetched(2, 9, 55, 0)
    assert grown_isr(one, 2) is None
    one.on_fetched(2, 10, 55, 0)
    assert grown_isr(one, 2) == (1, 3, 2)


def test_one_change_is_proposed_at_a_time() -> None:
    one = leader((1,))
    one.on_fetched(2, 10, 55, 0)
    one.on_proposed((1, 3))
    assert grown_isr(one, 2) is None


def test_who_is_in_sync_or_no_replica_does_not_come_in() -> None:
    one = leader((1, 2))
    one.on_fetched(2, 10, 55, 0)
    one.on_fetched(9, 10, 55, 0)
    assert (grown_isr(one, 2), grown_isr(one, 9)) == (None, None)


def test_a_proposal_names_the_broker_epochs_that_are_known() -> None:
    one = leader((1, 3))
    one.on_fetched(2, 10, 55, 0)
    assert proposal(one, (1, 3, 2), 44) == IsrProposal(4, 7, (1, 3, 2), (44, -1, 55))


def test_a_follower_that_lags_for_too_long_goes() -> None:
    one = leader((1, 2, 3))
    for replica in (2, 3):
        one.on_fetched(replica, 10, 55, 0)
    watch = Watch(one, 500)
    one.on_appended(12)
    one.on_fetched(3, 12, 55, 600)
    assert watch.shrunk_isr(one, 500 + LAG_MS, LAG_MS) is None
    assert not watch.is_over(one)
    assert watch.shrunk_isr(one, 501 + LAG_MS, LAG_MS) == (1, 3)


def test_a_follower_that_had_everything_when_an_append_came_was_caught_up_then() -> None:
    """However long ago it was that it last had something to fetch."""
    one = leader((1, 2))
    one.on_fetched(2, 10, 55, 0)
    watch = Watch(one, 100_000)
    one.on_appended(12)
    assert watch.shrunk_isr(one, 100_000 + LAG_MS, LAG_MS) is None
    assert watch.shrunk_isr(one, 100_001 + LAG_MS, LAG_MS) == (1,)


def test_a_follower_that_never_fetches_goes_a_lag_after_the_leader_began() -> None:
    one = leader((1, 2))
    watch = Watch(one, 0)
    assert watch.shrunk_isr(one, LAG_MS, LAG_MS) is None
    assert watch.shrunk_isr(one, LAG_MS + 1, LAG_MS) == (1,)


def test_a_follower_that_keeps_up_without_ever_having_everything_stays() -> None:
    one = leader((1, 2))
    watch = Watch(one, 0)
    for step in range(1, 20):
        now_ms = step * 400
        before = one.log_end_offset
        one.on_appended(before + 5)
        one.on_fetched(2, before, 55, now_ms)
        assert watch.shrunk_isr(one, now_ms, LAG_MS) is None


def test_nobody_goes_while_a_change_is_proposed() -> None:
    one = leader((1, 2))
    watch = Watch(one, 0)
    one.on_proposed((1, 2, 3))
    assert watch.shrunk_isr(one, LAG_MS * 9, LAG_MS) is None


def test_a_watch_is_over_when_everybody_in_sync_has_everything() -> None:
    one = leader((1, 2))
    watch = Watch(one, 0)
    one.on_appended(11)
    assert not watch.is_over(one)
    one.on_fetched(2, 11, 55, 0)
    assert watch.is_over(one)


def test_the_high_watermark_waits_for_a_follower_that_keeps_up() -> None:
    """Else a follower that is always one record behind would never be at the high watermark when it fetches."""
    one = leader((1,))
    one.on_fetched(2, 10, 55, 100)
    assert keeps_up(one, 2, 100 + LAG_MS, LAG_MS)
    assert not keeps_up(one, 2, 101 + LAG_MS, LAG_MS)
    assert not keeps_up(one, 3, 100, LAG_MS)
    one.on_joining((2,))
    one.on_appended(12)
    assert one.high_watermark == 10
    one.on_fetched(2, 11, 55, 110)
    assert grown_isr(one, 2) == (1, 2)
    one.on_joining(())
    assert one.high_watermark == 12


def test_who_has_come_in_is_waited_for_as_a_replica_in_sync() -> None:
    one = leader((1,))
    one.on_fetched(2, 10, 55, 100)
    one.on_joining((2, 3))
    one.on_metadata(8, (1, 2), (1, 2))
    assert one.joining == ()


def test_metadata_that_are_known_already_leave_a_later_proposal_alone() -> None:
    one = leader((1,))
    one.on_metadata(8, (1, 2, 3), (1, 2))
    one.on_proposed((1, 2, 3))
    one.on_metadata(8, (1, 2, 3), (1, 2))
    assert one.proposed_isr == (1, 2, 3)
    one.on_metadata(9, (1, 2, 3), (1, 2, 3))
    assert one.proposed_isr is None


def test_who_is_no_replica_does_not_keep_up() -> None:
    assert not keeps_up(leader((1,)), 9, 100, LAG_MS)


def test_a_follower_that_has_everything_stays_however_long_ago_it_got_it() -> None:
    one = leader((1, 2))
    watch = Watch(one, 0)
    one.on_appended(12)
    one.on_fetched(2, 12, 55, 5)
    assert watch.shrunk_isr(one, 6 + LAG_MS, LAG_MS) is None
