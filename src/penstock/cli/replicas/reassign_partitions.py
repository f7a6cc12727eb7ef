"""`penstock reassign-partitions`: move replicas to other brokers and directories, as Kafka's script does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.replicas.directory_moves import DEFAULT_TIMEOUT_MS, begin_moves, cancel_moves, show_moves
from penstock.cli.replicas.move_targets import check_brokers, replicas_now
from penstock.cli.replicas.partition_files import Replica, assignment_text, directories_in, replicas_in
from penstock.cli.replicas.reassignment_plan import generate
from penstock.cli.replicas.replication_throttles import (
    NO_LIMIT,
    clear_limits,
    limit_directory_moves,
    limit_moves,
    limit_option,
    planned_moves,
)
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, one_of, option
from penstock.cli.terminal.output import joined
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.partitions import Outcome
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


class Request(Value, kw_only=True):
    propose: bool = option("Propose where the replicas of topics could be.", "--generate")
    topics: Path | None = option(
        'With --generate: a file with {"topics": [{"topic": "t"}], "version": 1}.', "--topics-to-move-json-file"
    )
    broker_list: str | None = option("With --generate: the brokers to spread them over.", metavar="ID,...")
    disable_rack_aware: bool = option("With --generate: take no account of racks.")
    execute: bool = option("Begin to move replicas to where the file says.")
    verify: bool = option("Tell how far the moves of the file are.")
    cancel: bool = option("Go back to where the partitions of the file were, if they still move.")
    all_moves: bool = option("With --cancel: whatever is on the move, without a file.", "--all")
    list_all: bool = option("Show all partitions that are on the move.", "--list")
    file: Path | None = option(
        'A file with {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}; "log_dirs" '
        'beside "replicas" names the directory of each, or "any".',
        "--reassignment-json-file",
    )
    additional: bool = option("With --execute: even if other partitions are on the move.")
    disallow_replication_factor_change: bool = option("With --execute: refuse another number.")
    throttle: int = limit_option(
        "With --execute: what each broker may send and take a second for moves; --verify takes the limit away.",
        default=NO_LIMIT,
    )
    directory_throttle: int = limit_option(
        "With --execute: what each broker may copy a second between its log directories.",
        "--replica-alter-log-dirs-throttle",
        default=NO_LIMIT,
    )
    preserve_throttles: bool = option("With --verify and --cancel: leave the limits as they are.")
    timeout_ms: int = option(
        "With --execute and --cancel: how long to wait until moves between log directories can begin.",
        "--timeout",
        min=0,
        default=DEFAULT_TIMEOUT_MS,
        metavar="MS",
    )

    def checked_action(self) -> str:
        """Raises UsageError for options that do not go with it."""
        actions = {"generate": self.propose, "execute": self.execute, "verify": self.verify, "cancel": self.cancel}
        action = one_of({**actions, "list": self.list_all})
        propose, topics, broker_list = self.propose, self.topics, self.broker_list
        if self.all_moves and not self.cancel:
            raise click.UsageError("--all goes with --cancel only")
        needs_no_file = self.list_all or propose or self.all_moves
        if (self.file is None) != needs_no_file:
            verb = "does not go with" if needs_no_file else "is needed for"
            raise click.UsageError(f"--reassignment-json-file {verb} --{action}{' --all' if self.all_moves else ''}")
        if (topics is None or broker_list is None) if propose else (topics or broker_list or self.disable_rack_aware):
            raise click.UsageError(
                "--generate goes with --topics-to-move-json-file and --broker-list, and only they with it"
            )
        is_throttled = self.throttle != NO_LIMIT or self.directory_throttle != NO_LIMIT
        if not self.execute and (is_throttled or self.additional):
            raise click.UsageError("throttles and --additional go with --execute only")
        if self.preserve_throttles and not (self.verify or self.cancel):
            raise click.UsageError("--preserve-throttles goes with --verify and --cancel only")
        return action


class Plan(Value):
    request: Request
    targets: Mapping[TopicPartition, Sequence[int]]
    directories: Mapping[Replica, str]


@click.command(short_help="move replicas of partitions to other brokers")
@declared
def command(session: NodeSession, request: Request) -> None:
    """Move replicas of partitions to other brokers, and follow the moves.

    Controllers list and cancel moves; throttles and directories are a matter of brokers.
    """
    action, file = request.checked_action(), request.file
    plan = Plan(request, {} if file is None else replicas_in(file), {} if file is None else directories_in(file))
    between_brokers = action == "cancel" and request.preserve_throttles and not plan.directories
    if session.of_controllers and action != "list" and not between_brokers:
        raise click.UsageError(
            "--bootstrap-controller goes with --list, and with --cancel --preserve-throttles of moves between brokers"
        )
    session.run(lambda admin: WORK[action](admin, plan))


async def _generate(admin: Admin, plan: Plan) -> None:
    request = plan.request
    assert request.topics is not None
    assert request.broker_list is not None
    await generate(admin, request.topics, request.broker_list, rack_aware=not request.disable_rack_aware)


async def _list(admin: Admin, _: Plan) -> None:
    moving = await admin.partitions.reassignments()
    if not moving:
        say("No partition reassignments found.")
        return
    say("Current partition reassignments:")
    for partition, row in sorted(moving.items()):
        adding = f" adding: {joined(row.adding)}." if row.adding else ""
        removing = f" removing: {joined(row.removing)}." if row.removing else ""
        say(f"{partition}: replicas: {joined(row.replicas)}.{adding}{removing}")


async def _execute(admin: Admin, plan: Plan) -> None:
    request, targets = plan.request, plan.targets
    moving = await admin.partitions.reassignments()
    if moving and not request.additional:
        raise click.ClickException(EXISTING)
    check_brokers(admin, targets)
    current = await replicas_now(admin, targets)
    say(
        "Current partition replica assignment",
        "",
        assignment_text(current),
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
    )
    if request.throttle != NO_LIMIT or request.directory_throttle != NO_LIMIT:
        say(VERIFY_TOO)
    if request.throttle != NO_LIMIT:
        await limit_moves(admin, planned_moves(moving, targets, current), request.throttle)
        say(f"The inter-broker throttle limit was set to {request.throttle} B/s")
        if any(partition.topic == STORAGE_GROUPS for partition in targets):
            say(UNLIMITED, err=True)
    if request.directory_throttle != NO_LIMIT:
        await limit_directory_moves(admin, {node_id for _, node_id in plan.directories}, request.directory_throttle)
        say(f"The replica-alter-dir throttle limit was set to {request.directory_throttle} B/s")
    outcomes = await admin.partitions.reassign(
        targets, change_replication_factor=not request.disallow_replication_factor_change
    )
    _raise_for("reassigning", outcomes)
    plural = "" if len(targets) == 1 else "s"
    say(f"Successfully started partition reassignment{plural} for {joined(sorted(targets))}")
    if plan.directories:
        await begin_moves(admin, plan.directories, plan.request.timeout_ms)


async def _verify(admin: Admin, plan: Plan) -> None:
    targets = plan.targets
    moving = await admin.partitions.reassignments()
    current = await replicas_now(admin, [partition for partition in targets if partition not in moving])
    say("Status of partition reassignment:")
    for partition, nodes in sorted(targets.items()):
        if partition in moving:
            say(f"Reassignment of partition {partition} is still in progress.")
        elif list(current[partition]) == list(nodes):
            say(f"Reassignment of partition {partition} is completed.")
        else:
            say(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{joined(current[partition])} rather than {joined(nodes)}."
            )
    is_moving = False
    if plan.directories:
        is_moving = await show_moves(admin, plan.directories)
    else:
        say()  # as Kafka's tool does
    if not moving and not is_moving and not plan.request.preserve_throttles:
        await clear_limits(admin, targets)


async def _cancel(admin: Admin, plan: Plan) -> None:
    moving = await admin.partitions.reassignments()
    asked = moving if plan.request.all_moves else plan.targets
    cancelled = sorted(partition for partition in asked if partition in moving)
    if cancelled:
        await _call_back(admin, cancelled)
    else:
        say("None of the specified partition reassignments are active.")
    if not plan.request.all_moves:
        await cancel_moves(admin, plan.directories, plan.request.timeout_ms)
    if not plan.request.preserve_throttles:
        await clear_limits(admin, plan.targets or {partition: moving[partition].replicas for partition in cancelled})


async def _call_back(admin: Admin, cancelled: Sequence[TopicPartition]) -> None:
    outcomes = await admin.partitions.reassign(dict.fromkeys(cancelled))
    missed = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS  # it has come to its end in between
    _raise_for("cancelling", {row: outcome for row, outcome in outcomes.items() if outcome.error != missed})
    plural = "" if len(cancelled) == 1 else "s"
    say(f"Successfully cancelled partition reassignment{plural} for: {joined(cancelled)}")


def _raise_for(doing: str, outcomes: Mapping[TopicPartition, Outcome]) -> None:
    lines = [
        f"{partition}: {outcome.message or outcome.error.name}"
        for partition, outcome in sorted(outcomes.items())
        if outcome.error
    ]
    if lines:
        raise click.ClickException("\n".join([f"{doing} partition(s) failed:", *lines]))


WORK: Final = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
