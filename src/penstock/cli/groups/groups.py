"""`penstock groups`: list, describe, reset and delete consumer groups, with the options of kafka-consumer-groups.sh."""

from pathlib import Path
from typing import Final

import click

from penstock.cli.common.names import parse_topic_partitions
from penstock.cli.common.output import print_rows
from penstock.cli.common.session import (
    bootstrap_option,
    command_config_option,
    complain_of,
    json_option,
    one_of,
    run_with_admin,
)
from penstock.cli.groups.reset import ResetTarget, reset_offsets
from penstock.cli.groups.views import (
    describe_members,
    describe_offsets,
    describe_states,
    list_groups,
)
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

STATES: Final = {
    "empty": "Empty",
    "stable": "Stable",
    "dead": "Dead",
    "preparingrebalance": "PreparingRebalance",
    "completingrebalance": "CompletingRebalance",
    "assigning": "Assigning",
    "reconciling": "Reconciling",
}


class Request(Value, kw_only=True):
    """What to do with which groups."""

    action: str
    groups: tuple[str, ...]
    all_groups: bool
    topics: tuple[str, ...]
    all_topics: bool
    members: bool
    offsets: bool
    state: str | None
    types: str | None
    verbose: bool
    execute: bool
    export: bool
    target: ResetTarget | None
    as_json: bool


@click.command(short_help="list, describe, reset and delete consumer groups")
@bootstrap_option
@command_config_option
@click.option("--list", "list_", is_flag=True, help="List the groups.")
@click.option("--describe", is_flag=True, help="Show offsets and lag (or --members, or --state) of groups.")
@click.option("--delete", is_flag=True, help="Delete groups that have no members.")
@click.option("--reset-offsets", is_flag=True, help="Move the offsets of groups that have no members.")
@click.option("--delete-offsets", is_flag=True, help="Forget a group's offsets of topics.")
@click.option("--group", "groups", multiple=True, help="The group; may be given several times.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,2]", help="A topic, or some of its partitions.")
@click.option("--all-topics", is_flag=True, help="All topics of which the group has offsets.")
@click.option("--members", is_flag=True, help="Describe the members.")
@click.option("--offsets", is_flag=True, help="Describe the offsets (the default).")
@click.option("--state", is_flag=False, flag_value="", help="Describe the state; with --list, only these, with commas.")
@click.option("--type", "types", is_flag=False, flag_value="", help="With --list, only these types: classic, consumer.")
@click.option("--verbose", is_flag=True, help="Describe with assignments.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To where they are.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option("--shift-by", type=int, help="By so many records, also back.")
@click.option("--by-duration", metavar="P1DT2H", help="To where the log was so long ago.")
@click.option("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="To the first record from this moment on.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="To what a file says, each line topic,partition,offset.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be (the default).")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--export", is_flag=True, help="Print lines for --from-file.")
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(min=1),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="How long to try to reach who coordinates the group and who leads its partitions.",
)
@json_option
def command(
    bootstrap_server: str,
    command_config: Path | None,
    list_: bool,
    describe: bool,
    delete: bool,
    reset_offsets: bool,
    delete_offsets: bool,
    groups: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    members: bool,
    offsets: bool,
    state: str | None,
    types: str | None,
    verbose: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    timeout_ms: int,
    as_json: bool,
    **target: "bool | int | str | Path | None",
) -> None:
    """List, describe, reset and delete consumer groups."""
    action = one_of(
        {
            "list": list_,
            "describe": describe,
            "delete": delete,
            "reset-offsets": reset_offsets,
            "delete-offsets": delete_offsets,
        }
    )
    if dry_run and execute:
        raise click.UsageError("--dry-run or --execute, not both")
    request = Request(
        action=action,
        groups=groups,
        all_groups=all_groups,
        topics=topics,
        all_topics=all_topics,
        members=members,
        offsets=offsets,
        state=state,
        types=types,
        verbose=verbose,
        execute=execute,
        export=export,
        target=ResetTarget(**target) if action == "reset-offsets" else None,  # type: ignore[arg-type]
        as_json=as_json,
    )
    _check(request)
    run_with_admin(bootstrap_server, command_config, lambda admin: _work(admin, request), patience_ms=timeout_ms)


