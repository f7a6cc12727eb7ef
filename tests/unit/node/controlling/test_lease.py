"""A broker knows that its right to lead is over before it learns who leads now."""

from penstock.leadership.lease import HELD
from penstock.node.controlling.lease import BrokerLease
from penstock.node.metrics.registry import Registry

LENGTH_S = 9 * HELD


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_who_beats_in_time_is_awake_whether_answered_or_not() -> None:
    clock = Clock()
    lease = BrokerLease(9_000, clock, Registry())
    assert not lease.is_over, "before the first heartbeat there is nothing that it could have slept through"
    for _ in range(10):
        lease.beats()
        clock.now_s += 8
        assert not lease.is_over
    assert (lease.renewed, lease.lost) == (0, 0)


def test_who_is_not_to_serve_without_a_controller_leads_only_within_what_it_was_granted() -> None:
    clock = Clock()
    lease = BrokerLease(9_000, clock, Registry(), while_awake=False)
    lease.is_renewed(lease.beats())
    clock.now_s = 8
    asked_s = lease.beats()
    assert not lease.is_over
    clock.now_s = LENGTH_S + 0.01
    assert lease.is_over
    lease.beats()
    lease.is_renewed(asked_s)
    assert not lease.is_over
    clock.now_s = 8 + LENGTH_S + 0.01
    assert lease.is_over, "it counts from when it asked, not from when it was answered"
    assert (lease.renewed, lease.lost) == (2, 1)


def test_who_slept_stays_out_until_what_it_asked_afterwards_is_answered() -> None:
    clock = Clock()
    lease = BrokerLease(9_000, clock, Registry())
    before_s = lease.beats()
    clock.now_s = 9.5
    assert lease.is_over
    lease.is_renewed(before_s)
    assert lease.is_over, "the answer was given before it fell asleep"
    asked_s = lease.beats()
    assert lease.is_over, "it has asked, no more"
    lease.is_renewed(asked_s)
    assert not lease.is_over
    assert lease.lost == 1


def test_who_is_fenced_leads_no_longer_although_it_is_awake() -> None:
    lease = BrokerLease(9_000, Clock(), Registry())
    lease.is_renewed(lease.beats())
    lease.ends()
    assert lease.is_over
    lease.beats()
    assert lease.is_over
    lease.is_renewed(lease.beats())
    assert not lease.is_over
    assert lease.lost == 1


def test_whom_no_controller_answers_is_unheard_although_it_leads_on() -> None:
    clock = Clock()
    lease = BrokerLease(9_000, clock, Registry())
    asked_s = lease.beats()
    clock.now_s = 5
    lease.is_renewed(asked_s)
    lease.beats()
    assert not lease.is_unheard
    clock.now_s = LENGTH_S + 0.01
    assert lease.is_unheard, "it counts from when it asked"
    assert not lease.is_over
    lease.is_renewed(lease.beats())
    assert not lease.is_unheard
    lease.ends()
    assert lease.is_unheard


def test_who_asks_that_others_lead_leads_no_longer_if_it_is_to_refuse() -> None:
    lease = BrokerLease(9_000, Clock(), Registry(), while_awake=False)
    lease.is_renewed(lease.beats())
    lease.is_laid_down()
    assert lease.is_over
    lease.is_renewed(lease.beats())
    assert lease.is_over, "an answer may be here before the metadata that say who leads"


def test_who_asks_that_others_lead_serves_until_it_hears_of_them_if_it_may() -> None:
    lease = BrokerLease(9_000, Clock(), Registry())
    lease.is_renewed(lease.beats())
    lease.is_laid_down()
    assert not lease.is_over
