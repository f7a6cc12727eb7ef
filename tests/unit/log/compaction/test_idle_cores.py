"""Where the steps of a round are made: on idle cores, and by the calling thread where there are none."""

import os
import threading
from collections.abc import Iterator

import pytest

from penstock.log.compaction.idle_cores import on_idle_cores
from penstock.log.compaction.rounds import Moved, Step

HERE = "by the calling thread"
ON_IDLE_CORES = "on idle cores"


class Clocks:
    """The time, and how much of it the thread had."""

    def __init__(self) -> None:
        self.now_s = self.had_s = 0.0

    def __call__(self) -> tuple[float, float]:
        return self.now_s, self.had_s


def makers_of(took: list[tuple[float, float]]) -> list[str]:
    """Who makes each step, where each takes so long, and so much of a core."""
    clocks, caller, found = Clocks(), threading.get_ident(), []

    def steps() -> Iterator[Step]:
        for seconds, cpu_s in took:
            found.append(HERE if threading.get_ident() == caller else ON_IDLE_CORES)
            clocks.now_s += seconds
            clocks.had_s += cpu_s
            yield Moved(1)

    assert list(on_idle_cores(steps(), clocks)) == [Moved(1)] * len(took)
    return found


def test_all_but_the_first_step_are_made_on_idle_cores() -> None:
    assert makers_of([(2.0, 0.02)] + [(0.01, 0.01)] * 3) == [HERE] + [ON_IDLE_CORES] * 3


def test_a_step_that_works_for_long_is_not_starving() -> None:
    assert makers_of([(0.01, 0.01)] + [(3.0, 1.0)] * 3) == [HERE] + [ON_IDLE_CORES] * 3


def test_a_step_that_waits_for_a_moment_is_not_starving() -> None:
    assert makers_of([(0.01, 0.01)] + [(0.2, 0.001)] * 3) == [HERE] + [ON_IDLE_CORES] * 3


def test_without_idle_cores_the_calling_thread_goes_on_to_the_end() -> None:
    steps = [(0.01, 0.01), (0.01, 0.01), (1.0, 0.003), (0.01, 0.01), (0.01, 0.01)]
    assert makers_of(steps) == [HERE, ON_IDLE_CORES, ON_IDLE_CORES, HERE, HERE]


def test_an_error_comes_as_it_was_raised() -> None:
    def steps() -> Iterator[Step]:
        yield Moved(1)
        raise OSError(5, "broken")

    with pytest.raises(OSError, match="broken"):
        list(on_idle_cores(steps()))


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has such threads")
def test_the_thread_runs_on_idle_cores_alone_and_its_process_does_not() -> None:
    policies = []

    def steps() -> Iterator[Step]:
        for _ in range(3):
            policies.append(os.sched_getscheduler(0))
            yield Moved(1)

    list(on_idle_cores(steps(), Clocks()))
    assert policies == [os.SCHED_OTHER, os.SCHED_IDLE, os.SCHED_IDLE]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
