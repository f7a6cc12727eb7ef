"""Runs in a shared driver on virtual time: none outlives its time, and the driver is not killed for those that obey."""

import random

import pytest

from penstock.pipeline.jobs.driver_runs import DriverRuns

LOOK_S = 0.05
SECONDS = 120
MOST_RUNS = 5


class PlayedDriver:
    """Obeys a stop after so long, an interruption at once, or neither."""

    def __init__(self, chance: random.Random, *, obeys: bool) -> None:
        self.is_alive = True
        self.running: set[int] = set()
        self._chance, self._obeys = chance, obeys
        self._ends_at_s: dict[int, float] = {}

    def hear(self, message: dict[str, object], now_s: float) -> None:
        kind, run = next((kind, run) for kind, run in message.items() if isinstance(run, int))
        if kind == "begin":
            self.running.add(run)
        elif kind == "stop":
            drains_s = self._chance.choice((0.1, 1.0, 5.0, 1e9)) if not self._obeys else 0.5
            self._ends_at_s[run] = now_s + drains_s
        elif self._chance.random() < 0.8:
            self._ends_at_s[run] = now_s + 0.1

    def ended(self, now_s: float) -> list[int]:
        found = [run for run, at_s in self._ends_at_s.items() if now_s >= at_s and run in self.running]
        self.running.difference_update(found)
        return found


def simulate(seed: int, *, obeys: bool = False) -> list[str]:
    chance = random.Random(seed)
    runs, driver = DriverRuns(), PlayedDriver(chance, obeys=obeys)
    over_by_s: dict[int, float] = {}
    wrong: list[str] = []
    for tick in range(round(SECONDS / LOOK_S)):
        now_s = tick * LOOK_S
        messages: list[dict[str, object]] = []
        if chance.random() < 0.05 and len(runs.alive) < MOST_RUNS:
            messages.append(dict(runs.begin([], "")[1]))
        if chance.random() < 0.05 and runs.alive:
            run, patience_s = chance.choice(sorted(runs.alive)), chance.choice((2.0, 10.0, 30.0))
            over_by_s.setdefault(run, now_s + patience_s)
            messages += map(dict, runs.stop(run, now_s, patience_s))
        messages += map(dict, runs.due(now_s))
        for message in messages:
            driver.hear(message, now_s)
        if runs.is_stuck(now_s):
            if all(now_s < by_s - 10 for by_s in over_by_s.values()) or obeys:
                wrong.append(f"{now_s}: the driver is killed for nothing")
            runs, driver, over_by_s = DriverRuns(), PlayedDriver(chance, obeys=obeys), {}
        for run in driver.ended(now_s):
            runs.over(run)
            over_by_s.pop(run, None)
        late = [run for run, by_s in over_by_s.items() if now_s >= by_s and run in driver.running]
        wrong += [f"{now_s}: run {run} goes on though its time is over" for run in late]
        if runs.alive != driver.running:
            wrong.append(f"{now_s}: {sorted(runs.alive)} are thought to run, and {sorted(driver.running)} do")
    return wrong


@pytest.mark.parametrize("obeys", [False, True])
def test_no_run_outlives_its_time(obeys: bool) -> None:
    assert [wrong for seed in range(10) for wrong in simulate(seed, obeys=obeys)] == []


def test_a_driver_that_is_not_killed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DriverRuns, "is_stuck", lambda *_: False)
    assert any("goes on though its time is over" in wrong for seed in range(10) for wrong in simulate(seed))


def test_a_stop_that_begins_its_time_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = DriverRuns.stop

    def again(self: DriverRuns, run: int, now_s: float, patience_s: float) -> object:
        self._ending.pop(run, None)
        return stop(self, run, now_s, patience_s)

    monkeypatch.setattr(DriverRuns, "stop", again)
    assert any("goes on though its time is over" in wrong for seed in range(10) for wrong in simulate(seed))
