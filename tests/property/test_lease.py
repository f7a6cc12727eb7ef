"""Leases over messages that take any time, or are lost, and clocks that go wrong by as much as they may."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.leadership.lease import MAX_DRIFT, Granter, Holder

LENGTH = 1000.0
Request = tuple[float, float, float]
"""When it is sent, how long it takes, and how long its answer takes."""
LOST = 10**9

moments = st.integers(0, 20 * int(LENGTH)).map(float)
delays = st.one_of(st.just(0.0), st.integers(0, 3 * int(LENGTH)).map(float), st.just(float(LOST)))
requests = st.lists(st.tuples(moments, delays, delays), max_size=12)
clocks = st.floats(1 - MAX_DRIFT, 1 + MAX_DRIFT)
EXTREMES = [(0.0, 0.0, 0.0), (500.0, 100.0, 400.0)]


def overlaps(sent: Sequence[Request], holder_clock: float, granter_clock: float) -> list[float]:
    """The true times at which the holder acts, and somebody else may have the right; it changes at events alone."""
    holder, granter = Holder(LENGTH), Granter(LENGTH)
    found: list[float] = []
    events = [(at + there, 0, at) for at, there, _ in sent]
    events += [(at + there + back, 1, at) for at, there, back in sent]
    for now, kind, asked in sorted(events):
        _look(now, holder, granter, (holder_clock, granter_clock), found)
        if kind:
            holder.renewed(asked * holder_clock)
        else:
            granter.granted(now * granter_clock)
        _look(now, holder, granter, (holder_clock, granter_clock), found)
        _look(granter.until / granter_clock, holder, granter, (holder_clock, granter_clock), found)
    return found


def _look(now: float, holder: Holder, granter: Granter, rates: tuple[float, float], found: list[float]) -> None:
    if holder.holds(now * rates[0] + 1e-6) and granter.is_over(now * rates[1]):
        found.append(now)


@given(requests, clocks, clocks)
@example(EXTREMES, 1 - MAX_DRIFT, 1 + MAX_DRIFT)
def test_nobody_else_has_the_right_while_its_holder_acts(
    sent: list[Request], holder_clock: float, granter_clock: float
) -> None:
    assert not overlaps(sent, holder_clock, granter_clock)


def test_clocks_that_drift_more_break_it() -> None:
    assert overlaps(EXTREMES, 1 - MAX_DRIFT - 0.002, 1 + MAX_DRIFT + 0.002)


def test_whoever_counts_from_the_answer_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = Holder.renewed
    answered = {asked: asked + there + back for asked, there, back in EXTREMES}
    monkeypatch.setattr(Holder, "renewed", lambda holder, asked: renewed(holder, answered[asked]))
    assert overlaps(EXTREMES, 1.0, 1.0)


@given(requests, clocks)
def test_a_holder_whose_requests_are_answered_in_time_acts_without_a_pause(sent: list[Request], rate: float) -> None:
    """However late: an answer never takes away what an earlier one gave."""
    holder, until = Holder(LENGTH), 0.0
    for asked, _, _ in sent:
        holder.renewed(asked * rate)
        assert holder.until >= until
        until = holder.until


def test_a_right_that_was_given_up_ends_at_once() -> None:
    holder = Holder(LENGTH)
    holder.renewed(0)
    assert holder.holds(1)
    holder.given_up()
    assert not holder.holds(1)
