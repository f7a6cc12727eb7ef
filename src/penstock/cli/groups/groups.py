"""`penstock groups`: list, describe, reset and delete groups of all kinds, with the options of kafka-groups.sh,
kafka-consumer-groups.sh, kafka-share-groups.sh and kafka-streams-groups.sh.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import click

from penstock.cli.groups import streams
from penstock.cli.groups.history import awaited_table, explain, follow, history_table
from penstock.cli.groups.redrive import redrive
from penstock.cli.groups.reset import ResetTarget, inputs_of, reset_offsets
from penstock.cli.groups.views import (
    Row,
    Table,
    list_holders,
    members_table,
    offsets_table,
    print_tables,
    share_offsets_table,
    show_groups,
    states_table,
)
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.names import parse_topic_partitions
from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import BrokerSession, complain_of
from penstock.client.admin import Admin
from penstock.client.admin.groups import SHARE, STREAMS, GroupDescription, GroupListing
from penstock.client.at_leaders import Failures
from penstock.client.consumer_protocol import PROTOCOL_TYPE as CONSUMER
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

STATES: Final = (
    "Empty",
    "Stable",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
)


class Request(Value, kw_only=True):
    action: str = actions(
        "holding",
        list="List the groups.",
        describe="Show offsets and lag of groups, or --members, --state, --history, or several of them.",
        delete="Delete groups that have no members.",
        reset_offsets="Move the offsets of groups that have no members.",
        delete_offsets="Forget a group's offsets of topics.",
        redrive="Send the dead letters of share groups back to their topics, each once.",
    )
    holding: str | None = option("Show which groups keep how many bytes of a topic.", metavar="TOPIC")
    groups: tuple[str, ...] = option("The group; may be given several times.", "--group")
    all_groups: bool = option("All groups.")
    consumer: bool = option("With --list or --all-groups, only consumer groups, of either protocol.")
    share: bool = option("With --list or --all-groups, only share groups.")
    streams: bool = option("With --list or --all-groups, only streams groups.")
    protocol: str | None = option("With --list or --all-groups, only groups of this protocol.")
    topics: tuple[str, ...] = option(
        "A topic, or some of its partitions.", "--topic", "--input-topic", metavar="TOPIC[:0,2]"
    )
    all_topics: bool = option(
        "All topics of which the group has offsets; of a streams group, those that it has not made itself.",
        "--all-topics",
        "--all-input-topics",
    )
    members: bool = option("Describe the members.")
    offsets: bool = option("Describe the offsets (the default).")
    state: str | None = option(
        "Describe the state; with --list, only these, with commas.", is_flag=False, flag_value=""
    )
    topology: bool = option("Describe the topology of streams groups, as Kafka Streams draws it.")
    history: bool = option("Describe what has happened, an epoch after the other, and who is waited for.")
    explain: tuple[str, ...] = option(
        "Say why partitions are with the members that have them, and who blocks them.", metavar="TOPIC[:0,2]"
    )
    follow: bool = option("With --history, also what happens from now on, until interrupted.")
    types: str | None = option(
        "With --list or --all-groups, only these types: classic, consumer, share, streams. With --reset-offsets, share"
        " makes a share group of one that is not there.",
        "--type",
        "--group-type",
        is_flag=False,
        flag_value="",
    )
    verbose: bool = option("Describe with assignments.")
    target: ResetTarget
    dry_run: bool = option("Only show what would be (the default).")
    execute: bool = option("Do it.")
    export: bool = option("Print lines for --from-file.")
    delete_internal_topics: tuple[str, ...] = option(
        "With --reset-offsets --execute, delete this topic that the streams group has made.", "--delete-internal-topic"
    )
    delete_all_internal_topics: bool = option(
        "With --delete, or --reset-offsets --execute, delete all topics that the streams group has made."
    )
    timeout_ms: int = option(
        "How long to try to reach who coordinates the group and who leads its partitions.",
        "--timeout",
        min=1,
        default=30_000,
        show_default=True,
        metavar="MS",
    )
    as_json: bool = JSON


@click.command(short_help="list, describe, reset and delete consumer, share and streams groups")
@declared
def command(session: BrokerSession, request: Request) -> None:
    """List, describe, reset and delete consumer, share and streams groups."""
    _check(request)
    if request.action == "redrive":
        names, execute, as_json = list(request.groups), request.execute, request.as_json
        session.run(lambda admin: redrive(session, admin, names, execute=execute, as_json=as_json))
    else:
        session.run(lambda admin: _work(admin, request), patience_ms=request.timeout_ms)


def _check(request: Request) -> None:
    if request.dry_run and request.execute:
        raise click.UsageError("--dry-run or --execute, not both")
    if request.action == "redrive" and (not request.groups or request.topics):
        raise click.UsageError("--redrive needs --group NAME, and takes no --topic: letters know where they belong")
    if request.action not in ("list", "holding") and bool(request.groups) == request.all_groups:
        raise click.UsageError(f"--{request.action} needs --group NAME or --all-groups")
    tells = request.history or bool(request.explain)
    if (tells and request.action != "describe") or (request.follow and not request.history):
        raise click.UsageError("--history and --explain go with --describe, --follow with --history")
    if request.follow and request.as_json:
        raise click.UsageError("--follow prints lines, no JSON")
    if request.export and request.as_json:
        raise click.UsageError("--export prints lines for --from-file, no JSON")
    _check_internal(request)
    if request.action == "reset-offsets":
        request.target.check()
        needs_topics = request.target.from_file is None
        if needs_topics and bool(request.topics) == request.all_topics:
            raise click.UsageError("--reset-offsets needs --topic NAME or --all-topics")
    if request.action == "delete-offsets" and bool(request.topics) == request.all_topics:
        raise click.UsageError("--delete-offsets needs --topic NAME or --all-topics")


def _check_internal(request: Request) -> None:
    if request.topology and request.action != "describe":
        raise click.UsageError("--topology goes with --describe")
    executes = request.action == "reset-offsets" and request.execute
    if request.delete_internal_topics and not executes:
        raise click.UsageError("--delete-internal-topic goes with --reset-offsets --execute")
    if request.delete_all_internal_topics and not (executes or request.action == "delete"):
        raise click.UsageError("--delete-all-internal-topics goes with --delete, or --reset-offsets --execute")
    for name in request.groups:
        streams.check_own(name, request.delete_internal_topics)


async def _work(admin: Admin, request: Request) -> None:
    if request.action == "list":
        asked = {"STATE": request.state, "TYPE": request.types, "PROTOCOL": request.protocol}
        found = await _listings(admin, request, _filter(request.state, STATES))
        show_groups(found, [column for column, said in asked.items() if said is not None], request.as_json)
        return
    if request.holding is not None:
        await list_holders(admin, request.holding, request.as_json)
        return
    names = list(request.groups)
    if request.all_groups:
        names = [listing.group_id for listing in await _listings(admin, request)]
    if request.action == "describe":
        await _describe(admin, names, request)
    elif request.action == "delete":
        await _delete(admin, names, request)
    elif request.action == "delete-offsets":
        await _delete_offsets(admin, names, request)
    else:
        await reset_offsets(
            admin,
            names,
            None if request.all_topics else request.topics,
            request.target,
            is_share=request.types == SHARE,
            execute=request.execute,
            export=request.export,
            as_json=request.as_json,
        )
        await _delete_internal(admin, names, request)


async def _listings(admin: Admin, request: Request, states: Collection[str] = ()) -> list[GroupListing]:
    found = await admin.groups.listings(states=states, types=_filter(request.types, ()))
    return [one for one in found if _is_meant(request, one)]


def _is_meant(request: Request, one: GroupListing) -> bool:
    if request.protocol not in (None, one.protocol_type):
        return False
    is_consumer = CONSUMER in (one.protocol_type, one.type) or not one.protocol_type
    wanted = (
        (request.consumer, is_consumer),
        (request.share, one.type == SHARE),
        (request.streams, one.type == STREAMS),
    )
    return not any(asked for asked, _ in wanted) or any(asked and is_it for asked, is_it in wanted)


def _filter(text: str | None, names: tuple[str, ...]) -> list[str]:
    known = {name.lower(): name for name in names}
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in parts:
        if known and part.lower() not in known:
            raise click.UsageError(f"--state: {part!r} is no state; they are {', '.join(names)}")
    return [known.get(part.lower(), part) for part in parts]


async def _explain(admin: Admin, names: list[str], request: Request) -> None:
    await admin.cluster.refresh()
    counts = admin.cluster.metadata.partition_counts()
    partitions = [one for text in request.explain for one in parse_topic_partitions(text, counts, "--explain")]
    await explain(admin, names, partitions, request.as_json)


async def _describe(admin: Admin, names: list[str], request: Request) -> None:
    if request.explain:
        await _explain(admin, names, request)
        return
    if request.topology:
        await streams.show_topologies(admin, names, request.as_json)
        return
    groups = [await admin.groups.describe(name) for name in names]
    failures: Failures = {}
    tables = await _of_streams(admin, groups, request, failures)
    others = [group for group in groups if group.protocol_type != STREAMS]
    if others or not tables:
        tables = await _of_others(admin, others, request, failures) | tables
    if request.history:
        histories = [await admin.groups.history(name) for name in names]
        tables |= {"history": history_table(histories), "awaited": awaited_table(histories)}
    print_tables(tables, request.as_json)
    complain_of(failures)
    if request.follow:
        await follow(admin, names)


async def _of_others(
    admin: Admin, groups: Sequence[GroupDescription], request: Request, failures: Failures
) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    if request.state is not None:
        tables["state"] = states_table(admin, groups)
    if request.members:
        tables["members"] = members_table(groups, request.verbose)
    if request.offsets or not (tables or request.history):
        shares = [group for group in groups if group.protocol_type == SHARE]
        others = [group for group in groups if group.protocol_type != SHARE]
        if others or not shares:
            tables["offsets"] = await offsets_table(admin, others, request.verbose, failures)
        if shares:
            tables["share offsets" if others else "offsets"] = await share_offsets_table(admin, shares, request.verbose)
    return tables


async def _of_streams(
    admin: Admin, groups: Sequence[GroupDescription], request: Request, failures: Failures
) -> dict[str, Table]:
    """Called by what they show alone if there are no groups of other kinds."""
    named = {group.group_id: group.coordinator for group in groups if group.protocol_type == STREAMS}
    if not named:
        return {}
    kind = "streams " if len(named) < len(groups) else ""
    found = [await admin.streams_groups.describe(name) for name in named]
    tables: dict[str, Table] = {}
    if request.state is not None:
        tables[f"{kind}state"] = streams.states_table(admin, found, named, request.verbose)
    if request.members:
        tables[f"{kind}members"] = streams.members_table(found, request.verbose)
    if request.offsets or not (tables or request.history):
        tables[f"{kind}offsets"] = await streams.offsets_table(admin, found, request.verbose, failures)
    return tables


async def _delete(admin: Admin, names: list[str], request: Request) -> None:
    rows: list[Row] = []
    for name in names:
        own = await streams.own_topics(admin, name) if request.delete_all_internal_topics else []
        try:
            await admin.groups.delete(name)
        except KafkaError as error:
            raise click.ClickException(_why_not(name, error)) from None
        gone = await streams.delete_topics(admin, own)
        rows.append((name, True, *(", ".join(gone),) * request.delete_all_internal_topics))
    columns = ["GROUP", "DELETED", *["INTERNAL-TOPICS"] * request.delete_all_internal_topics]
    print_rows(columns, rows, as_json=request.as_json, empty="no group to delete")


async def _delete_internal(admin: Admin, names: list[str], request: Request) -> None:
    """After their offsets were reset; what is done is said beside what is printed."""
    for name in names:
        chosen = list(request.delete_internal_topics)
        if request.delete_all_internal_topics:
            chosen = await streams.own_topics(admin, name)
        for topic in await streams.delete_topics(admin, chosen):
            say(f"topic {topic} is deleted", err=True)


def _why_not(group: str, error: KafkaError) -> str:
    if error.code == ErrorCode.NON_EMPTY_GROUP:
        return f"group {group!r} has members: stop its consumers first (NON_EMPTY_GROUP)"
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"group {group!r} does not exist (GROUP_ID_NOT_FOUND)"
    return f"group {group!r}: {error}"


async def _delete_offsets(admin: Admin, names: list[str], request: Request) -> None:
    await admin.cluster.refresh()
    counts = admin.cluster.metadata.partition_counts()
    partitions = [one for text in request.topics for one in parse_topic_partitions(text, counts, "--topic")]
    rows: list[tuple[str, str, int, str]] = []
    for name in names:
        outcome = await _deleted_offsets(admin, name, None if request.all_topics else partitions)
        rows += [(name, p.topic, p.partition, "deleted" if not code else code.name) for p, code in outcome.items()]
    print_rows(["GROUP", "TOPIC", "PARTITION", "STATUS"], rows, as_json=request.as_json, empty="nothing to delete")
    if any(status != "deleted" for *_, status in rows):
        raise click.exceptions.Exit(1)


async def _deleted_offsets(
    admin: Admin, group_id: str, partitions: Sequence[TopicPartition] | None
) -> Mapping[TopicPartition, ErrorCode]:
    """A share group forgets whole topics. None: all of which it has offsets, and of a streams group its input."""
    group = await admin.groups.describe(group_id)
    if partitions is None:
        within, of = await inputs_of(admin, group), admin.share_groups if group.protocol_type == SHARE else admin.groups
        partitions = [place for place in await of.offsets(group_id) if within is None or place.topic in within]
    if group.protocol_type != SHARE:
        return await admin.groups.delete_offsets(group_id, partitions)
    outcome = await admin.share_groups.delete_offsets(group_id, list(dict.fromkeys(one.topic for one in partitions)))
    return {partition: outcome[partition.topic] for partition in partitions}
