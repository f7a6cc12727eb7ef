"""A thread flushes while the log is cut: what comes after the cut is not taken for flushed."""

from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log

from penstock.log.log_content import SEALED_FLUSH_DELAY_MS, LogContent
from penstock.log.segment import Segment
from penstock.log.segments import Segments


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_cut_while_a_flush_looks_for_what_to_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_sealed: bool
) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        append(log, batch(1))
    if is_sealed:
        log.load().roll(4, NOW)
        append(log, batch(1))
    unflushed = LogContent._unflushed

    def cut_meanwhile(content: LogContent) -> list[Segment]:
        log.truncate_to(1)
        return unflushed(content)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(LogContent, "_unflushed", cut_meanwhile)
        if is_sealed:
            log.maybe_flush(NOW + SEALED_FLUSH_DELAY_MS)
        else:
            log.flush()
    assert log.recovery_point <= log.log_end_offset == 1
    append(log, batch(1))
    assert log.is_dirty


def test_a_flush_in_the_middle_of_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have synced what is cut off and not the cut, so the next one begins with that segment."""
    log = open_log(tmp_path)
    append(log, batch(2))
    log.load().roll(2, NOW)
    for _ in range(4):
        append(log, batch(1))
    cut_active = Segments.cut_active

    def flush_meanwhile(segments: Segments, offset: int) -> int | None:
        found = cut_active(segments, offset)
        log.flush()
        return found

    monkeypatch.setattr(Segments, "cut_active", flush_meanwhile)
    log.truncate_to(4)
    assert (log.recovery_point, log.log_end_offset) == (2, 4)
