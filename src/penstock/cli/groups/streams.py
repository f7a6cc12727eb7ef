"""What `penstock groups` shows of streams groups, as kafka-streams-groups.sh does, and what it deletes with them."""

from collections.abc import Iterable, Mapping, Sequence

import click

from penstock.cli.groups.streams_reset import is_internal
from penstock.cli.groups.views import Row, Table
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.output import print_lines
from penstock.client.admin import Admin
from penstock.client.admin.streams_groups import internal_topics, partitions_of, read_topics
from penstock.client.at_leaders import Failures
from penstock.client.values import EARLIEST, LATEST
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    TaskIds,
    TopologyDescription,
    TopologyDescriptionNode,
)
from penstock.protocol.schema import Message

Groups = Sequence[DescribedGroup]
_ERROR, _AVAILABLE = 2, 3
_SOURCE, _PROCESSOR = 1, 2


def states_table(admin: Admin, groups: Groups, coordinators: Mapping[str, int], verbose: bool) -> Table:
    rows: list[Row] = []
    for group in groups:
        coordinator = coordinators[group.group_id]
        broker = admin.cluster.metadata.brokers.get(coordinator)
        where = f"{broker.address} ({coordinator})" if broker else f"({coordinator})"
        epochs = (group.group_epoch, group.assignment_epoch) * verbose
        state = (where, group.assignor_name or "", group.group_state)
        rows.append((group.group_id, *state, *epochs, len(group.members)))
    epoch_columns = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] * verbose
    return Table(["GROUP", "COORDINATOR (ID)", "ASSIGNOR", "STATE", *epoch_columns, "#MEMBERS"], rows, "no groups")


def members_table(groups: Groups, verbose: bool) -> Table:
    rows: list[Row] = []
    for group in groups:
        for one in group.members:
            tasks = _tasks(one.assignment, "")
            if verbose:
                tasks += _tasks(one.target_assignment, "TARGET-")
                topology_epoch = group.topology.epoch if group.topology is not None else None
                protocol = "classic" if one.is_classic else "streams"
                epochs: Row = (group.assignment_epoch, topology_epoch, one.member_id, protocol, one.member_epoch)
            else:
                epochs = (one.member_id,)
            age = one.heartbeat_age_ms if one.heartbeat_age_ms >= 0 else None
            rows.append((group.group_id, *epochs, one.process_id, one.client_id, " ".join(tasks), age))
    if verbose:
        columns = ["GROUP", "TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL", "MEMBER-EPOCH"]
    else:
        columns = ["GROUP", "MEMBER"]
    return Table([*columns, "PROCESS", "CLIENT-ID", "ASSIGNMENTS", "HEARTBEAT-AGE"], rows, "no members")


def _tasks(assignment: Assignment, prefix: str) -> list[str]:
    """Like `ACTIVE: 0:[0,1]; 1:[3];`."""
    roles = (
        ("ACTIVE", assignment.active_tasks),
        ("STANDBY", assignment.standby_tasks),
        ("WARMUP", assignment.warmup_tasks),
    )
    return [f"{prefix}{role}: {' '.join(map(_task_ids, tasks))}" for role, tasks in roles if tasks]


def _task_ids(one: TaskIds) -> str:
    return f"{one.subtopology_id}:[{','.join(map(str, one.partitions))}];"


async def offsets_table(admin: Admin, groups: Groups, verbose: bool, failures: Failures) -> Table:
    """Of what active tasks read; without a committed offset all that there is is to be read."""
    rows: list[Row] = []
    for group in groups:
        rows += await _offset_rows(admin, group, verbose, failures)
    more = ["CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET"] * verbose
    return Table(["GROUP", "TOPIC", "PARTITION", *more, "OFFSET-LAG"], rows, "no offsets")


async def _offset_rows(admin: Admin, group: DescribedGroup, verbose: bool, failures: Failures) -> list[Row]:
    committed = await admin.groups.offsets(group.group_id)
    given = {place for one in group.members for place in partitions_of(group, one.assignment.active_tasks)}
    read = set(read_topics(group))
    partitions = sorted(given | {place for place in committed if place.topic in read})
    ends, unknown = await admin.offsets_that_can_be_had(dict.fromkeys(partitions, LATEST))
    failures |= {place: error for place, error in unknown.items() if not _is_no_partition(error)}
    new = [place for place in ends if place not in committed]
    starts, _ = await admin.offsets_that_can_be_had(dict.fromkeys(new, EARLIEST))
    rows: list[Row] = []
    for place in partitions:
        if place not in ends:
            continue
        position, end = committed.get(place), ends[place].offset
        if position is not None:
            begin: int | None = position.offset
        else:
            begin = starts[place].offset if place in starts else None
        epoch = position.leader_epoch if position is not None and position.leader_epoch >= 0 else None
        more = (position.offset if position is not None else None, epoch, end) * verbose
        rows.append((group.group_id, *place, *more, None if begin is None else end - begin))
    return rows


