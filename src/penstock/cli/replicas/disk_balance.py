"""`penstock balance disks`: replicas are spread over the log directories of their broker, and stay on it."""

import click

from penstock.cli.replicas.leadership import look, traffic
from penstock.cli.replicas.planned_moves import IN_WORDS, Limits
from penstock.cli.replicas.relief import disks_of
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import as_objects, print_json, print_table, show_bytes
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.leadership.disks import Disk, spread_over_disks
from penstock.leadership.spread import Excess
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value


class DiskMove(Value):
    partition: TopicPartition
    broker: int
    size_bytes: int
    giver: str
    taker: str


class DiskPlan(Value):
    """Of one broker with several disks."""

    broker: int
    disks: list[Disk[TopicPartition]]
    moves: list[DiskMove]
    left: list[Excess]
    """Disks are named by their place in the list."""

    def planned_bytes(self, path: str) -> int:
        held = sum(sum(disk.held.values()) for disk in self.disks if disk.path == path)
        return held + sum(it.size_bytes * ((it.taker == path) - (it.giver == path)) for it in self.moves)


@click.command("disks", short_help="spread replicas over the log directories of their broker")
@declared
def disks_command(
    session: BrokerSession,
    limits: Limits,
    execute: bool = option("Begin the moves; `penstock log-dirs` shows how far they are."),
    as_json: bool = JSON,
) -> None:
    """Show which replicas should move to another log directory of their broker; --execute lets them.

    Each directory has its part of the bytes, and of those that are written a second, by the size of its disk. Cordoned
    directories get nothing. Storage groups stay where they are.
    """

    async def work(admin: Admin) -> None:
        plans = await plans_of_disks(admin, limits)
        show_plans(plans, as_json=as_json)
        moves = sum(len(plan.moves) for plan in plans)
        if execute and moves:
            await execute_plans(admin, plans)
            if not as_json:
                say(f"{moves} replicas are on their way; `penstock log-dirs` shows how far they are")

    session.run(work)


async def plans_of_disks(admin: Admin, limits: Limits) -> list[DiskPlan]:
    """Raises click.ClickException while any replica moves between directories."""
    now = await look(admin)
    directories = await admin.describe_log_dirs([node for node in now.racks if node not in now.away])
    if any(replica.is_future for it in directories for replica in it.partitions.values()):
        raise click.ClickException("replicas are on their way to other directories already: wait until they are there")
    measured = (await traffic(admin, now, limits.measure)).written
    plans = []
    for node, disks in sorted(disks_of(directories, now).items()):
        if len(disks) < 2:
            continue
        fixed = {one for disk in disks for one in disk.held if one.topic == STORAGE_GROUPS}
        found = spread_over_disks(
            disks, measured, fixed=fixed, tolerance=limits.tolerance, most_moves=limits.most_moves
        )
        lies = {one: disk for disk in disks for one in disk.held}
        moves = [
            DiskMove(one, node, lies[one].held[one], lies[one].path, disks[place].path)
            for one, (place,) in sorted(found.targets.items())
        ]
        plans.append(DiskPlan(node, list(disks), moves, found.left))
    return plans


async def execute_plans(admin: Admin, plans: list[DiskPlan]) -> None:
    """Raises click.ClickException if a move cannot begin."""
    outcomes = await admin.move_replicas({(it.partition, it.broker): it.taker for plan in plans for it in plan.moves})
    failed = [f"{one} on broker {node}: {code.name}" for (one, node), code in sorted(outcomes.items()) if code]
    if failed:
        raise click.ClickException("\n".join(["these replicas cannot move:", *failed]))


def show_plans(plans: list[DiskPlan], *, as_json: bool) -> None:
    rows = [
        (plan.broker, disk.path, disk.total_bytes, sum(disk.held.values()), plan.planned_bytes(disk.path))
        for plan in plans
        for disk in plan.disks
    ]
    moves = [it for plan in plans for it in plan.moves]
    moved = [(*it.partition, it.broker, it.size_bytes, it.giver, it.taker) for it in moves]
    left = [(plan, plan.disks[one.broker].path, one) for plan in plans for one in plan.left]
    if as_json:
        keys = ["broker", "directory", "total_bytes", "replica_bytes", "replica_bytes_planned"]
        uneven = [
            {"broker": plan.broker, "directory": path, "respect": IN_WORDS[one.respect], "share": round(one.share, 3)}
            | {"reason": one.reason}
            for plan, path, one in left
        ]
        of_moves = ["topic", "partition", "broker", "size_bytes", "from", "to"]
        print_json({"disks": as_objects(keys, rows), "moves": as_objects(of_moves, moved), "uneven": uneven})
        return
    shown = [(node, path, show_bytes(all_), show_bytes(now), show_bytes(then)) for node, path, all_, now, then in rows]
    print_table(["BROKER", "DIRECTORY", "TOTAL", "DISK", "DISK PLANNED"], shown, empty="no broker has several disks")
    if plans:
        table = [(*it.partition, it.broker, show_bytes(it.size_bytes), it.giver, it.taker) for it in moves]
        print_table(["TOPIC", "PARTITION", "BROKER", "DISK", "FROM", "TO"], table, empty="nothing should move")
    for plan, path, one in left:
        part = f"{one.share - 1:.0%} more than its part of {IN_WORDS[one.respect]}"
        say(f"{path} of broker {plan.broker} keeps {part}: {one.reason}")
