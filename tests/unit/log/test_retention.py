"""Which segments may go, beside a plainer model that looks at what is left after each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast, overload
from zlib import crc32

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log

from penstock.log.config import INT64_MAX, LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.log.retention import CHECK_INTERVAL_MS, FOR_EVER_MS, SEGMENTS_AT_ONCE, deletable_segments


@dataclass
class Some:
    """A segment, as far as retention asks."""

    base_offset: int
    size: int
    written_ms: int

    def retention_timestamp(self) -> int:
        return self.written_ms


def deletable(segments: Sequence[Some], config: LogConfig, **offsets: int) -> int:
    size_bytes = sum(one.size for one in segments)
    return deletable_segments(cast("Any", segments), config, size_bytes=size_bytes, now_ms=NOW, **offsets)


def plainly(
    segments: Sequence[Some], config: LogConfig, *, log_start_offset: int, high_watermark: int, end_offset: int
) -> int:
    left = list(segments)
    while left and len(segments) - len(left) < SEGMENTS_AT_ONCE:
        first, *others = left
        ends = others[0].base_offset if others else end_offset
        is_old = config.retention_ms >= 0 and NOW - first.written_ms > config.retention_ms
        is_enough = config.retention_bytes >= 0 and sum(one.size for one in others) >= config.retention_bytes
        is_unread = bool(others) and ends <= log_start_offset
        if ends > high_watermark or not (others or first.size):
            break
        if not (is_unread or (config.deletes and (is_old or is_enough))):
            break
        left = others
    return len(segments) - len(left)


def test_as_the_plain_model_says() -> None:
    random, seen = Random(7), set()
    for _ in range(2_000):
        bases = sorted(random.sample(range(12), random.randrange(1, 5)))
        sizes = [random.randrange(4) for _ in bases[1:]] + [random.randrange(3)]
        segments = [Some(base, size, NOW - random.randrange(4)) for base, size in zip(bases, sizes, strict=True)]
        end = bases[-1] + (random.randrange(1, 4) if sizes[-1] else 0)
        config = LogConfig(
            cleanup_policy=frozenset(random.choice((["delete"], ["compact"], ["compact", "delete"]))),
            retention_bytes=random.choice((-1, *range(6))),
            retention_ms=random.choice((-1, *range(4))),
        )
        offsets = {"log_start_offset": random.randrange(bases[0], end + 1), "end_offset": end}
        offsets["high_watermark"] = random.randrange(offsets["log_start_offset"], end + 1)
        counted = deletable(segments, config, **offsets)
        assert counted == plainly(segments, config, **offsets), (segments, config, offsets)
        seen.add((counted, len(segments)))
    assert len(seen) == sum(1 + min(SEGMENTS_AT_ONCE, count) for count in range(1, 5))


def test_what_goes_for_its_age_is_no_reason_for_others_to_go() -> None:
    """Ten bytes too old and two new ones, where seven may stay: it was five too many before, and none after."""
    segments = [Some(0, 10, NOW - 1_001), Some(10, 2, NOW)]
    config = LogConfig(retention_bytes=7, retention_ms=1_000)
    assert deletable(segments, config, log_start_offset=0, high_watermark=12, end_offset=12) == 1


def test_so_many_go_at_once() -> None:
    segments = [Some(base, 1, NOW) for base in range(2 * SEGMENTS_AT_ONCE)]
    end = len(segments)
    config = LogConfig(retention_bytes=0, retention_ms=-1)
    assert deletable(segments, config, log_start_offset=0, high_watermark=end, end_offset=end) == SEGMENTS_AT_ONCE


class FirstFew(Sequence[Some]):
    """A thousand segments, of which only as many may be looked at as go at once, and the one behind them."""

    def __len__(self) -> int:
        return 1_000

    @overload
    def __getitem__(self, number: int) -> Some: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Some]: ...
    def __getitem__(self, number: int | slice) -> Some | Sequence[Some]:
        assert isinstance(number, int)
        assert number <= SEGMENTS_AT_ONCE
        return Some(number, 1, NOW)


def test_no_more_are_looked_at_however_many_there_are() -> None:
    """Their sizes were added up for each few that went: 20,000 segments had half of the event loop."""
    config = LogConfig(retention_bytes=0, retention_ms=-1)
    offsets = {"log_start_offset": 0, "high_watermark": 1_000, "end_offset": 1_000}
    found = deletable_segments(cast("Any", FirstFew()), config, size_bytes=1_000, now_ms=NOW, **offsets)
    assert found == SEGMENTS_AT_ONCE


def goes(log: PartitionLog, now_ms: int) -> bool:
    start, end = log.log_start_offset, log.log_end_offset
    offsets = {"log_start_offset": start, "high_watermark": end, "end_offset": end}
    size_bytes = log.load().segments.size_bytes
    return bool(deletable_segments(log.segments, log.config, size_bytes=size_bytes, now_ms=now_ms, **offsets))


def is_dirty_for(log: PartitionLog, ms: int, now_ms: int) -> bool:
    since = log.load().dirty_since_ms
    return since is not None and now_ms - since >= ms


def drawn_log(path: Path, random: Random) -> PartitionLog:
    config = LogConfig(
        segment_bytes=random.choice((150, 10_000)),
        retention_ms=random.choice((-1, 0, 40, 1 << 40)),
        flush_ms=random.choice((CHECK_INTERVAL_MS, CHECK_INTERVAL_MS + 30, INT64_MAX)),
        producer_id_expiration_ms=random.choice((50, 1 << 40)),
        cleanup_policy=frozenset(random.choice((["delete"], ["delete"], ["compact"], []))),
    )
    log = open_log(path, config)
    log.load()
    for number in range(random.randrange(4)):
        producer = random.choice((None, (5, 0, -1)))
        sent = batch(1, timestamp_ms=NOW + random.randrange(-30, 30), producer=producer)
        if producer is not None:
            log.append_as_follower(sent) if not number else append(log, batch(1, producer=(7, 0, 0)))
        else:
            append(log, sent)
    if random.random() < 0.5:
        log.flush()
    return log


def test_a_log_is_looked_at_before_something_is_due_and_seldom_otherwise(tmp_path: Path) -> None:
    for seed in range(25):
        random = Random(seed)
        (path := tmp_path / str(seed)).mkdir()
        log = drawn_log(path, random)
        log.config = log.config.replace(flush_ms=random.choice((5, 60, CHECK_INTERVAL_MS + 1)))
        longest_ms = min(CHECK_INTERVAL_MS, log.config.flush_ms)
        for now_ms in (NOW - 50, NOW, NOW + 3, NOW + 70):
            look_ms = log.next_deadline_ms(now_ms)
            assert now_ms <= look_ms <= now_ms + longest_ms
            is_due = [
                goes(log, at) or is_dirty_for(log, log.config.flush_ms, at) for at in (now_ms, look_ms - 1, look_ms)
            ]
            assert is_due[0] or not is_due[1] or look_ms == now_ms
            assert is_due[2] or look_ms == now_ms + longest_ms
        log.abandon()
        for flush_ms in (7, CHECK_INTERVAL_MS + 7):
            log.config = log.config.replace(flush_ms=flush_ms)
            spread_ms = crc32(log.directory.encode()) % CHECK_INTERVAL_MS
            assert log.next_deadline_ms(NOW) == NOW + min(CHECK_INTERVAL_MS, flush_ms) + spread_ms


def test_a_log_rests_until_something_is_due(tmp_path: Path) -> None:
    rested = list[int]()
    for seed in range(50):
        (path := tmp_path / str(seed)).mkdir()
        log = drawn_log(path, Random(seed))
        until_ms = log.rests_until_ms()
        if log.recovery_point < log.segments.active.base_offset:
            assert until_ms is None, "sealed segments are to be flushed"
            continue
        assert until_ms is not None
        rested.append(until_ms)
        due = [
            goes(log, at)
            or log.flush_is_due(at)
            or bool(log.producers.expire(at, log.config.producer_id_expiration_ms))
            for at in (until_ms - 1, until_ms)
        ]
        assert due == [False, until_ms != FOR_EVER_MS]
    assert len(set(rested)) > 5


@pytest.mark.parametrize(
    ("settings", "rests"),
    [
        ({}, True),
        ({"flush_ms": CHECK_INTERVAL_MS}, True),
        ({"flush_ms": CHECK_INTERVAL_MS - 1}, False),
        ({"cleanup_policy": frozenset({"compact"})}, True),
        ({"cleanup_policy": frozenset({"compact", "delete"})}, False),
        ({"retention_consumed": True}, False),
        ({"penstock_delay_enable": True}, False),
    ],
)
def test_where_time_is_not_all_that_counts_a_log_does_not_rest(
    tmp_path: Path, settings: dict[str, Any], rests: bool
) -> None:
    log = open_log(tmp_path, LogConfig(**settings))
    assert log.rests_until_ms() is None, "it is not read in"
    append(log, batch(1))
    assert (log.rests_until_ms() is not None) is rests
