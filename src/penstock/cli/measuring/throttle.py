"""How fast records are sent, as `--throughput` says."""

import asyncio
from typing import Any, Final

import click

from penstock.cli.terminal.options import option

TURN: Final = 1_000
"""After so many records the event loop gets a turn, for whoever wants to interrupt."""


def throughput_option(**attributes: Any) -> Any:
    """A number above 0, or -1."""
    return option("Records a second, about; -1 for as many as can be.", callback=_check, **attributes)


def _check(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value == 0:
        raise click.BadParameter("0 would never send anything: give -1 for no limit", context, parameter)
    return value


class Throttle:
    """`rate`: records a second; below 0 as fast as they can be sent."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._begun_s = asyncio.get_running_loop().time()

    async def wait(self, sent: int) -> None:
        """Wait until it is time for the next record."""
        ahead_s = sent / self._rate - (asyncio.get_running_loop().time() - self._begun_s) if self._rate > 0 else 0.0
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
        elif sent % TURN == 0:
            await asyncio.sleep(0)
