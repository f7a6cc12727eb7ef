"""`penstock storage-groups`: which groups replicate topics by consensus, who leads them, and new ones."""

import click

from penstock.cli.replicas.recover_storage_group import recover
from penstock.cli.terminal.names import parse_numbers
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import Value, joined, print_found, print_lines, print_table
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin
from penstock.client.admin.storage_groups import DEFAULT, StorageGroup


@click.group(short_help="show, create and recover storage groups", invoke_without_command=True)
@declared
def command(
    session: BrokerSession,
    describe: bool = option("Show the groups and their topics (the default)."),
    create: bool = option("Create a group before any topic is in it."),
    number: int | None = option("Only this group, for --describe.", "--group", min=0),
    replication_factor: int | None = option("Voters of the new group (default: the broker's).", min=1),
    replicas: str | None = option("The nodes that vote in the new group, instead.", metavar="1,2,3"),
    as_json: bool = JSON,
) -> None:
    """Show and create storage groups.

    A topic that is created with replication.mode=consensus is in one: its partitions share one log of the consensus
    core with the group's other topics, and what is acknowledged is on the disks of a majority. Such a topic joins the
    group that has as many replicas and the fewest partitions, or begins one; storage.group=NUMBER names one.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if describe and create:
        raise click.UsageError("give one of --describe, --create")
    if not create and (replication_factor is not None or replicas is not None):
        raise click.UsageError("--replication-factor and --replicas are for --create")
    if create and number is not None:
        raise click.UsageError("--group is for --describe: a new group gets the next number")
    if replication_factor is not None and replicas is not None:
        raise click.UsageError("give one of --replication-factor, --replicas")
    voters = [] if replicas is None else parse_numbers(replicas, "--replicas")

    async def work(admin: Admin) -> None:
        groups = admin.storage_groups
        if create:
            got, nodes = await groups.create(replication_factor=replication_factor or DEFAULT, replicas=voters)
            line = f"created storage group {got}, in which {joined(nodes)} vote"
            print_lines([line], {"group": got, "voters": nodes}, as_json=as_json)
            return
        shown = [group for group in await groups.describe() if number in (None, group.number)]
        if number is not None and not shown:
            raise click.ClickException(f"there is no storage group {number}")
        _show(shown, as_json=as_json)

    session.run(work)


command.add_command(recover)


def _show(groups: list[StorageGroup], *, as_json: bool) -> None:
    columns = ["GROUP", "LEADER", "VOTERS", "ISR", "TOPICS", "PARTITIONS"]
    empty = "no storage group: `--create` makes one, and so does a topic with replication.mode=consensus"
    print_found([_as_json(one) for one in groups], columns, [_row(one) for one in groups], as_json=as_json, empty=empty)
    rows = [(group.number, topic, count) for group in groups for topic, count in group.topics.items()]
    if rows and not as_json:
        print_table(["GROUP", "TOPIC", "PARTITIONS"], rows)


def _row(group: StorageGroup) -> tuple[Value, ...]:
    it = group.partition
    leader = it.leader if it.leader >= 0 else None
    counts = (len(group.topics), sum(group.topics.values()))
    return (group.number, leader, joined(it.replicas), joined(it.isr) or None, *counts)


def _as_json(group: StorageGroup) -> dict[str, object]:
    return {
        "group": group.number,
        "leader": group.partition.leader,
        "leader_epoch": group.partition.leader_epoch,
        "voters": group.partition.replicas,
        "isr": group.partition.isr,
        "topics": [{"topic": topic, "partitions": count} for topic, count in group.topics.items()],
    }
