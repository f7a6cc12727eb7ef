"""The process that compacts: its pace, that it has a log for itself, and what it answers."""

import fcntl
import io
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.log.compaction.rounds import COMPACTED, NOW, pairs, plain
from tests.unit.log.logs import append, open_log

from penstock.log.compaction import worker
from penstock.log.compaction.batches import UncleanableError
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.preparing import Buffers, look_at, prepare
from penstock.log.compaction.rounds import Cleaned, Round, Summary
from penstock.log.compaction.wire import Task, pack
from penstock.log.compaction.worker import Pace, alone, read, serve
from penstock.log.partition_log import PartitionLog
from penstock.node.serving.slices import at_once


class Clock:
    """Time that passes only by sleeping, and by what the test adds."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def test_no_more_bytes_are_moved_than_the_limit_allows() -> None:
    clock = Clock()
    pace = Pace(1000.0, lambda: clock.now_s, clock.sleep)
    pace.note(500)
    assert clock.slept == [0.5]
    clock.now_s += 0.2
    pace.note(500)
    assert clock.slept == [0.5, pytest.approx(0.3)]
    clock.now_s += 2.0
    pace.note(1500)
    assert len(clock.slept) == 2  # the work itself took long enough


def test_without_a_limit_nobody_waits() -> None:
    clock = Clock()
    pace = Pace(float("inf"), lambda: clock.now_s, clock.sleep)
    pace.note(1 << 40)
    assert clock.slept == []


def test_a_log_is_held_as_long_as_it_is_compacted(tmp_path: Path) -> None:
    with alone(str(tmp_path)):
        assert not can_be_had(tmp_path)
    assert can_be_had(tmp_path)
    with pytest.raises(ZeroDivisionError), alone(str(tmp_path)):
        raise ZeroDivisionError
    assert can_be_had(tmp_path)


def can_be_had(directory: Path) -> bool:
    fd = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


# rounds


@pytest.fixture(autouse=True)
def plain_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled ones take seconds to begin."""
    monkeypatch.setattr(worker, "make_keys", lambda work: plain(work.dedupe_bytes, work.load_factor))


def work_on(path: Path) -> tuple[Round, PartitionLog]:
    log = open_log(path, COMPACTED)
    for number in range(20):
        append(log, pairs((f"k{number % 3}", "v" * 60)))
    return at_once(prepare(log, look_at(log, log.log_end_offset, NOW), Buffers(), NOW))[0], log


def answers(target: io.BytesIO) -> list[object]:
    target.seek(0)
    found = []
    while (value := read(target)) is not None:
        found.append(value)
    return found


def test_each_round_is_answered_by_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, _ = work_on(tmp_path)
    held: list[bool] = []

    class Watched(Pace):
        def note(self, count: int) -> None:
            held.append(can_be_had(tmp_path / "t-0"))
            super().note(count)

    monkeypatch.setattr(worker, "Pace", Watched)
    target = io.BytesIO()
    serve(io.BytesIO(pack(Task(work, float("inf"))) * 2), target, lambda: True)
    steps = answers(target)
    assert {type(step) for step in steps} == {Cleaned, Summary}
    assert [step.records_written for step in steps if isinstance(step, Summary)] == [3, 3]
    assert held
    assert not any(held)


def test_the_limit_of_a_round_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, log = work_on(tmp_path)
    clock = Clock()
    monkeypatch.setattr(worker, "Pace", lambda limit, now_s, sleep: Pace(limit, lambda: clock.now_s, clock.sleep))
    target = io.BytesIO()
    serve(io.BytesIO(pack(Task(work, 100.0))), target, lambda: True)
    (summary,) = [step for step in answers(target) if isinstance(step, Summary)]
    assert summary.bytes_read == sum(segment.size for segment in log.segments[:-1])
    assert sum(clock.slept) * 100 == pytest.approx(2 * summary.bytes_read + summary.bytes_written)  # keys come first


def test_an_error_is_sent_and_the_next_round_done(tmp_path: Path) -> None:
    work, _ = work_on(tmp_path)
    wrong = work.replace(directory=str(tmp_path / "none"))
    target = io.BytesIO()
    serve(io.BytesIO(pack(Task(wrong, 1e9)) + pack(Task(work, 1e9))), target, lambda: True)
    steps = answers(target)
    assert isinstance(steps[0], FileNotFoundError)
    assert isinstance(steps[-1], Summary)


def test_a_damaged_log_is_told_as_what_it_is(tmp_path: Path) -> None:
    work, log = work_on(tmp_path)
    path = Path(log.segments[0].path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    target = io.BytesIO()
    serve(io.BytesIO(pack(Task(work, 1e9))), target, lambda: True)
    (error,) = answers(target)
    assert isinstance(error, UncleanableError)
    assert "CRC" in str(error)


def test_a_round_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    work, _ = work_on(tmp_path)
    target = io.BytesIO()
    serve(io.BytesIO(pack(Task(work, 1e9))), target, lambda: False)
    assert answers(target) == []
    assert can_be_had(tmp_path / "t-0")


@pytest.mark.parametrize("has_numba", [True, False])
def test_keys_are_compiled_where_that_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_numba: bool
) -> None:
    monkeypatch.undo()
    compiled = ModuleType("compiled_keys")
    compiled.CompiledKeys = lambda *sizes: ("compiled", *sizes)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "penstock.log.compaction.compiled_keys", compiled if has_numba else None)
    work = work_on(tmp_path)[0].replace(dedupe_bytes=192 * 40, load_factor=0.5)
    keys: object = worker.make_keys(work)
    if has_numba:
        assert keys == ("compiled", 192 * 40, 0.5)
    else:
        assert isinstance(keys, PlainKeys)
        assert keys.capacity == 20
