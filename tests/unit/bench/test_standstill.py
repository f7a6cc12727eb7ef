"""How the pauses of a group are read from the moments at which its records came."""

import pytest
from bench.standstill import PARTITIONS, Deliveries, longest_pause_s


@pytest.mark.parametrize(
    ("moments", "pause_s"),
    [
        ([1.0, 2.0, 3.0], 1.0),
        ([2.5, 1.5, 1.0, 3.0], 1.0),
        ([0.5, 2.9], 1.9),
        ([1.1], 1.9),
        ([], 2.0),
    ],
)
def test_a_pause_is_measured_from_the_event_to_its_end(moments: list[float], pause_s: float) -> None:
    assert longest_pause_s(moments, 1.0, 3.0) == pytest.approx(pause_s)


def test_a_change_of_reader_is_seen_and_a_record_of_the_same_one_is_none() -> None:
    deliveries, first, second = Deliveries(), object(), object()
    for partition in range(PARTITIONS):
        deliveries.take(partition, first)
    changed_at = deliveries.changed_at
    deliveries.take(0, first)
    assert deliveries.changed_at == changed_at
    deliveries.take(0, second)
    assert deliveries.changed_at > changed_at
    assert deliveries.reader == [second] + [first] * (PARTITIONS - 1)
