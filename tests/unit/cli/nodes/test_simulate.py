"""What `penstock simulate` runs and prints, over a simulation whose outcomes are said."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in

from penstock.cli.main import main
from penstock.cli.nodes import simulate
from penstock.cli.nodes.many_seeds import FINE


@dataclass
class Outcome:
    seed: int
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=lambda: [f"line {number}" for number in range(50)])


class Simulator:
    """Each run takes a minute; some seeds break a rule."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int | None]] = []
        self.asked: list[Any] = []
        self.now_s = 0.0
        self.broken: set[int] = set()
        self.lines: list[str] = []
        self._drawn = 0

    def __call__(self, seed: int, nodes: int | None) -> Outcome:
        self.runs.append((seed, nodes))
        self.now_s += 60
        return Outcome(seed, ["a rule"] if seed in self.broken else [])

    def randrange(self, end: int) -> int:
        assert end == simulate.MAX_SEED
        self._drawn += 1
        return self._drawn

    def all(self, seeds: range, nodes: int | None, processes: int, results: Path) -> Iterator[str]:
        self.asked = [seeds, nodes, processes, results.name]
        yield from self.lines


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Simulator:
    found = Simulator()
    monkeypatch.setattr(simulate, "simulate", found)
    monkeypatch.setattr(simulate, "simulate_all", found.all)
    monkeypatch.setattr(simulate, "SystemRandom", lambda: found)
    monkeypatch.setattr(simulate, "time", stand_in(time, monotonic=lambda: found.now_s))
    monkeypatch.setattr(simulate, "told", lambda outcome: f"told of {outcome.seed}")
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *words])


def test_a_new_seed_is_drawn(simulator: Simulator) -> None:
    result = run()
    assert simulator.runs == [(1, None)]
    assert (result.exit_code, result.output) == (0, "seed 1: told of 1\n")


def test_a_seed_is_replayed_with_its_trace(simulator: Simulator) -> None:
    result = run("--seed", "7", "--nodes", "3", "--trace")
    assert simulator.runs == [(7, 3)]
    assert result.output.splitlines() == [*(f"line {number}" for number in range(50)), "seed 7: told of 7"]


def test_seeds_are_drawn_until_time_is_over(simulator: Simulator) -> None:
    result = run("--minutes", "3")
    assert simulator.runs == [(1, None), (2, None), (3, None)]
    assert (result.exit_code, result.output) == (0, "3 seeds, nothing is wrong\n")


def test_one_seed_does_not_take_all_the_time(simulator: Simulator) -> None:
    result = run("--minutes", "3", "--seed", "5")
    assert simulator.runs == [(5, None)]
    assert result.output == "1 seeds, nothing is wrong\n"


@pytest.mark.parametrize(("words", "begins"), [((), 10), (("--trace",), 0), (("--minutes", "9"), 10)])
def test_a_rule_that_is_broken_ends_it(simulator: Simulator, words: tuple[str, ...], begins: int) -> None:
    simulator.broken = {1, 2}
    result = run(*words)
    assert simulator.runs == [(1, None)]
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [*(f"line {number}" for number in range(begins, 50)), "seed 1: told of 1"]
    assert result.stderr == "broken: a rule\nto replay: penstock simulate --seed 1 --trace\n"


def test_it_is_replayed_with_as_many_nodes(simulator: Simulator) -> None:
    simulator.broken = {4}
    assert "penstock simulate --seed 4 --nodes 2 --trace" in run("--seed", "4", "--nodes", "2").stderr


@pytest.mark.parametrize(
    "words", [("1..5",), ("1-5", "--results", "r"), ("1..", "--results", "r"), ("1..5 ", "--results", "r")]
)
def test_many_seeds_are_a_span_and_go_to_a_file(simulator: Simulator, words: tuple[str, ...]) -> None:
    result = run("--seeds", *words)
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: --seeds is FIRST..LAST, and --results names a file\n")


@pytest.mark.parametrize(("lines", "exit_code"), [([], 0), ([f"1: {FINE}"] * 2, 0), ([f"1: {FINE}", "2: broken"], 1)])
def test_many_seeds(simulator: Simulator, lines: list[str], exit_code: int) -> None:
    simulator.lines = lines
    result = run("--seeds", "1..5", "--results", "r", "--nodes", "2", "--processes", "4")
    assert simulator.asked == [range(1, 6), 2, 4, "r"]
    assert (result.exit_code, result.output.splitlines()) == (exit_code, lines)
