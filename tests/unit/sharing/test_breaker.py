"""When a share partition pauses as too many of its records die, for how long, and how it tries again."""

from __future__ import annotations

import pytest

from penstock.sharing.acquiring import Acquired, Demand
from penstock.sharing.breaker import PROBE_MS, Breaker, State
from penstock.sharing.values import NEVER_MS, NO_RATE

MINUTE_MS = 60_000


def breaker(rate: int) -> Breaker:
    made = Breaker(NEVER_MS)
    made.set_rate(rate)
    return made


def probing(rate: int, at_ms: int = 0) -> Breaker:
    made = breaker(rate)
    made.died(rate + 1, at_ms)
    made.pass_time(made.next_ms)
    return made


@pytest.mark.parametrize(
    ("deaths", "pauses_ms"),
    [
        ([(10, 0)], None),
        ([(11, 0)], 36_000),
        ([(10, 0), (1, 0)], 36_000),
        ([(10, 1_000), (1, 1_000)], 36_000),
        ([(10, 0), (1, 6_000)], None),
        ([(10, 1_000), (1, 7_000)], None),
        ([(10, 1_000), (1, 6_999)], 30_000),
        ([(10, 0), (2, 6_000)], 36_000),
        ([(10, 0), (10, 30_000)], 60_000),
        ([(10, 0), (10, 60_000)], None),
        ([(10, 0), (10, 600_000), (1, 600_000)], 36_000),
        ([(10, 60_000), (5, 0)], 60_000),
        ([(10, 0), (0, 0)], None),
        ([(55, 0)], 300_000),
        ([(105, 0)], 600_000),
        ([(999, 0)], 600_000),
    ],
)
def test_deaths_in_a_minute_are_counted(deaths: list[tuple[int, int]], pauses_ms: int | None) -> None:
    """Ten a minute may die. The pause is what it takes until half of that is left, between half a minute and ten."""
    it = breaker(10)
    for count, at_ms in deaths:
        it.died(count, at_ms)
    last_ms = deaths[-1][1]
    if pauses_ms is None:
        assert (it.state, it.next_ms, it.pause_ms(last_ms), it.allowed(7)) == (State.CLOSED, NEVER_MS, -1, 7)
        return
    assert (it.state, it.allowed(7)) == (State.OPEN, 0)
    assert abs(it.next_ms - last_ms - pauses_ms) <= 60
    assert it.pause_ms(last_ms) == it.next_ms - last_ms
    assert (it.pause_ms(it.next_ms - 5), it.pause_ms(it.next_ms), it.pause_ms(it.next_ms + 5)) == (5, 1, 1)
    it.pass_time(it.next_ms - 1)
    assert it.state is State.OPEN
    opens_ms = it.next_ms
    it.pass_time(opens_ms)
    assert (it.state, it.next_ms, it.pause_ms(opens_ms)) == (State.PROBING, opens_ms + PROBE_MS, 0)


@pytest.mark.parametrize(("rate", "probes"), [(100, 10), (109, 10), (110, 11), (19, 1), (5, 1), (1, 1)])
def test_a_tenth_of_the_rate_is_tried_and_one_at_least(rate: int, probes: int) -> None:
    it = probing(rate)
    demand = Demand("ann", 500, 50)
    assert it.limited(demand, 300) == (demand.replace(is_record_limit=True), probes)
    assert (it.allowed(300), it.allowed(1)) == (probes, 1)


def test_while_it_is_closed_a_demand_is_as_it_was() -> None:
    demand = Demand("ann", 500, 50)
    assert breaker(10).limited(demand, 300) == (demand, 300)


def test_what_was_delivered_is_no_more_to_be_tried_until_the_next_time() -> None:
    it = probing(200)
    it.delivered([Acquired(100, 104, 1)])
    assert it.allowed(99) == 15
    it.delivered([Acquired(200, 200, 1), Acquired(205, 209, 1)])
    assert it.allowed(99) == 9
    it.delivered([Acquired(300, 399, 1)])
    assert it.allowed(99) == 0
    due_ms = it.next_ms
    it.pass_time(due_ms - 1)
    assert it.allowed(99) == 0
    it.pass_time(due_ms)
    assert (it.allowed(99), it.next_ms) == (20, due_ms + PROBE_MS)


def test_one_record_that_is_accepted_closes_it_while_it_tries_and_not_before() -> None:
    it = breaker(10)
    it.died(11, 0)
    it.accepted()
    assert it.allowed(7) == 0
    it.pass_time(it.next_ms)
    it.accepted()
    assert (it.state, it.next_ms, it.allowed(7)) == (State.CLOSED, NEVER_MS, 7)
    it.delivered([Acquired(0, 9, 1)])
    it.pass_time(10 * MINUTE_MS)
    assert it.state is State.CLOSED


def test_another_rate_begins_anew_and_the_same_does_not() -> None:
    it = breaker(10)
    it.died(11, 0)
    it.set_rate(10)
    assert it.allowed(7) == 0
    it.set_rate(20)
    assert (it.state, it.next_ms) == (State.CLOSED, NEVER_MS)
    it.died(20, 0)
    assert it.allowed(7) == 7, "what died before does not count"
    it.died(1, 0)
    assert it.allowed(7) == 0


def test_that_nothing_died_says_nothing() -> None:
    it = breaker(10)
    it.died(40, 0)
    due_ms = it.next_ms
    it.died(0, 5_000)
    assert (it.state, it.next_ms) == (State.OPEN, due_ms)


def test_without_a_rate_nothing_pauses() -> None:
    it = breaker(NO_RATE)
    it.died(1_000_000, 0)
    assert (it.state, it.allowed(5)) == (State.CLOSED, 5)