def _is_no_partition(error: Exception) -> bool:
    """A task may have a number that only others of its topics have."""
    return getattr(error, "code", None) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- the topology -----------------------------------------------------------------------------------------------------


async def show_topologies(admin: Admin, names: Iterable[str], as_json: bool) -> None:
    """Exit code 1 if one is not there."""
    complaints: list[str] = []
    lines: list[str] = []
    found: list[object] = []
    for name in names:
        group = await admin.streams_groups.describe(name, with_topology_description=True)
        if group.topology_description_status == _AVAILABLE and group.topology_description is not None:
            lines += topology_lines(group.topology_description)
            found.append({"group": name} | as_plain(group.topology_description))
        elif group.topology_description_status == _ERROR:
            complaints.append(f"the broker failed to fetch the topology description of {name!r}: its log says why")
        else:
            complaints.append(f"no topology description is stored for streams group {name!r}")
    if found:
        print_lines(lines, found, as_json=as_json)
    if complaints:
        raise click.ClickException("; ".join(complaints))


def as_plain(message: Message) -> dict[str, object]:
    """By the names of its fields, for JSON."""

    def plain(value: object) -> object:
        if isinstance(value, Message):
            return as_plain(value)
        return [plain(item) for item in value] if isinstance(value, list) else value

    return {name: plain(getattr(message, name)) for name in message.__fields__}


def topology_lines(description: TopologyDescription) -> list[str]:
    """As `Topology.describe` of Kafka Streams prints it."""
    lines = ["Topologies:"]
    for sub in description.subtopologies:
        lines += [f"   Sub-topology: {sub.subtopology_id}", *_node_lines(sub.nodes), ""]
    for number, store in enumerate(description.global_stores, start=len(description.subtopologies)):
        lines.append(f"   Sub-topology: {number} for global store (will not generate tasks)")
        lines += [*_node_lines([store.source, store.processor]), ""]
    return lines


def _node_lines(nodes: Sequence[TopologyDescriptionNode]) -> list[str]:
    before: dict[str, list[str]] = {}
    for node in nodes:
        for successor in node.successors:
            before.setdefault(successor, []).append(node.name)
    lines = []
    for node in nodes:
        after = f"      --> {_names(node.successors)}"
        comes_from = f"      <-- {_names(before.get(node.name, []))}"
        if node.node_type == _SOURCE:
            lines += [f"    Source: {node.name} (topics: [{', '.join(sorted(node.source_topics))}])", after]
        elif node.node_type == _PROCESSOR:
            lines += [f"    Processor: {node.name} (stores: [{', '.join(sorted(node.stores))}])", after, comes_from]
        else:
            lines += [f"    Sink: {node.name} (topic: {node.sink_topic or 'null'})", comes_from]
    return lines


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


# -- internal topics --------------------------------------------------------------------------------------------------


async def own_topics(admin: Admin, group_id: str) -> list[str]:
    """That the application has made for itself, by its topology and by their names; it is said which differ."""
    found = internal_topics(await admin.streams_groups.describe(group_id))
    others = [name for name in found if not is_internal(name, group_id)]
    for name in others:
        say(f"{name} is not called like an internal topic of {group_id!r}, so it is not deleted", err=True)
    return [name for name in found if name not in others]


async def delete_topics(admin: Admin, names: Iterable[str]) -> list[str]:
    """What was there, and is deleted."""
    gone = []
    for name in names:
        try:
            await admin.topics.delete(name)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            say(f"topic {name} does not exist", err=True)
        else:
            gone.append(name)
    return gone


def check_own(group_id: str, names: Iterable[str]) -> None:
    """UsageError for a topic that is not called like one that the application has made."""
    for name in names:
        if not is_internal(name, group_id):
            raise click.UsageError(f"--delete-internal-topic: {name} is no internal topic of {group_id!r}")
