from penstock.pipeline.offset_ranges import (
    OffsetRange,
    lag,
    ranges_between,
    split_ranges,
    take_fraction,
)

A0, A1, A10 = ("a", 0), ("a", 1), ("a", 10)


def sizes(ranges: list[OffsetRange]) -> list[int]:
    return [part.size for part in ranges]


def test_ranges_leave_out_what_is_empty_runs_backwards_or_has_no_start() -> None:
    start, end = {A0: 5, A1: 5, A10: 5}, {A0: 5, A1: 9, A10: 3, ("b", 0): 9}
    assert ranges_between(start, end) == [OffsetRange("a", 1, 5, 9)]


def test_split_covers_everything_once() -> None:
    whole = [OffsetRange("a", 0, 10, 110), OffsetRange("a", 1, 0, 11)]
    parts = split_ranges(whole, 8, None)
    assert len(parts) >= 8
    assert sorted(offset for part in parts if part.partition == 0 for offset in range(part.start, part.end)) == list(
        range(10, 110)
    )
    assert sizes(split_ranges(whole, None, 40)) == [33, 33, 34, 11]


def test_split_makes_no_empty_parts() -> None:
    assert sizes(split_ranges([OffsetRange("a", 0, 0, 2)], 10, None)) == [1, 1]
    assert split_ranges([], 10, 5) == []


def test_a_fraction_starves_nobody_and_passes_no_end() -> None:
    start, latest = {A0: 0, A1: 100, A10: 7}, {A0: 1000, A1: 101, A10: 7}
    assert take_fraction(start, latest, 0.01) == {A0: 10, A1: 101, A10: 7}
    assert take_fraction(start, latest, 5.0) == latest


def test_lag_counts_what_is_ahead_only() -> None:
    assert lag({A0: 5, A1: 5}, {A0: 9, A1: 3, A10: 40}) == 4
