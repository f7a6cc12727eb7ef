"""Seeds in several processes, each with a line in a file, which is taken up where it ends."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.nodes import many_seeds
from penstock.cli.nodes.simulate import command

SHORT = "--seed 7 --nodes 1: 1 nodes, 9 virtual seconds: nothing is wrong\n"


def lines_of(monkeypatch: pytest.MonkeyPatch, results: Path, *, broken: int = -1) -> tuple[list[int], int]:
    """The seeds that are simulated when 5 to 9 are asked for, and the exit code."""
    asked: list[int] = []

    def simulated(seeds: list[int], nodes: int, processes: int) -> list[str]:
        assert (nodes, processes) == (1, 2)
        asked.extend(seeds)
        end = {broken: f"{many_seeds.BROKEN}a rule"}
        return [f"{many_seeds.replay(seed, nodes)}: 1 nodes: {end.get(seed, many_seeds.FINE)}" for seed in seeds]

    monkeypatch.setattr(many_seeds, "_lines", simulated)
    words = ["--seeds", "5..9", "--nodes", "1", "--processes", "2", "--results", str(results)]
    return asked, CliRunner().invoke(command, words).exit_code


def test_a_seed_that_has_its_line_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    results.write_text(SHORT + "--seed 8 --nodes 1: 1 nodes, 4 virt")  # it was killed while it wrote
    assert lines_of(monkeypatch, results) == ([5, 6, 8, 9], 0)
    assert lines_of(monkeypatch, results) == ([], 0)
    assert results.read_text().startswith(SHORT)


def test_a_broken_rule_is_in_the_file_and_the_others_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    assert lines_of(monkeypatch, results, broken=6) == ([5, 6, 7, 8, 9], 1)
    assert "--seed 6 --nodes 1: 1 nodes: broken: a rule\n" in results.read_text()
    assert lines_of(monkeypatch, results) == ([], 1)


def test_a_line_says_how_to_have_the_seed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int, nodes: int | None) -> None:
        raise RuntimeError(f"{seed}\n{nodes}")

    monkeypatch.setattr(many_seeds, "simulate", fails)
    line = many_seeds._line(5, nodes=None)
    assert line.startswith("--seed 5: no outcome, ")
    assert "broken: the simulation ends with RuntimeError" in line
    assert "\n" not in line


@pytest.mark.parametrize("words", [["--seeds", "5", "--results", "there"], ["--seeds", "5..9"]])
def test_seeds_have_two_ends_and_a_file(words: list[str]) -> None:
    assert CliRunner().invoke(command, words).exit_code == 2


def test_processes_end_after_some_seeds_and_others_take_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[int]] = []

    class Pool:
        def __init__(self, processes: int, context: object) -> None:
            assert processes == 2
            begun.append([])

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: object) -> None:
            begun.append([-1])

        def submit(self, one: Callable[[int], str], seed: int) -> "Future[str]":
            begun[-1].append(seed)
            done: Future[str] = Future()
            done.set_result(f"{seed}")
            return done

        def shutdown(self, *, cancel_futures: bool) -> None:
            begun.append([-2 if cancel_futures else -3])

    monkeypatch.setattr(many_seeds, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(many_seeds, "SEEDS_OF_A_PROCESS", 3)
    found = list(many_seeds._lines(range(10, 23), None, 2))
    assert sorted(found) == [str(seed) for seed in range(10, 23)]
    assert begun == [list(range(10, 16)), [-2], [-1], list(range(16, 22)), [-2], [-1], [22], [-2], [-1]]


def test_a_line_is_in_the_file_as_soon_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops the run has what was done until then."""
    monkeypatch.setattr(many_seeds, "_lines", lambda seeds, nodes, processes: (f"line of {seed}" for seed in seeds))
    told = ""
    for line in many_seeds.simulate_all([1, 2], None, 1, tmp_path / "results"):
        told += f"{line}\n"
        assert (tmp_path / "results").read_text() == told
    assert told == "line of 1\nline of 2\n"
