"""Which segments may go, beside a plainer model that looks at what is left after each."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from tests.unit.log.logs import NOW

from penstock.log.config import LogConfig
from penstock.log.retention import SEGMENTS_AT_ONCE, deletable_segments


@dataclass
class Some:
    """A segment, as far as retention asks."""

    base_offset: int
    size: int
    written_ms: int

    def retention_timestamp(self) -> int:
        return self.written_ms


def deletable(segments: Sequence[Some], config: LogConfig, **offsets: int) -> int:
    return deletable_segments(cast("Any", segments), config, now_ms=NOW, **offsets)


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
        sizes = [random.randrange(1, 4) for _ in bases[1:]] + [random.randrange(3)]
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
    assert len(seen) == 14


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
