"""Which part of a log can be compacted, and which segments become one."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

import pytest
from tests.unit.log.compaction.rounds import COMPACTED, NOW, pairs
from tests.unit.log.logs import append, open_log

from penstock.log.compaction.planning import Cleanable, SegmentFacts, cleanable, groups
from penstock.log.compaction.preparing import FACTS_AT_ONCE, Buffers, look_at, prepare
from penstock.log.config import INT64_MAX, LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import MAX_RELATIVE_OFFSET
from penstock.log.segments import Segments
from penstock.node.serving.slices import at_once


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


def test_a_cut_within_a_batch_takes_the_mark_back_to_its_beginning(tmp_path: Path) -> None:
    """Records that come in its place are dirty: a tombstone must not go before what it deletes."""
    log = open_log(tmp_path, COMPACTED)
    append(log, pairs(("a", "1"), ("b", "1")))
    append(log, pairs(("a", "2"), ("b", "2"), ("c", "2")))
    log.cleaned_to = 5
    assert log.truncate_to(4) == 2
    assert log.cleaned_to == 2


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


class Some(NamedTuple):
    """A segment, as far as planning asks."""

    base_offset: int
    size: int
    first_ms: int
    latest_ms: int

    def largest_timestamp(self) -> int:
        return self.latest_ms

    def rolling_timestamp(self) -> int:
        return self.first_ms


def plainly(segments: list[Some], config: LogConfig, now_ms: int, **offsets: int) -> Cleanable:
    """Offset by offset."""
    cleaned_to, start, end = offsets["cleaned_to"], offsets["start_offset"], offsets["end_offset"]
    first_dirty = cleaned_to if start <= cleaned_to <= end else start
    sealed = list(zip(segments, [one.base_offset for one in segments[1:]], strict=False))
    dirty = [(one, ends) for one, ends in sealed if ends > first_dirty]
    young = [one.base_offset for one, _ in dirty if one.latest_ms > now_ms - config.min_compaction_lag_ms]
    lag = config.min_compaction_lag_ms
    barrier = min([offsets["stable_offset"], segments[-1].base_offset, *(young if lag else [])])
    barrier = max(barrier, first_dirty)
    whole = [(one, ends) for one, ends in sealed if ends <= barrier]
    behind = whole[-1][1] if whole else segments[0].base_offset
    waiting = [one.first_ms for one, _ in dirty if one.size and one.first_ms > 0]
    over_ms = now_ms - config.max_compaction_lag_ms - min(waiting) if waiting else 0
    return Cleanable(
        first_dirty=first_dirty,
        first_uncleanable=behind,
        clean_bytes=sum(one.size for one, _ in whole if one.base_offset < first_dirty),
        cleanable_bytes=sum(one.size for one, ends in whole if ends > min(first_dirty, behind)),
        delay_ms=max(0, over_ms),
    )


def test_what_can_be_compacted_is_what_the_plain_model_says() -> None:
    random, seen = Random(5), set()
    for _ in range(1_500):
        bases = sorted(random.sample(range(14), random.randrange(1, 6)))
        end = bases[-1] + random.randrange(3)
        segments = [
            Some(base, random.randrange(4), *sorted(random.choices((-1, 0, 1, *range(4, 9)), k=2))) for base in bases
        ]
        config = LogConfig(
            min_compaction_lag_ms=random.choice((0, 0, 1, 3)), max_compaction_lag_ms=random.choice((1, 3, INT64_MAX))
        )
        offsets = {
            "start_offset": random.randrange(bases[0], end + 1),
            "end_offset": end,
            "stable_offset": random.randrange(bases[0], end + 1),
            "cleaned_to": random.randrange(end + 2),
        }
        there = Segments(cast("Any", None), cast("Any", None), "", cast("Any", segments), 0)
        found = cleanable(there, config, now_ms=9, **offsets)
        assert found == plainly(segments, config, 9, **offsets), (segments, config, offsets)
        seen.add((found.clean_bytes > 0, found.cleanable_bytes > 0, found.delay_ms > 0))
    assert len(seen) >= 6


def test_what_becomes_one_is_what_the_plain_model_says() -> None:
    random = Random(6)
    for _ in range(500):
        sizes = [random.randrange(5) for _ in range(random.randrange(1, 7))]
        steps = [random.choice((1, 5, MAX_RELATIVE_OFFSET - 1, MAX_RELATIVE_OFFSET)) for _ in sizes]
        bases = [sum(steps[:number]) for number in range(len(sizes) + 1)]
        segments = [
            SegmentFacts(bases[at], size, random.randrange(4), random.randrange(4)) for at, size in enumerate(sizes)
        ]
        segment_bytes, index_bytes = random.randrange(1, 9), random.randrange(1, 9)
        found = groups(segments, bases[-1], segment_bytes=segment_bytes, index_bytes=index_bytes)
        ends = dict(pairwise(bases))
        assert [one for group in found for one in group] == segments
        assert all(len(group) == 1 or fits(group, ends, segment_bytes, index_bytes) for group in found)
        for group, (following, *_) in pairwise(found):
            assert not fits([*group, following], ends, segment_bytes, index_bytes)


class Counted(SegmentFacts):
    """How often sizes are asked for."""

    asked = 0

    def __getattribute__(self, name: str) -> Any:
        Counted.asked += name == "size"
        return super().__getattribute__(name)


def test_each_segment_is_looked_at_a_few_times_however_many_become_one() -> None:
    """Their sizes were added up for each one more."""
    (group,) = groups([Counted(number, 1, 1, 1) for number in range(300)], 300, segment_bytes=300, index_bytes=300)
    assert len(group) == 300
    assert Counted.asked < 3 * 300


def test_a_round_is_prepared_in_steps_without_what_goes_meanwhile(tmp_path: Path) -> None:
    """One of which the files have gone would be looked for there, and the disk be taken for a broken one."""
    log = filled(tmp_path, count=130)
    there, bases = found(log), [*log.segments.base_offsets]
    count = bases.index(there.first_uncleanable)
    steps = prepare(log, there, Buffers(), NOW)
    next(steps)
    assert count > FACTS_AT_ONCE + 2
    log.advance_log_start(bases[FACTS_AT_ONCE + 2])
    for _ in range(FACTS_AT_ONCE):
        log.retire_below_start(NOW)
    work, segments = at_once(steps)
    left = bases[FACTS_AT_ONCE + 2 : count]
    assert [one.base_offset for one in work.segments] == [one.base_offset for one in segments] == left


def fits(group: list[SegmentFacts], ends: dict[int, int], segment_bytes: int, index_bytes: int) -> bool:
    last_offsets = [ends[one.base_offset] - 1 for one in group[1:] if one.size]
    return (
        sum(one.size for one in group) <= segment_bytes
        and sum(one.index_bytes for one in group) <= index_bytes
        and sum(one.time_index_bytes for one in group) <= index_bytes
        and max(last_offsets, default=0) - group[0].base_offset <= MAX_RELATIVE_OFFSET
    )


@pytest.mark.parametrize(
    ("clean", "cleanable_bytes", "delay_ms", "is_due"),
    [(1, 1, 0, False), (1, 2, 0, True), (9, 1, 1, True), (9, 0, 1, False), (0, 0, 0, False), (0, 1, 0, True)],
)
def test_a_round_is_due_where_more_than_a_share_is_dirty_or_some_has_waited(
    clean: int, cleanable_bytes: int, delay_ms: int, *, is_due: bool
) -> None:
    found = Cleanable(
        first_dirty=0,
        first_uncleanable=9,
        clean_bytes=clean,
        cleanable_bytes=cleanable_bytes,
        delay_ms=delay_ms,
    )
    assert found.ratio == (cleanable_bytes / (clean + cleanable_bytes) if clean or cleanable_bytes else 0)
    assert found.is_due(LogConfig(min_cleanable_dirty_ratio=0.5)) is is_due
