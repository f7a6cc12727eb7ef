"""How fast a share group goes: what was counted in the last half to whole minute."""

import pytest

from penstock.node.sharing.progress import HALF_MS, Deliveries, Rate

BEGAN_MS = 7_000


@pytest.mark.parametrize(
    ("counted", "after_ms", "per_second"),
    [
        ([], 10_000, 0.0),
        ([(0, 60)], 0, 60.0),
        ([(0, 60)], 1_000, 60.0),
        ([(0, 60)], 2_000, 30.0),
        ([(0, 60)], 20_000, 3.0),
        ([(0, 60)], HALF_MS - 1, 60_000 / (HALF_MS - 1)),
        ([(0, 60)], HALF_MS, 2.0),
        ([(0, 60)], HALF_MS + 10_000, 1.5),
        ([(0, 60)], 2 * HALF_MS - 1, 60_000 / (2 * HALF_MS - 1)),
        ([(0, 60)], 2 * HALF_MS, 0.0),
        ([(0, 60), (HALF_MS, 30)], HALF_MS + 10_000, 90 / 40),
        ([(0, 60), (HALF_MS, 30)], 2 * HALF_MS, 1.0),
        ([(0, 60), (HALF_MS, 30)], 2 * HALF_MS + 15_000, 30 / 45),
        ([(0, 60), (3 * HALF_MS, 30)], 3 * HALF_MS, 1.0),
        ([(0, 60), (HALF_MS + 1_000, 30), (HALF_MS + 2_000, 10)], HALF_MS + 10_000, 2.5),
    ],
)
def test_what_was_counted_is_of_the_last_half_to_whole_minute(
    counted: list[tuple[int, int]], after_ms: int, per_second: float
) -> None:
    rate = Rate(BEGAN_MS)
    for at_ms, count in counted:
        rate.add(count, BEGAN_MS + at_ms)
    assert rate.per_second(BEGAN_MS + after_ms) == pytest.approx(per_second)
    assert rate.total == sum(count for _, count in counted)


def test_deliveries_count_all_and_those_that_came_again() -> None:
    deliveries = Deliveries(0)
    for first, again in [(5, 0), (0, 3), (2, 2)]:
        deliveries.count(first, again, 0)
    assert (deliveries.all.total, deliveries.again.total) == (12, 5)
