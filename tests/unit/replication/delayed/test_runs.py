"""Runs of records beside plain lists."""

from random import Random

import pytest

from penstock.replication.delayed.near import NEVER_MS
from penstock.replication.delayed.runs import Run, Runs


def test_the_last_ones_of_a_run_are_taken_first() -> None:
    run = Run([5, 3, 9], 40)
    assert (len(run), list(run), run.offsets()) == (3, [(5, 40), (3, 41), (9, 42)], range(40, 43))
    assert run.take_some(2) == [(3, 41), (9, 42)]
    assert (list(run), run.offsets()) == ([(5, 40)], range(40, 41))
    assert run.take_some(2) == [(5, 40)]
    assert len(run) == 0


@pytest.mark.parametrize("seed", range(5))
def test_runs_are_lists_of_which_the_one_goes_first_that_is_due_first(seed: int) -> None:
    random, runs, model, end = Random(seed), Runs(), dict[int, list[int]](), 0
    for _ in range(200):
        match random.randrange(4):
            case 0 | 1:
                end += random.randrange(3)
                times = [random.randrange(20) for _ in range(random.randrange(1, 6))]
                runs.add(times, end, min(times))
                model[end] = times
                end += len(times)
            case 2 if model:
                most = random.randrange(1, 5)
                first = min(model, key=lambda one: (min(model[one]), one))
                taken = list(enumerate(model[first], first))[-most:]
                assert runs.take_some(most) == [(due_ms, at) for at, due_ms in taken]
                del model[first][-most:]
                model = {one: its for one, its in model.items() if its}
            case 3 if model and random.random() < 0.3:
                run = random.choice(list(runs))
                runs.discard(run)
                runs.discard(run)
                del model[run.first]
        assert {run.first: list(run.times) for run in runs} == model
        assert runs.next_due_ms == min((min(its) for its in model.values()), default=NEVER_MS)
        known = {at for first, its in model.items() for at in range(first, first + len(its))}
        assert {at for at in range(-1, end + 2) if at in runs} == known
