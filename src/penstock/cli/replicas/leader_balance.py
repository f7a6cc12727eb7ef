"""`penstock leaders balance`: the controller moves one leadership after the other, and a person sees how far it is.

The controller does it, so it goes on when the terminal is lost. Ctrl-C asks it to stop.
"""

import asyncio
import sys
from typing import Final

import click

from penstock.cli.replicas.leadership import Leadership, look
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.output import print_lines
from penstock.client.admin import Admin
from penstock.client.admin.partitions import Balance
from penstock.client.values import TopicPartition
from penstock.protocol.requests.own_apis import BalanceAction

LOOK_S: Final = 0.2
LOOKS_AFTER: Final = 25
"""How often a broker is asked what is left that could move: it may not know yet what the controller did."""

WHICH: Final = "`penstock topics --describe --under-replicated-partitions` names them"


async def balance(admin: Admin, before: Leadership, *, as_json: bool) -> None:
    """Returns when the controller moves nothing any more. Raises click.ClickException if something is left."""
    told = await admin.partitions.balance_leaders(BalanceAction.BEGIN)
    try:
        told = await _follow(admin, told, len(before.moved), silent=as_json)
    except asyncio.CancelledError:
        await asyncio.shield(admin.partitions.balance_leaders(BalanceAction.STOP))
        say("", "no more moves; where leadership went it stays", err=True)
        raise
    left = await _left(admin)
    rows = [{"topic": one.topic, "partition": one.partition} for one in left]
    document = {"moved": told.moved, "left": rows, "late_brokers": list(told.late)}
    print_lines([f"{told.moved} moved, {len(left)} left to others"], document, as_json=as_json)
    if told.late:
        late = ", ".join(map(str, told.late))
        raise click.ClickException(f"these brokers did not take over in time: {late}; what they should lead stays away")
    if left:
        raise click.ClickException(f"{len(left)} cannot move now: the replica that should lead is out of service")


async def _left(admin: Admin) -> list[TopicPartition]:
    """Returns at once if only what cannot move is left, else after a while."""
    for _ in range(LOOKS_AFTER):
        now = await look(admin)
        serving = now.racks.keys() - set(now.away)
        if not any(now.partitions[one].replicas[0] in serving for one in now.moved):
            break
        await asyncio.sleep(LOOK_S)
    return now.moved


async def _follow(admin: Admin, told: Balance, total: int, *, silent: bool) -> Balance:
    waiting_for = 0
    with click.progressbar(length=total, label="leaders", file=sys.stderr, hidden=silent or not total) as bar:
        while told.is_balancing or told.under_way is not None:
            bar.update(max(min(told.moved, total) - bar.pos, 0))
            if told.under_way is None and told.catching_up != waiting_for:
                waiting_for = told.catching_up
                if waiting_for and not silent:
                    say("", f"waiting: {waiting_for} partitions have a replica that catches up; {WHICH}", err=True)
            await asyncio.sleep(LOOK_S)
            told = await admin.partitions.balance_leaders(BalanceAction.TELL)
        bar.update(max(total - bar.pos, 0))
    return told
