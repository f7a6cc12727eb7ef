"""`penstock balance`: propose moves of replicas that spread disks and traffic over the brokers, and carry them out."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import click

from penstock.cli.replicas.balance_moves import BalanceMoves
from penstock.cli.replicas.disk_balance import disks_command
from penstock.cli.replicas.leadership import TOPIC, Leadership, look, traffic
from penstock.cli.replicas.move_targets import cordoned
from penstock.cli.replicas.partition_files import replicas_in
from penstock.cli.replicas.planned_moves import IN_WORDS, PLAN_FILE, Limits, as_moves, print_moves, write_plan
from penstock.cli.replicas.relief import relieve_command
from penstock.cli.replicas.replication_throttles import limit_option
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import Value, as_objects, print_json, print_table, show_bytes
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.leadership.spread import Carried, Excess, spread
from penstock.protocol.value import Value as Values

Replicas = dict[TopicPartition, list[int]]
CAPACITY: Final = re.compile(r"(\d+)=(\d+(?:\.\d+)?)")
THROTTLE: Final = 50_000_000


class Wishes(Limits):
    capacity: str | None = option(
        "How large brokers are beside each other, in any unit: these get in proportion. Others are as large as 1.",
        metavar="ID=NUMBER,...",
    )
    pattern: str | None = TOPIC


class Proposal(Values):
    now: Leadership
    carried: dict[TopicPartition, Carried]
    targets: Replicas
    left: list[Excess]


@click.group(short_help="spread replicas over the brokers by disk and traffic")
def command() -> None:
    """Spread replicas over the brokers by disk and traffic."""


@command.command("plan")
@declared
def plan(
    session: BrokerSession,
    wishes: Wishes,
    path: Path | None = PLAN_FILE,
    as_json: bool = JSON,
) -> None:
    """Show which replicas should move where, and what brokers have before and after; nothing moves.

    A broker has its part of the disks' bytes, and of the bytes that are written a second and that others read: as much
    as any other, or by --capacity. Cordoned brokers get nothing. Partitions keep as many racks as they have, and a
    replica that goes is replaced in its place, so leadership may go with it.
    """
    found = session.run(lambda admin: _propose(admin, wishes))
    _show(found, as_json=as_json)
    write_plan(path, found.targets)


@command.command("execute")
@declared
def execute(
    session: BrokerSession,
    wishes: Wishes,
    path: Path | None = option("Carry out this plan instead of a new one.", "--file"),
    throttle: int = limit_option(
        "How much a broker may copy a second; -1 for no limit.", default=THROTTLE, show_default=True
    ),
    at_once: int = option("Partitions of one batch.", min=1, default=5, show_default=True),
) -> None:
    """Move replicas, one batch after the other. Ctrl-C takes back the batch that is under way; what has moved stays."""

    async def work(admin: Admin) -> None:
        if path is not None:
            targets, left = replicas_in(path, may_be_empty=True), []
        else:
            found = await _propose(admin, wishes)
            targets, left = found.targets, found.left
        if not targets:
            say("nothing moves")
            _show_left(left)
            return
        await BalanceMoves(admin, throttle, at_once).run(targets)

    session.run(work)


command.add_command(relieve_command)
command.add_command(disks_command)


async def _propose(admin: Admin, wishes: Wishes) -> Proposal:
    now = (await look(admin)).without_leaderless_groups().limited_to(wishes.pattern)
    capacities = capacities_in(wishes.capacity, now.racks) if wishes.capacity else {}
    measured = await traffic(admin, now, wishes.measure)
    carried = {one: Carried(measured.sizes[one], measured.written[one], measured.read[one]) for one in now.partitions}
    racks = {node: rack for node, rack in now.racks.items() if node not in now.away}
    found = spread(
        {one: row.replicas for one, row in now.partitions.items()},
        carried,
        racks,
        closed=await cordoned(admin, racks.keys()),
        capacities=capacities,
        tolerance=wishes.tolerance,
        most_moves=wishes.most_moves,
    )
    return Proposal(now, carried, dict(sorted(found.targets.items())), found.left)


def capacities_in(text: str, known: Collection[int]) -> dict[int, float]:
    """Reads `4=2,5=0.5`. Raises click.UsageError, and click.ClickException for a broker that is not there."""
    found: dict[int, float] = {}
    for part in text.split(","):
        match = CAPACITY.fullmatch(part.strip())
        if match is None or not float(match[2]):
            raise click.UsageError(f"--capacity: {part!r} is no broker with a number above 0, such as 4=2")
        if int(match[1]) not in known:
            raise click.ClickException(f"there is no broker {match[1]}")
        found[int(match[1])] = float(match[2])
    return found


def _show_left(left: list[Excess]) -> None:
    for one in left:
        what = IN_WORDS[one.respect]
        say(f"broker {one.broker} keeps {one.share - 1:.0%} more than its part of {what}: {one.reason}")


def _show(found: Proposal, *, as_json: bool) -> None:
    before = {one: row.replicas for one, row in found.now.partitions.items()}
    brokers = [
        (node, rack, _has(node, before, found.carried), _has(node, before | found.targets, found.carried))
        for node, rack in sorted(found.now.racks.items())
    ]
    if as_json:
        keys = ["broker", "rack", "replicas", "disk_bytes", "bytes_per_second", "read_bytes_per_second"]
        keys += [f"{key}_planned" for key in keys[2:]]
        left = [
            {
                "broker": one.broker,
                "respect": IN_WORDS[one.respect],
                "share": round(one.share, 3),
                "reason": one.reason,
            }
            for one in found.left
        ]
        flat = [(node, rack, *now, *later) for node, rack, now, later in brokers]
        print_json({"brokers": as_objects(keys, flat), "partitions": as_moves(before, found.targets), "uneven": left})
        return
    columns = ["BROKER", "RACK", "REPLICAS", "DISK", "BYTES/S", "READ/S"]
    rows: list[tuple[Value, ...]] = [
        (node, rack, count, show_bytes(disk), *rates, later, show_bytes(disk_later), *rates_later)
        for node, rack, (count, disk, *rates), (later, disk_later, *rates_later) in brokers
    ]
    print_table([*columns, *(f"{column} PLANNED" for column in columns[2:])], rows)
    print_moves(before, found.targets, {one: found.carried[one].disk_bytes for one in found.targets})
    _show_left(found.left)


def _has(
    node: int, replicas: Mapping[TopicPartition, list[int]], carried: Mapping[TopicPartition, Carried]
) -> tuple[int, int, int, int]:
    """Number of replicas, their bytes, and the bytes a second that they are written, and that are read of them."""
    held = [carried[one].loads(nodes.index(node)) for one, nodes in replicas.items() if node in nodes]
    disk, written, read, count = map(sum, zip((0, 0, 0, 0), *held, strict=True))
    return count, disk, round(written), round(read)
