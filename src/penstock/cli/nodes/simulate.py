"""`penstock simulate`: run nodes and their clients on virtual time, with faults, from a seed (docs/simulation.md)."""

import time
from random import SystemRandom

import click

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
) -> None:
    """Simulate nodes, their clients, network and disks; exit with 1 if a rule was broken."""
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


def _print(outcome: Outcome, nodes: int | None, *, trace: bool, quiet: bool) -> None:
    if trace or outcome.violations:
        for line in outcome.trace if trace else outcome.trace[-LAST_LINES:]:
            say(line)
    if outcome.violations:
        for violation in outcome.violations:
            say(f"broken: {violation}", err=True)
        forced = "" if nodes is None else f" --nodes {nodes}"
        say(f"to replay: penstock simulate --seed {outcome.seed}{forced} --trace", err=True)
    if not quiet or outcome.violations:
        say(
            f"seed {outcome.seed}: {len(outcome.plan.nodes)} nodes, {outcome.virtual_s:.0f} virtual seconds, "
            f"{outcome.acknowledged} records acknowledged, trace {outcome.hash[:16]}"
        )
