"""Numbers that are only counted can still be told: how many, how large, and what share of them is below what."""

import pytest

from penstock.node.metrics.distribution import Distribution, Durations


def of(*numbers: int, per_unit: int = 1) -> Distribution:
    distribution = Distribution(per_unit)
    for number in numbers:
        distribution.observe(number)
    return distribution


def test_of_nothing_all_is_nothing() -> None:
    none = Distribution()
    assert (none.count, none.sum, none.mean, none.max, none.quantile(0.5)) == (0, 0, 0, 0, 0)


def test_count_sum_mean_and_max_are_exact() -> None:
    four = of(1, 2, 3, 1_000, per_unit=2)
    assert (four.count, four.sum, four.mean, four.max) == (4, 503, 125.75, 500)


def test_a_number_is_in_the_first_bucket_whose_end_is_not_below_it() -> None:
    numbers = (0, 1, 2, 3, 4, 7, 8, 2**64 - 1)
    for number in numbers:
        (bucket,) = (bits for bits, count in enumerate(of(number).buckets) if count)
        assert number <= 2**bucket - 1
        assert bucket == 0 or number > 2 ** (bucket - 1) - 1
    assert sum(of(*numbers).buckets) == len(numbers)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0])
def test_a_quantile_lies_in_the_bucket_of_the_true_one(share: float) -> None:
    numbers = [number * number for number in range(1, 101)]
    true = numbers[round(share * 100) - 1]
    told = of(*numbers).quantile(share)
    assert int(told).bit_length() == true.bit_length()
    assert told <= numbers[-1]


def test_quantiles_of_one_number_end_with_it() -> None:
    assert of(5).quantile(1.0) == 5
    assert of(0).quantile(0.5) == 0


def test_durations_are_told_in_milliseconds() -> None:
    durations = Durations()
    durations.took(0.0015)
    durations.took(0.0005)
    assert (durations.count, durations.sum, durations.mean, durations.max) == (2, 2, 1, 1.5)
