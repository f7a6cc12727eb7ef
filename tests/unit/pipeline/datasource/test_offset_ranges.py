from uuid import UUID

import pytest

from penstock.pipeline.datasource.offset_ranges import (
    OFFSETS_WORTH_A_TASK,
    SMALL_OFFSETS,
    TASKS_UNSHARED,
    OffsetRange,
    lag,
    pack_ranges,
    ranges_between,
    split_ranges,
    take_fraction,
)

A0, A1, A10 = ("a", 0), ("a", 1), ("a", 10)


def sizes(ranges: list[OffsetRange]) -> list[int]:
    return [part.size for part in ranges]


def test_ranges_leave_out_what_is_empty_runs_backwards_or_has_no_start() -> None:
    start, end = {A0: 5, A1: 5, A10: 5}, {A0: 5, A1: 9, A10: 3, ("b", 0): 9}
    assert ranges_between(start, end, {}) == [OffsetRange("a", 1, 5, 9)]


def test_ranges_and_their_parts_know_whose_topic_they_are_of() -> None:
    whole = ranges_between({A0: 0}, {A0: 10}, {"a": UUID(int=7)})
    assert {part.topic_id for part in split_ranges(whole, 2, None)} == {UUID(int=7)}


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
    assert take_fraction({A0: 100, A1: 100}, {A0: 300, A1: 110}, 0.05) == {A0: 110, A1: 101}


def test_lag_counts_what_is_ahead_only() -> None:
    assert lag({A0: 5, A1: 5}, {A0: 9, A1: 3, A10: 40}) == 4


def small_ranges(count: int, size: int = 200) -> list[OffsetRange]:
    return [OffsetRange("a", partition, 0, size) for partition in range(count)]


def test_many_small_ranges_share_tasks_and_each_is_read_once() -> None:
    ranges = small_ranges(200)
    tasks = pack_ranges(ranges, None, None)
    assert len(tasks) == TASKS_UNSHARED
    assert {sum(sizes(list(task))) for task in tasks} == {6 * 200, 7 * 200}
    assert sorted((part for task in tasks for part in task), key=lambda part: part.partition) == ranges


def test_few_ranges_and_large_ones_have_a_task_each() -> None:
    few = small_ranges(TASKS_UNSHARED, OFFSETS_WORTH_A_TASK)
    assert pack_ranges(few, None, None) == [(whole,) for whole in few]
    large = small_ranges(100, SMALL_OFFSETS)
    assert pack_ranges(large, None, None) == [(whole,) for whole in large]
    mixed = [*large[:40], *(OffsetRange("b", partition, 5, 9) for partition in range(20))]
    assert [len(task) for task in pack_ranges(mixed, None, None)] == [1] * 40 + [20]


@pytest.mark.parametrize(("size", "tasks"), [(1, 1), (21, 1), (22, 2), (OFFSETS_WORTH_A_TASK, 12), (9_999, 12)])
def test_ranges_that_are_worth_no_task_share_one(size: int, tasks: int) -> None:
    assert len(pack_ranges(small_ranges(12, size), None, None)) == tasks


@pytest.mark.parametrize(("min_partitions", "max_per_task", "tasks"), [(50, None, 50), (None, 4, 50), (None, 1, 200)])
def test_who_wants_more_tasks_gets_them(min_partitions: int | None, max_per_task: int | None, tasks: int) -> None:
    packed = pack_ranges(small_ranges(200), min_partitions, max_per_task)
    assert len(packed) == tasks
    assert max(map(len, packed)) <= (max_per_task or 4)


def test_small_ranges_do_not_add_up_to_a_task_that_is_too_large() -> None:
    packed = pack_ranges(small_ranges(200, SMALL_OFFSETS // 2), None, None)
    assert max(sum(sizes(list(task))) for task in packed) <= SMALL_OFFSETS


def test_nothing_makes_no_task() -> None:
    assert pack_ranges([], 10, None) == []