def _check(request: Request) -> None:
    if request.action != "list" and bool(request.groups) == request.all_groups:
        raise click.UsageError(f"--{request.action} needs --group NAME or --all-groups")
    if request.target is not None:
        request.target.check()
        needs_topics = request.target.from_file is None
        if needs_topics and bool(request.topics) == request.all_topics:
            raise click.UsageError("--reset-offsets needs --topic NAME or --all-topics")
    if request.action == "delete-offsets" and not request.topics:
        raise click.UsageError("--delete-offsets needs --topic NAME")


async def _work(admin: Admin, request: Request) -> None:
    if request.action == "list":
        states, types = _filter(request.state, STATES), _filter(request.types, {})
        await list_groups(admin, states, types, request.state is not None, request.types is not None, request.as_json)
        return
    names = list(request.groups)
    if request.all_groups:
        names = [listing.group_id for listing in await admin.groups.listings()]
    if request.action == "describe":
        await _describe(admin, names, request)
    elif request.action == "delete":
        await _delete(admin, names, request.as_json)
    elif request.action == "delete-offsets":
        await _delete_offsets(admin, names, request)
    else:
        assert request.target is not None
        await reset_offsets(
            admin,
            names,
            None if request.all_topics else request.topics,
            request.target,
            execute=request.execute,
            export=request.export,
            as_json=request.as_json,
        )


def _filter(text: str | None, known: "dict[str, str]") -> list[str]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in parts:
        if known and part.lower() not in known:
            raise click.UsageError(f"--state: {part!r} is no state; they are {', '.join(known.values())}")
    return [known.get(part.lower(), part) for part in parts]


async def _describe(admin: Admin, names: list[str], request: Request) -> None:
    if sum((request.members, request.offsets, request.state is not None)) > 1:
        raise click.UsageError("give one of --members, --offsets, --state")
    groups = [await admin.groups.describe(name) for name in names]
    if request.members:
        describe_members(groups, request.verbose, request.as_json)
    elif request.state is not None:
        describe_states(admin, groups, request.as_json)
    else:
        complain_of(await describe_offsets(admin, groups, request.verbose, request.as_json))


async def _delete(admin: Admin, names: list[str], as_json: bool) -> None:
    for name in names:
        try:
            await admin.groups.delete(name)
        except KafkaError as error:
            raise click.ClickException(_why_not(name, error)) from None
    print_rows(["GROUP", "DELETED"], [(name, True) for name in names], as_json=as_json, empty="no group to delete")


def _why_not(group: str, error: KafkaError) -> str:
    if error.code == ErrorCode.NON_EMPTY_GROUP:
        return f"group {group!r} has members: stop its consumers first (NON_EMPTY_GROUP)"
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"group {group!r} does not exist (GROUP_ID_NOT_FOUND)"
    return f"group {group!r}: {error}"


async def _delete_offsets(admin: Admin, names: list[str], request: Request) -> None:
    await admin.cluster.refresh()
    counts = admin.cluster.metadata.partition_counts()
    partitions: list[TopicPartition] = []
    for text in request.topics:
        partitions += parse_topic_partitions(text, counts, "--topic")
    rows: list[tuple[str, str, int, str]] = []
    for name in names:
        outcome = await admin.groups.delete_offsets(name, partitions)
        rows += [(name, p.topic, p.partition, "deleted" if not code else code.name) for p, code in outcome.items()]
    print_rows(["GROUP", "TOPIC", "PARTITION", "STATUS"], rows, as_json=request.as_json, empty="nothing to delete")
    if any(status != "deleted" for *_, status in rows):
        raise click.exceptions.Exit(1)
