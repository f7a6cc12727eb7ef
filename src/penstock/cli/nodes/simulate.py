"""`penstock simulate`: run nodes and their clients on virtual time, with faults, from a seed (docs/simulation.md)."""

import re
import time
from pathlib import Path
from random import SystemRandom

import click

from penstock.cli.nodes.many_seeds import FINE, replay, simulate_all, told
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.testing.simulator import Outcome, simulate
from penstock.testing.simulator.plan import FIRST_WITH_TRANSACTIONS

LAST_LINES = 40
MAX_SEED = 2 * FIRST_WITH_TRANSACTIONS
"""Half of the seeds are with transactions."""


@click.command("simulate")
@declared
def command(
    seed: int | None = option("Replay this seed; without it a new one is drawn."),
    nodes: int | None = option("So many nodes; without it the seed decides.", min=1, max=5),
    minutes: float | None = option("Draw new seeds for so long, or until one fails."),
    trace: bool = option("Print the whole trace, one line per event, even if nothing is wrong."),
    seeds: str | None = option("All of these, FIRST..LAST, whether one fails or not; --results gets a line for each."),
    processes: int = option("Of --seeds, so many at once.", min=1, default=1),
    results: Path | None = option("Where --seeds adds its lines; a seed that has one is not run again.", exists=False),
) -> None:
    """Simulate nodes, their clients, network and disks; exit with 1 if a rule was broken."""
    if seeds is not None:
        _run_all(seeds, nodes, processes, results)
    else:
        _run(seed, nodes, minutes, trace=trace)


def _run(seed: int | None, nodes: int | None, minutes: float | None, *, trace: bool) -> None:
    end = time.monotonic() + 60 * (minutes or 0)
    seeds = 0
    while True:
        outcome = simulate(SystemRandom().randrange(MAX_SEED) if seed is None else seed, nodes)
        seeds += 1
        _print(outcome, nodes, trace=trace, quiet=minutes is not None)
        if outcome.violations:
            raise SystemExit(1)
        if seed is not None or time.monotonic() >= end:
            break
    if minutes is not None:
        say(f"{seeds} seeds, nothing is wrong")


def _run_all(seeds: str, nodes: int | None, processes: int, results: Path | None) -> None:
    span = re.fullmatch(r"(\d+)\.\.(\d+)", seeds)
    if span is None or results is None:
        raise click.UsageError("--seeds is FIRST..LAST, and --results names a file")
    failed = 0
    for line in simulate_all(range(int(span[1]), int(span[2]) + 1), nodes, processes, results):
        failed += not line.endswith(FINE)
        say(line)
    raise SystemExit(1 if failed else 0)


def _print(outcome: Outcome, nodes: int | None, *, trace: bool, quiet: bool) -> None:
    if trace or outcome.violations:
        for line in outcome.trace if trace else outcome.trace[-LAST_LINES:]:
            say(line)
    if outcome.violations:
        for violation in outcome.violations:
            say(f"broken: {violation}", err=True)
        say(f"to replay: penstock simulate {replay(outcome.seed, nodes)} --trace", err=True)
    if not quiet or outcome.violations:
        say(f"seed {outcome.seed}: {told(outcome)}")
