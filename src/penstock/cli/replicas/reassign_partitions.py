"""`penstock reassign-partitions`: move replicas to other brokers and directories, as Kafka's script does."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.common.session import Reach, command_config_option, one_of, reach_options, run_with_admin
from penstock.cli.replicas.directory_moves import DEFAULT_TIMEOUT_MS, begin_moves, cancel_moves, show_moves
from penstock.cli.replicas.move_targets import check_brokers, replicas_now
from penstock.cli.replicas.partition_files import Replica, assignment_text, directories_in, replicas_in
from penstock.cli.replicas.reassignment_plan import generate
from penstock.cli.replicas.replication_throttles import clear_limits, limit_directory_moves, limit_moves, planned_moves
from penstock.client.admin import Admin
from penstock.client.admin.partitions import Outcome, Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value

EXISTING: Final = (
    "partitions are being reassigned already; --additional begins these moves beside them, and takes the place of one "
    "of the same partition; it can also give the moves that are under way another throttle"
)
VERIFY_TOO: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
UNLIMITED: Final = f"Warning: what storage groups copy ({STORAGE_GROUPS}) is not slowed down by a throttle."
NO_THROTTLE: Final = -1


class Plan(Value, kw_only=True):
    """What a file says, and what the options of the command do."""

    targets: Mapping[TopicPartition, Sequence[int]]
    directories: Mapping[Replica, str]
    additional: bool
    change_factor: bool
    throttle: int
    directory_throttle: int
    preserve_throttles: bool
    timeout_ms: int


@click.command(short_help="move replicas of partitions to other brokers")
@reach_options
@command_config_option
@click.option("--generate", "propose", is_flag=True, help="Propose where the replicas of topics could be.")
@click.option(
    "--topics-to-move-json-file",
    "topics",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='With --generate: a file with {"topics": [{"topic": "t"}], "version": 1}.',
)
@click.option("--broker-list", metavar="ID,...", help="With --generate: the brokers to spread them over.")
@click.option("--disable-rack-aware", is_flag=True, help="With --generate: take no account of racks.")
@click.option("--execute", is_flag=True, help="Begin to move replicas to where the file says.")
@click.option("--verify", is_flag=True, help="Tell how far the moves of the file are.")
@click.option("--cancel", is_flag=True, help="Go back to where the partitions of the file were, if they still move.")
@click.option("--list", "list_all", is_flag=True, help="Show all partitions that are on the move.")
@click.option(
    "--reassignment-json-file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='A file with {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}; "log_dirs" '
    'beside "replicas" names the directory of each, or "any".',
)
@click.option("--additional", is_flag=True, help="With --execute: even if other partitions are on the move.")
@click.option("--disallow-replication-factor-change", is_flag=True, help="With --execute: refuse another number.")
@click.option(
    "--throttle",
    type=int,
    default=NO_THROTTLE,
    metavar="BYTES",
    help="With --execute: what each broker may send and take a second for moves; --verify takes the limit away.",
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    "directory_throttle",
    type=int,
    default=NO_THROTTLE,
    metavar="BYTES",
    help="With --execute: what each broker may copy a second between its log directories.",
)
@click.option("--preserve-throttles", is_flag=True, help="With --verify and --cancel: leave the limits as they are.")
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(min=0),
    default=DEFAULT_TIMEOUT_MS,
    metavar="MS",
    help="With --execute and --cancel: how long to wait until moves between log directories can begin.",
)
def command(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    propose: bool,
    topics: Path | None,
    broker_list: str | None,
    disable_rack_aware: bool,
    execute: bool,
    verify: bool,
    cancel: bool,
    list_all: bool,
    file: Path | None,
    additional: bool,
    disallow_replication_factor_change: bool,
    throttle: int,
    directory_throttle: int,
    preserve_throttles: bool,
    timeout_ms: int,
) -> None:
    """Move replicas of partitions to other brokers, and follow the moves.

    Controllers list and cancel moves; throttles and directories are a matter of brokers.
    """
    reach = Reach.of(bootstrap_server, bootstrap_controller)
    action = one_of({"generate": propose, "execute": execute, "verify": verify, "cancel": cancel, "list": list_all})
    if (file is None) != (list_all or propose):
        verb = "does not go with" if list_all or propose else "is needed for"
        raise click.UsageError(f"--reassignment-json-file {verb} --{action}")
    if (topics is None or broker_list is None) if propose else (topics or broker_list or disable_rack_aware):
        raise click.UsageError(
            "--generate goes with --topics-to-move-json-file and --broker-list, and only they with it"
        )
    if not execute and (throttle != NO_THROTTLE or directory_throttle != NO_THROTTLE or additional):
        raise click.UsageError("throttles and --additional go with --execute only")
    if preserve_throttles and not (verify or cancel):
        raise click.UsageError("--preserve-throttles goes with --verify and --cancel only")
    plan = Plan(
        targets={} if file is None else replicas_in(file),
        directories={} if file is None else directories_in(file),
        additional=additional,
        change_factor=not disallow_replication_factor_change,
        throttle=throttle,
        directory_throttle=directory_throttle,
        preserve_throttles=preserve_throttles,
        timeout_ms=timeout_ms,
    )
    _check_reach(reach, action, plan)

    async def work(admin: Admin) -> None:
        if topics is not None and broker_list is not None:
            await generate(admin, topics, broker_list, rack_aware=not disable_rack_aware)
        elif list_all:
            _print_list(await admin.partitions.reassignments())
        elif execute:
            await _execute(admin, plan)
        elif verify:
            await _verify(admin, plan)
        else:
            await _cancel(admin, plan)

    run_with_admin(reach, command_config, work)


def _check_reach(reach: Reach, action: str, plan: Plan) -> None:
    can_controllers = action == "list" or (action == "cancel" and plan.preserve_throttles and not plan.directories)
    if reach.of_controllers and not can_controllers:
        raise click.UsageError(
            "--bootstrap-controller goes with --list, and with --cancel --preserve-throttles of moves between brokers"
        )


def _print_list(moving: Mapping[TopicPartition, Reassignment]) -> None:
    if not moving:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for partition, row in sorted(moving.items()):
        adding = f" adding: {_nodes(row.adding)}." if row.adding else ""
        removing = f" removing: {_nodes(row.removing)}." if row.removing else ""
        click.echo(f"{partition}: replicas: {_nodes(row.replicas)}.{adding}{removing}")


async def _execute(admin: Admin, plan: Plan) -> None:
    targets = plan.targets
    moving = await admin.partitions.reassignments()
    if moving and not plan.additional:
        raise click.ClickException(EXISTING)
    check_brokers(admin, targets)
    current = await replicas_now(admin, targets)
    click.echo(
        f"Current partition replica assignment\n\n{assignment_text(current)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if plan.throttle >= 0 or plan.directory_throttle >= 0:
        click.echo(VERIFY_TOO)
    if plan.throttle >= 0:
        await limit_moves(admin, planned_moves(moving, targets, current), plan.throttle)
        click.echo(f"The inter-broker throttle limit was set to {plan.throttle} B/s")
        if any(partition.topic == STORAGE_GROUPS for partition in targets):
            click.echo(UNLIMITED, err=True)
    if plan.directory_throttle >= 0:
        await limit_directory_moves(admin, {node_id for _, node_id in plan.directories}, plan.directory_throttle)
        click.echo(f"The replica-alter-dir throttle limit was set to {plan.directory_throttle} B/s")
    outcomes = await admin.partitions.reassign(targets, change_replication_factor=plan.change_factor)
    _raise_for("reassigning", outcomes)
    plural = "" if len(targets) == 1 else "s"
    click.echo(f"Successfully started partition reassignment{plural} for {_names(targets)}")
    if plan.directories:
        await begin_moves(admin, plan.directories, plan.timeout_ms)


async def _verify(admin: Admin, plan: Plan) -> None:
    targets = plan.targets
    moving = await admin.partitions.reassignments()
    current = await replicas_now(admin, [partition for partition in targets if partition not in moving])
    click.echo("Status of partition reassignment:")
    for partition, nodes in sorted(targets.items()):
        if partition in moving:
            click.echo(f"Reassignment of partition {partition} is still in progress.")
        elif list(current[partition]) == list(nodes):
            click.echo(f"Reassignment of partition {partition} is completed.")
        else:
            click.echo(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{_nodes(current[partition])} rather than {_nodes(nodes)}."
            )
    is_moving = False
    if plan.directories:
        is_moving = await show_moves(admin, plan.directories)
    else:
        click.echo()  # as Kafka's tool does
    if not moving and not is_moving and not plan.preserve_throttles:
        await clear_limits(admin, targets)


async def _cancel(admin: Admin, plan: Plan) -> None:
    moving = await admin.partitions.reassignments()
    cancelled = sorted(partition for partition in plan.targets if partition in moving)
    if cancelled:
        await _call_back(admin, cancelled)
    else:
        click.echo("None of the specified partition reassignments are active.")
    await cancel_moves(admin, plan.directories, plan.timeout_ms)
    if not plan.preserve_throttles:
        await clear_limits(admin, plan.targets)


async def _call_back(admin: Admin, cancelled: Sequence[TopicPartition]) -> None:
    outcomes = await admin.partitions.reassign(dict.fromkeys(cancelled))
    missed = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS  # it has come to its end in between
    _raise_for("cancelling", {row: outcome for row, outcome in outcomes.items() if outcome.error != missed})
    plural = "" if len(cancelled) == 1 else "s"
    click.echo(f"Successfully cancelled partition reassignment{plural} for: {_names(cancelled)}")


def _raise_for(doing: str, outcomes: Mapping[TopicPartition, Outcome]) -> None:
    lines = [
        f"{partition}: {outcome.message or outcome.error.name}"
        for partition, outcome in sorted(outcomes.items())
        if outcome.error
    ]
    if lines:
        raise click.ClickException("\n".join([f"{doing} partition(s) failed:", *lines]))


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))
