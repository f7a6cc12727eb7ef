"""Which part of a log can be compacted, and which segments become one."""

from pathlib import Path

from tests.unit.log.compaction.rounds import COMPACTED, NOW, pairs
from tests.unit.log.logs import append, open_log

from penstock.log.compaction.planning import Cleanable, SegmentFacts, groups
from penstock.log.compaction.preparing import look_at
from penstock.log.partition_log import PartitionLog


def filled(path: Path, *, count: int = 40, step_ms: int = 1000, **configs: int | float) -> PartitionLog:
    """A log of batches with one record each, a second apart."""
    log = open_log(path, COMPACTED.replace(**configs))
    for number in range(count):
        append(log, pairs((f"k{number}", "v" * 50), timestamp_ms=NOW + number * step_ms), now_ms=NOW + number * step_ms)
    return log


def found(log: PartitionLog, *, stable_offset: int | None = None, now_ms: int = NOW + 40_000) -> Cleanable:
    return look_at(log, log.log_end_offset if stable_offset is None else stable_offset, now_ms)


def test_all_but_the_active_segment_is_dirty_at_first(tmp_path: Path) -> None:
    log = filled(tmp_path)
    there = found(log)
    assert there.first_dirty == 0
    assert there.first_uncleanable == log.segments.active.base_offset > 0
    assert (there.clean_bytes, there.ratio) == (0, 1.0)
    assert there.cleanable_bytes == log.size_bytes - log.segments.active.size
    assert there.is_due(log.config)


def test_what_was_compacted_before_counts_as_clean(tmp_path: Path) -> None:
    log = filled(tmp_path)
    second = log.segments[2].base_offset
    log.cleaned_to = second
    there = found(log)
    assert (there.first_dirty, there.clean_bytes) == (second, sum(segment.size for segment in log.segments[:2]))
    assert there.cleanable_bytes == sum(segment.size for segment in log.segments[2:-1])
    log.config = log.config.replace(min_cleanable_dirty_ratio=0.99)
    assert not there.is_due(log.config)


def test_a_mark_beyond_the_log_counts_for_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.cleaned_to = log.log_end_offset + 1
    assert found(log).first_dirty == 0


def test_truncation_takes_the_mark_back(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.cleaned_to = 30
    log.truncate_to(12)
    assert log.cleaned_to == 12
    log.truncate_fully_and_start_at(50)
    assert log.cleaned_to == 0


def test_nothing_at_or_above_the_stable_offset(tmp_path: Path) -> None:
    log = filled(tmp_path)
    third = log.segments[2].base_offset
    assert found(log, stable_offset=third + 1).first_uncleanable == third
    assert found(log, stable_offset=third).first_uncleanable == third
    assert found(log, stable_offset=third - 1).first_uncleanable == log.segments[1].base_offset
    assert not found(log, stable_offset=0).is_due(log.config)


def test_no_segment_with_a_record_younger_than_the_lag(tmp_path: Path) -> None:
    log = filled(tmp_path, min_compaction_lag_ms=60_000)
    third = log.segments[2]
    oldest_free = third.largest_timestamp() + 60_000
    assert found(log, now_ms=oldest_free - 1).first_uncleanable == third.base_offset
    assert found(log, now_ms=oldest_free).first_uncleanable == log.segments[3].base_offset


def test_a_record_that_waited_for_too_long_needs_no_ratio(tmp_path: Path) -> None:
    log = filled(tmp_path, max_compaction_lag_ms=60_000, min_cleanable_dirty_ratio=1.0)
    assert not found(log, now_ms=NOW + 60_000).is_due(log.config)
    there = found(log, now_ms=NOW + 60_001)
    assert there.delay_ms == 1
    assert there.is_due(log.config)


def test_the_active_segment_ends_in_time_for_the_longest_lag(tmp_path: Path) -> None:
    log = filled(tmp_path, count=5, max_compaction_lag_ms=2500, segment_bytes=1 << 20)
    assert log.segments.base_offsets == [0, 3]


def facts(*sizes: int, index: int = 8) -> list[SegmentFacts]:
    return [SegmentFacts(number * 100, size, index, index) for number, size in enumerate(sizes)]


def bases(found: list[list[SegmentFacts]]) -> list[list[int]]:
    return [[segment.base_offset for segment in group] for group in found]


def test_neighbours_become_one_as_long_as_they_surely_fit() -> None:
    assert bases(groups(facts(50, 50, 1, 100, 99, 0), 600, segment_bytes=100, index_bytes=1000)) == [
        [0, 100],
        [200],
        [300],
        [400, 500],
    ]
    assert bases(groups(facts(1, 1, 1), 300, segment_bytes=100, index_bytes=16)) == [[0, 100], [200]]


def test_offsets_of_one_segment_fit_into_its_index() -> None:
    far = [SegmentFacts(0, 10, 8, 8), SegmentFacts(1 << 31, 10, 8, 8), SegmentFacts((1 << 31) + 5, 10, 8, 8)]
    assert bases(groups(far, (1 << 31) + 9, segment_bytes=100, index_bytes=1000)) == [[0], [1 << 31, (1 << 31) + 5]]
    empty = [SegmentFacts(0, 10, 8, 8), SegmentFacts(1 << 31, 0, 0, 0)]
    assert bases(groups(empty, (1 << 31) + 9, segment_bytes=100, index_bytes=1000)) == [[0, 1 << 31]]
