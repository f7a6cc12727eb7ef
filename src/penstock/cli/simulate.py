"""`penstock simulate`: run a node and its clients on virtual time, with faults, from a seed (docs/simulation.md)."""

from __future__ import annotations

import time
from random import SystemRandom

import click

from penstock.testing.simulator import Outcome, simulate

LAST_LINES = 40
MAX_SEED = 1 << 32


@click.command("simulate")
@click.option("--seed", type=int, help="Replay this seed; without it a new one is drawn.")
@click.option("--minutes", type=float, help="Draw new seeds for so long, or until one fails.")
@click.option("--trace", is_flag=True, help="Print the whole trace, one line per event, even if nothing is wrong.")
def command(seed: int | None, minutes: float | None, trace: bool) -> None:
    """Simulate a node, its clients, its network and its disk; exit with 1 if a rule was broken."""
    end = time.monotonic() + 60 * (minutes or 0)
    seeds = 0
    while True:
        outcome = simulate(SystemRandom().randrange(MAX_SEED) if seed is None else seed)
        seeds += 1
        _print(outcome, trace=trace, quiet=minutes is not None)
        if outcome.violations:
            raise SystemExit(1)
        if seed is not None or time.monotonic() >= end:
            break
    if minutes is not None:
        click.echo(f"{seeds} seeds, nothing is wrong")


def _print(outcome: Outcome, *, trace: bool, quiet: bool) -> None:
    if trace or outcome.violations:
        for line in outcome.trace if trace else outcome.trace[-LAST_LINES:]:
            click.echo(line)
    if outcome.violations:
        for violation in outcome.violations:
            click.echo(f"broken: {violation}", err=True)
        click.echo(f"to replay: penstock simulate --seed {outcome.seed} --trace", err=True)
    if not quiet or outcome.violations:
        click.echo(
            f"seed {outcome.seed}: {outcome.virtual_s:.0f} virtual seconds, {outcome.acknowledged} records "
            f"acknowledged, trace {outcome.hash[:16]}"
        )
