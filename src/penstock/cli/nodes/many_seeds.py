"""Many seeds, in several processes: a file gets a line for each, and those that it has are not simulated again."""

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from penstock.testing.simulator import Outcome, simulate

SEEDS_OF_A_PROCESS: Final = 50
"""Then other processes take their places: what a simulation leaves in memory does not add up."""
FINE: Final = "nothing is wrong"
BROKEN: Final = "broken: "
_LINE: Final = re.compile(rf"--seed (\d+)(?: --nodes \d)?: .*(?:{FINE}|{BROKEN}.*)\n")


def told(outcome: Outcome) -> str:
    return (
        f"{len(outcome.plan.nodes)} nodes, {outcome.virtual_s:.0f} virtual seconds, "
        f"{outcome.acknowledged} records acknowledged, trace {outcome.hash[:16]}"
    )


def replay(seed: int, nodes: int | None) -> str:
    """The options of `penstock simulate` that have it again."""
    return f"--seed {seed}" + ("" if nodes is None else f" --nodes {nodes}")


def simulate_all(seeds: Sequence[int], nodes: int | None, processes: int, results: Path) -> Iterator[str]:
    """A line for each seed: first those that the file has, then others as they come."""
    with results.open("a+", encoding="utf-8") as file:
        file.seek(0)
        lines = file.readlines()
        if lines and not lines[-1].endswith("\n"):
            file.write("\n")  # it was stopped in the midst of a line
        known = {int(match[1]): line for line in lines if (match := _LINE.fullmatch(line))}
        yield from (known[seed].rstrip("\n") for seed in seeds if seed in known)
        for line in _lines([seed for seed in seeds if seed not in known], nodes, processes):
            file.write(f"{line}\n")
            file.flush()
            yield line


def _lines(seeds: Sequence[int], nodes: int | None, processes: int) -> Iterator[str]:
    one = partial(_line, nodes=nodes)
    at_once = processes * SEEDS_OF_A_PROCESS
    for first in range(0, len(seeds), at_once):
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            under_way = [pool.submit(one, seed) for seed in seeds[first : first + at_once]]
            try:
                for done in as_completed(under_way):
                    yield done.result()
            finally:
                pool.shutdown(cancel_futures=True)


def _line(seed: int, *, nodes: int | None) -> str:
    before_s = time.process_time()
    try:
        outcome = simulate(seed, nodes)
    except Exception as error:
        found, what = [f"the simulation ends with {error!r}"], "no outcome"
    else:
        found, what = outcome.violations, told(outcome)
    took_s = time.process_time() - before_s
    verdict = BROKEN + " | ".join(found).replace("\n", " ") if found else FINE
    return f"{replay(seed, nodes)}: {what}, {took_s:.2f} s of the processor: {verdict}"
