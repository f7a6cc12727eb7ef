"""`penstock balance relieve`: which replicas should leave disks that are nearly full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from penstock.cli.replicas.leadership import Leadership, look
from penstock.cli.replicas.planned_moves import PLAN_FILE, as_moves, print_moves, write_plan
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import as_objects, print_json, print_table, show_bytes
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin, LogDirDescription
from penstock.client.values import TopicPartition
from penstock.leadership.disks import Disk
from penstock.leadership.relief import Relief, relieve
from penstock.protocol.internal_topics import STORAGE_GROUPS

Disks = Mapping[int, Sequence[Disk[TopicPartition]]]


@click.command("relieve", short_help="plan what should leave disks that are nearly full")
@declared
def relieve_command(
    session: BrokerSession,
    most: int = option(
        "How full a disk may be.",
        "--max-disk-usage-percent",
        min=1,
        max=100,
        default=80,
        show_default=True,
        metavar="PERCENT",
    ),
    path: Path | None = PLAN_FILE,
    as_json: bool = JSON,
) -> None:
    """Show which replicas should leave disks that are nearly full, and for which brokers; nothing moves.

    Just enough of them go, to brokers whose disks stay below the same mark. Cordoned brokers get nothing, and
    partitions keep as many racks as they have. `penstock balance execute --file` carries the plan out.
    """

    async def work(admin: Admin) -> tuple[Leadership, Disks, Relief[TopicPartition]]:
        now = (await look(admin)).without_leaderless_groups()
        racks = {node: rack for node, rack in now.racks.items() if node not in now.away}
        disks = disks_of(await admin.describe_log_dirs(racks.keys()), now)
        replicas = {one: row.replicas for one, row in now.partitions.items()}
        return now, disks, relieve(replicas, disks, racks, most=most / 100)

    now, disks, found = session.run(work)
    _show(now, disks, found, most / 100, as_json=as_json)
    write_plan(path, found.targets)


def disks_of(directories: Sequence[LogDirDescription], now: Leadership) -> Disks:
    """A storage group is as large as all that is in it."""
    group_of = {one: group for group, its in now.members.items() for one in its}
    disks: dict[int, list[Disk[TopicPartition]]] = {}
    for it in directories:
        held: dict[TopicPartition, int] = {}
        for partition, replica in it.partitions.items():
            one = group_of.get(partition, partition)
            if one in now.partitions and not replica.is_future and partition.topic != STORAGE_GROUPS:
                held[one] = held.get(one, 0) + replica.size_bytes
        is_open = not it.error and not it.is_cordoned
        disks.setdefault(it.node_id, []).append(Disk(it.path, it.total_bytes, it.usable_bytes, held, is_open))
    return disks


def _show(now: Leadership, disks: Disks, found: Relief[TopicPartition], most: float, *, as_json: bool) -> None:
    full = [(node, disk) for node, its in sorted(disks.items()) for disk in its if disk.is_known]
    full = [(node, disk) for node, disk in full if disk.excess(most) > 0]
    before = {one: row.replicas for one, row in now.partitions.items()}
    columns = ["BROKER", "DIRECTORY", "USED", "TOTAL", "LEAVES"]
    rows = [
        (node, disk.path, disk.total_bytes - disk.usable_bytes, disk.total_bytes, _leaving(node, disk, found))
        for node, disk in full
    ]
    if as_json:
        left = as_objects(
            ["BROKER", "DIRECTORY", "EXCESS BYTES"], [(it.broker, it.path, it.excess_bytes) for it in found.left]
        )
        print_json({"disks": as_objects(columns, rows), "partitions": as_moves(before, found.targets), "left": left})
        return
    shown = [
        (node, path, show_bytes(used), show_bytes(total), show_bytes(gone)) for node, path, used, total, gone in rows
    ]
    print_table(columns, shown, empty=f"no disk is fuller than {most:.0%}")
    if rows:
        sizes = {one: size for its in disks.values() for disk in its for one, size in disk.held.items()}
        print_moves(before, found.targets, sizes)
    for it in found.left:
        too_many = f"{show_bytes(it.excess_bytes)} more than it may have"
        say(f"{it.path} of broker {it.broker} keeps {too_many}: no broker has room for any other replica in it")


def _leaving(node: int, disk: Disk[TopicPartition], found: Relief[TopicPartition]) -> int:
    return sum(disk.held[one] for one, nodes in found.targets.items() if one in disk.held and node not in nodes)
