"""`penstock leaders`: plan who should lead which partition, compare that with who does, and balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from penstock.cli.replicas.leader_balance import WHICH, balance
from penstock.cli.replicas.leadership import TOPIC, Leadership, Rates, loads, look, traffic
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import Value, as_objects, joined, print_found, print_json, print_table
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.leadership.plan import ideal_leaders, in_order, ranks_of, weights_by_rate
from penstock.protocol.errors import ErrorCode

AT_ONCE: Final = 1_000
"""Partitions whose replicas get another order in one request."""


@click.group(short_help="plan, compare and balance who leads which partition")
def command() -> None:
    """Plan who should lead which partition, compare that with who does, and balance.

    The plan is the order of each partition's replicas: the first one should lead.
    """


@command.command("plan")
@declared
def plan(
    session: BrokerSession,
    pattern: str | None = TOPIC,
    by: str = option("What is even.", type=click.Choice(["count", "bytes"]), default="count", show_default=True),
    racks: str | None = option(
        "Partitions are led in the first of these racks that has a replica of them.",
        "--ordered-racks",
        metavar="RACK,...",
    ),
    measure: float = option(
        "With --by bytes: for how long to look at how logs grow.",
        min=0.1,
        default=10.0,
        show_default=True,
        metavar="SECONDS",
    ),
    show_all: bool = option("Show all partitions, not only those that get another leader.", "--all"),
    execute: bool = option("Write the plan into the metadata, as the order of replicas."),
    as_json: bool = JSON,
) -> None:
    """Show who should lead each partition, as evenly as replicas allow; --execute makes that the plan.

    Racks decide among plans that are equally even, or say with --ordered-racks where to lead at all, and who comes next
    when no replica there is in service. What `leader.balance.pinned` lists stays where it is pinned. Nobody leads
    anything else for it: the balancer brings leadership there, or `penstock leaders balance`. A storage group is
    planned as its partition of __storage_group, and counts as all that is in it.
    """

    async def work(admin: Admin) -> tuple[Leadership, Mapping[TopicPartition, int], Rates | None]:
        now = (await look(admin)).without_leaderless_groups()
        for words in now.pins_without_effect():
            say(words, err=True)
        now = now.limited_to(pattern)
        measured = (await traffic(admin, now, measure)).written if by == "bytes" else None
        order = ordered_racks(racks, now)
        ideal = _ideal(now, measured, order)
        if execute:
            await write_order(admin, now, ideal, ranks_of(now.racks, order))
        return now, ideal, measured

    now, ideal, measured = session.run(work)
    _show_plan(now, ideal, measured, show_all=show_all, as_json=as_json)
    changes = sum(ideal[partition] != leader for partition, leader in now.preferred.items())
    if not as_json:
        say(f"{changes} of {len(ideal)} partitions {'have' if execute else 'would have'} another preferred leader")


@command.command("show")
@declared
def show(session: BrokerSession, pattern: str | None = TOPIC, as_json: bool = JSON) -> None:
    """Compare who leads with who should."""
    now = session.run(look).limited_to(pattern)
    rows = [(one, now.partitions[one]) for one in sorted(now.partitions)]
    elsewhere = [(one, row) for one, row in rows if row.leader != row.replicas[0]]
    should, leads = (loads(it.items(), now.counts) for it in (now.preferred, now.leaders))
    columns = ["BROKER", "RACK", "SHOULD LEAD", "LEADS"]
    brokers = [(node, rack, should[node], leads[node]) for node, rack in sorted(now.racks.items())]
    if as_json:
        partitions = [(one.topic, one.partition, row.leader, row.replicas[0]) for one, row in elsewhere]
        objects = as_objects(["topic", "partition", "leader", "should_lead"], partitions)
        behind = now.catching_up
        print_json({"brokers": as_objects(columns, brokers), "elsewhere": objects, "catching_up": behind})
        return
    print_table([*columns, "IN SERVICE"], [(*row, row[0] not in now.away) for row in brokers])
    print_table(
        ["TOPIC", "PARTITION", "LEADER", "SHOULD LEAD", "IN SYNC"],
        [
            (one.topic, one.partition, row.leader if row.leader >= 0 else None, row.replicas[0], joined(row.isr))
            for one, row in elsewhere
        ],
        empty="every partition is led by who should",
    )
    _say_what_stops_it(now)


@command.command("balance")
@declared
def balance_command(
    session: BrokerSession,
    dry_run: bool = option("Show what would move, in its order, and move nothing."),
    as_json: bool = JSON,
) -> None:
    """Let everybody lead what they should: one partition at a time in the whole cluster, the smallest first.

    Nothing moves while the replica of any partition catches up. What a broker should lead that is out of service stays
    where it is. Ctrl-C stops it after the move that is under way.
    """

    async def work(admin: Admin) -> None:
        now = await look(admin)
        if dry_run:
            _show_moves(now, as_json=as_json)
        else:
            await balance(admin, now, as_json=as_json)

    session.run(work)


def ordered_racks(text: str | None, now: Leadership) -> list[str]:
    """Raises click.ClickException for a rack without a broker."""
    racks = [] if text is None else [rack.strip() for rack in text.split(",")]
    for rack in racks:
        if rack not in now.racks.values():
            raise click.ClickException(f"--ordered-racks: no broker is in rack {rack!r}")
    return racks


def _ideal(now: Leadership, measured: Rates | None, racks: Sequence[str]) -> dict[TopicPartition, int]:
    replicas = {partition: row.replicas for partition, row in now.partitions.items()}
    weights = now.counts if measured is None else weights_by_rate(measured)
    ideal = ideal_leaders(replicas, now.racks, weights=weights, pinned=now.pinned, ordered_racks=racks)
    return {partition: ideal[partition] for partition in sorted(replicas)}


async def write_order(
    admin: Admin, now: Leadership, ideal: Mapping[TopicPartition, int], ranks: Mapping[int, int]
) -> None:
    planned = {one: in_order(now.partitions[one].replicas, leader, ranks) for one, leader in ideal.items()}
    changes = {one: nodes for one, nodes in planned.items() if nodes != now.partitions[one].replicas}
    moving = await admin.partitions.reassignments()
    stuck = [partition for partition in changes if partition in moving]
    if stuck:
        raise click.ClickException(f"{stuck[0]} is on its way to other brokers: plan again when it has arrived")
    rows = list(changes.items())
    for start in range(0, len(rows), AT_ONCE):
        outcomes = await admin.partitions.reassign(dict(rows[start : start + AT_ONCE]))
        for partition, outcome in sorted(outcomes.items()):
            if outcome.error is not ErrorCode.NONE:
                raise click.ClickException(f"{partition}: {outcome.message or outcome.error.name}")


def _show_plan(
    now: Leadership, ideal: Mapping[TopicPartition, int], measured: Rates | None, *, show_all: bool, as_json: bool
) -> None:
    shown = [one for one in ideal if show_all or ideal[one] != now.partitions[one].replicas[0]]
    leads, should, planned = (loads(it.items(), now.counts) for it in (now.leaders, now.preferred, ideal))
    rates_then = None if measured is None else loads(ideal.items(), measured)
    rates_now = None if measured is None else loads(now.leaders.items(), measured)
    columns = ["BROKER", "RACK", "LEADS", "SHOULD LEAD", "PLANNED"]
    rows: list[tuple[Value, ...]] = [
        (node, rack, leads[node], should[node], planned[node]) for node, rack in sorted(now.racks.items())
    ]
    if rates_now is not None and rates_then is not None:
        columns += ["BYTES/S", "BYTES/S PLANNED"]
        rows = [(*row, rates_now[node], rates_then[node]) for row, node in zip(rows, sorted(now.racks), strict=True)]
    names = ["TOPIC", "PARTITION", "REPLICAS", "LEADER", "PLANNED", "PINNED TO"]
    partitions: list[tuple[Value, ...]] = [
        (one.topic, one.partition, joined(row.replicas), row.leader, ideal[one], _pin(now, one))
        for one in shown
        for row in [now.partitions[one]]
    ]
    if as_json:
        objects = as_objects(names, partitions)
        full = [row | {"replicas": now.partitions[one].replicas} for one, row in zip(shown, objects, strict=True)]
        print_json({"brokers": as_objects(columns, rows), "partitions": full})
        return
    print_table(columns, rows)
    print_table(names, partitions, empty="the plan is what is preferred now")


def _show_moves(now: Leadership, *, as_json: bool) -> None:
    rows = [(one, now.partitions[one]) for one in now.moved]
    columns = ["TOPIC", "PARTITION", "FROM", "TO"]
    moves = [(one.topic, one.partition, row.leader, row.replicas[0]) for one, row in rows]
    can_move = [(*move, row.replicas[0] in row.isr) for move, (_, row) in zip(moves, rows, strict=True)]
    empty = "every partition is led by who should, or by nobody"
    print_found(as_objects(columns, moves), [*columns, "CAN MOVE"], can_move, as_json=as_json, empty=empty)
    if rows and not as_json:
        _say_what_stops_it(now)


def _say_what_stops_it(now: Leadership) -> None:
    if now.catching_up:
        say(
            f"{now.catching_up} partitions have a replica that catches up: nothing moves until it is in sync; {WHICH}",
            err=True,
        )


def _pin(now: Leadership, partition: TopicPartition) -> str | None:
    pin = now.pinned.get(partition)
    if pin is None:
        return None
    return str(pin) if pin in now.partitions[partition].replicas else f"{pin}, which has no replica"
