"""`python -m bench.against TREE [--pairs N]`: what small requests cost this checkout and another one.

A node of each runs, and the two take many short turns, so whatever else happens to the machine hits both. A pair is six
turns of each; the first pair warms up. Below a ratio of 1 this checkout is the better one.
"""

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from rich.console import Console

from bench.measure import Figures, Measure, table
from bench.process import AT_ONCE, Command, CpuTimes, penstock_command, running_node
from bench.round_trip import REQUESTS_OF, SmallRequests

HERE = Path(__file__).parents[1]
TURN = {50: 6_000, 1: 2_000}
"""How many requests are sent in one turn, by how many are in flight."""
TURNS = 6
"""Of each side in a pair."""


def command_of(tree: Path) -> Command:
    def command(directory: Path, port: int, settings: Mapping[str, str]) -> tuple[Sequence[str], Mapping[str, str]]:
        arguments, environment = penstock_command(directory, port, settings)
        return arguments, {**environment, "PYTHONPATH": str(tree / "src")}

    return command


class Side:
    def __init__(self, stack: ExitStack, settings: Mapping[str, str], command: Command = penstock_command) -> None:
        self.node = stack.enter_context(running_node(settings, command))
        self._requests = SmallRequests(self.node)
        stack.callback(self._requests.close)

    def turn(self, kind: str, at_once: int) -> tuple[CpuTimes, list[float]]:
        """Many requests of a kind: their cost, and how long each lot took."""
        frames = REQUESTS_OF[kind](self._requests, TURN[at_once])
        before = self.node.cpu()
        trips = self._requests.round_trips_ms(frames, at_once)
        return self.node.cpu() - before, trips


def pair(sides: Sequence[Side], kind: str, at_once: int) -> Iterator[tuple[str, list[float]]]:
    """The sides take turns: each figure's name, and its values for both in microseconds."""
    used: list[list[CpuTimes]] = [[], []]
    trips: list[list[float]] = [[], []]
    for turn in range(2 * TURNS):
        number = (turn + 1) // 2 % 2  # the other, this, this, the other, the other …
        cpu, times = sides[number].turn(kind, at_once)
        used[number].append(cpu)
        trips[number] += times
    what, count = f"{kind}, {at_once} in flight", TURNS * TURN[at_once] / 1e6
    yield f"{what}: user CPU", [sum(cpu.user for cpu in of_side) / count for of_side in used]
    yield f"{what}: CPU", [sum(cpu.total for cpu in of_side) / count for of_side in used]
    if at_once == 1:
        yield f"{what}: p50", [statistics.median(of_side) * 1e3 for of_side in trips]


def measured(other: Path, pairs: int) -> list[Measure]:
    figures = Figures()
    with ExitStack() as stack:
        sides = [Side(stack, AT_ONCE, command_of(tree)) for tree in (other, HERE)]
        for _ in figures.runs(pairs):
            for kind, at_once in product(REQUESTS_OF, TURN):
                for figure, (theirs, ours) in pair(sides, kind, at_once):
                    figures.add(f"{figure}, other", "µs", theirs)
                    figures.add(f"{figure}, this", "µs", ours)
                    figures.add(f"{figure}, ratio", "", ours / theirs)
    return figures.measures()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.against")
    parser.add_argument("tree", type=Path, help="the other checkout")
    parser.add_argument("--pairs", type=int, default=9, help="pairs that count (9)")
    words = parser.parse_args()
    Console().print(table(measured(words.tree.resolve(), words.pairs), "This tree against the other, by request"))


if __name__ == "__main__":
    main()
