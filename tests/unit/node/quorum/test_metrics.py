"""How many records a second come to a replica, told by looking at the end of its log."""

from __future__ import annotations

from penstock.node.quorum.metrics import WINDOW_S, Rate


def test_a_rate_is_of_the_last_half_minute_or_of_the_time_since_it_was_read() -> None:
    rate = Rate()
    assert rate.of(1_000, 0.0) == 0
    assert rate.of(1_300, 10.0) == 300 / WINDOW_S
    assert rate.of(1_600, 30.0) == 600 / 30
    assert rate.of(1_600, 60.0) == 0
    assert rate.of(2_000, 1_060.0) == 0.4


def test_who_reads_it_often_changes_nothing() -> None:
    often, seldom = Rate(), Rate()
    for second in range(120):
        found = often.of(5 * second, second)
        if second % 30 == 0:
            last = seldom.of(5 * second, second)
    assert (found, last) == (5, 5)
    assert len(often._read) <= 3
