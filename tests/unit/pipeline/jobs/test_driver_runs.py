"""What a shared driver is told of its runs; no process, and time is an argument."""

from penstock.pipeline.jobs.driver_runs import INTERRUPT_BEFORE_S, KILL_BEFORE_S, DriverRuns

PATIENCE_S = 30.0


def test_each_run_has_a_number_of_its_own() -> None:
    runs = DriverRuns()
    assert runs.begin(["-", "--json"], "yaml") == (1, {"begin": 1, "arguments": ["-", "--json"], "given": "yaml"})
    runs.over(1)
    assert runs.begin([], "")[0] == 2, "what is said of a run that is over is not taken for the next one"
    assert runs.alive == {2}


def test_one_that_does_not_end_is_interrupted_and_then_the_driver_is_killed() -> None:
    runs = DriverRuns()
    slow, _ = runs.begin([], "")
    other, _ = runs.begin([], "")
    assert list(runs.due(1e9)) == []
    assert list(runs.stop(slow, 100.0, PATIENCE_S)) == [{"stop": slow}]
    assert list(runs.stop(slow, 120.0, PATIENCE_S)) == [], "it has been told, and has no more time for it"
    interrupt_at, kill_at = 100 + PATIENCE_S - INTERRUPT_BEFORE_S, 100 + PATIENCE_S - KILL_BEFORE_S
    assert list(runs.due(interrupt_at - 0.1)) == []
    assert list(runs.due(interrupt_at)) == [{"interrupt": slow}]
    assert list(runs.due(interrupt_at + 1)) == [], "once"
    assert not runs.is_stuck(kill_at - 0.1)
    assert runs.is_stuck(kill_at)
    runs.over(slow)
    assert not runs.is_stuck(1e9)
    assert runs.alive == {other}


def test_one_that_ends_in_time_is_left_alone() -> None:
    runs = DriverRuns()
    run, _ = runs.begin([], "")
    assert list(runs.stop(run, 0.0, PATIENCE_S)) == [{"stop": run}]
    runs.over(run)
    assert (list(runs.due(1e9)), runs.is_stuck(1e9), list(runs.stop(run, 1e9, PATIENCE_S))) == ([], False, [])


def test_of_little_time_there_is_some_for_each_step() -> None:
    runs = DriverRuns()
    run, _ = runs.begin([], "")
    list(runs.stop(run, 0.0, 2.0))
    assert [list(runs.due(now)) for now in (0.9, 1.0)] == [[], [{"interrupt": run}]]
    assert [runs.is_stuck(now) for now in (1.4, 1.5)] == [False, True]
