"""What `penstock groups` shows: groups, their offsets and lag, their members, their states."""

from collections.abc import Collection, Mapping, Sequence

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.output import Value as Cell
from penstock.cli.terminal.output import as_objects, joined, print_json, print_rows, print_table
from penstock.client.admin import Admin
from penstock.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from penstock.client.admin.share_groups import ShareProgress
from penstock.client.at_leaders import Failures
from penstock.client.values import LATEST, TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.value import Value
from penstock.protocol.work import PROTOCOL_TYPE as WORK
from penstock.work.messages import decode_assignment, decode_metadata

Row = tuple[Cell, ...]
READER = ("CONSUMER-ID", "HOST", "CLIENT-ID")
PROGRESS = ("OLDEST-WAITS-MS", "IN-FLIGHT", "HELD", "PAUSE-MS", "DELIVERIES/S", "REDELIVERIES/S")
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)


def show_groups(listings: Sequence[GroupListing], asked: Collection[str], as_json: bool) -> None:
    """`asked`: the columns besides the names; in JSON they are all there."""
    columns = ["GROUP", *(column for column in ("PROTOCOL", "STATE", "TYPE") if as_json or column in asked)]
    if len(columns) == 1:
        if listings:
            say(*(one.group_id for one in listings))
        return
    every = ["GROUP", "PROTOCOL", "STATE", "TYPE"]
    values = [(one.group_id, one.protocol_type, one.state, one.type) for one in listings]
    rows = [[value for column, value in zip(every, row, strict=True) if column in columns] for row in values]
    print_rows(columns, rows, as_json=as_json, empty="no groups")


async def list_holders(admin: Admin, topic: str, as_json: bool) -> None:
    """Who keeps most comes first."""
    rows = [
        (one.group_id, *one.partition, one.offset if one.offset >= 0 else None, one.held_bytes)
        for one in await admin.groups.holders(topic)
    ]
    columns = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "HELD-BYTES"]
    print_rows(columns, rows, as_json=as_json, empty=f"no group reads {topic}")


class Table(Value):
    columns: Sequence[str]
    rows: Sequence[Row]
    empty: str


async def offsets_table(admin: Admin, groups: Sequence[GroupDescription], verbose: bool, failures: Failures) -> Table:
    """`failures` gets the partitions whose ends cannot be had now; those of a topic that is gone are not among them."""
    rows: list[Row] = []
    failed: Failures = {}
    for group in groups:
        rows += await _offset_rows(admin, group, verbose, failed)
    epoch = ["LEADER-EPOCH"] * verbose
    columns = ["GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", *READER]
    failures |= {p: error for p, error in failed.items() if getattr(error, "code", None) not in _GONE}
    return Table(columns, rows, "no offsets")


async def share_offsets_table(admin: Admin, groups: Sequence[GroupDescription], verbose: bool) -> Table:
    """Where share groups begin, what is still to be delivered, and how that comes along."""
    rows: list[Row] = []
    for group in groups:
        positions = await admin.share_groups.offsets(group.group_id)
        told = await admin.share_groups.progress(group.group_id, positions)
        for partition, found in sorted(positions.items()):
            start = found.offset if found.offset >= 0 else None
            epoch = (found.leader_epoch,) * verbose
            rows.append((group.group_id, *partition, *epoch, start, found.lag, *_progress(told.get(partition))))
    columns = ["GROUP", "TOPIC", "PARTITION", *["LEADER-EPOCH"] * verbose, "START-OFFSET", "LAG", *PROGRESS]
    return Table(columns, rows, "no offsets")


def _progress(told: ShareProgress | None) -> Row:
    if told is None:
        return (None,) * len(PROGRESS)
    rates = (told.deliveries_per_second, told.redeliveries_per_second)
    rounded = (None if rate is None else round(rate, 1) for rate in rates)
    return told.waits_ms, told.in_flight, told.held, told.pause_ms, *rounded


async def _offset_rows(admin: Admin, group: GroupDescription, verbose: bool, failures: Failures) -> list[Row]:
    committed = await admin.groups.offsets(group.group_id)
    readers = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    ends, unknown = await admin.offsets_that_can_be_had(dict.fromkeys(partitions, LATEST))
    failures |= unknown
    rows: list[Row] = []
    for partition in partitions:
        position, end, reader = committed.get(partition), ends.get(partition), readers.get(partition)
        epoch = (position.leader_epoch if position and position.leader_epoch >= 0 else None,) * verbose
        lag = end.offset - position.offset if end and position else None
        offsets = (position.offset if position else None, end.offset if end else None, lag)
        who = (None, None, None) if reader is None else (reader.member_id, reader.host, reader.client_id)
        rows.append((group.group_id, *partition, *epoch, *offsets, *who))
    return rows


def members_table(groups: Sequence[GroupDescription], verbose: bool) -> Table:
    """What a worker has are tasks. HEARTBEAT-AGE is in milliseconds."""
    has_tasks = any(group.protocol_type == WORK for group in groups)
    columns = ["GROUP", *READER, "PARTITIONS", *["TASKS"] * has_tasks, "HEARTBEAT-AGE"]
    columns += [*["GROUP-INSTANCE-ID", "ASSIGNMENT"] * verbose]
    rows: list[Row] = []
    for group in groups:
        for one in group.members:
            tasks = _tasks(one) if group.protocol_type == WORK else ()
            more = (one.instance_id, show_assignment(one.assignment) or " ".join(tasks)) * verbose
            counts = (len(one.assignment), *(len(tasks),) * has_tasks, one.heartbeat_age_ms)
            rows.append((group.group_id, one.member_id, one.host, one.client_id, *counts, *more))
    return Table(columns, rows, "no members")


def _tasks(worker: MemberDescription) -> tuple[str, ...]:
    """None of one that has not been given any, or whose words another version wrote."""
    try:
        name = decode_metadata(worker.metadata).member.name
        return decode_assignment(worker.assigned).step.plan.get(name, ())
    except DecodeError:
        return ()


def states_table(admin: Admin, groups: Sequence[GroupDescription]) -> Table:
    rows: list[Row] = []
    for group in groups:
        broker = admin.cluster.metadata.brokers.get(group.coordinator)
        where = f"{broker.address} ({group.coordinator})" if broker else str(group.coordinator)
        rows.append((group.group_id, where, group.assignor, group.state, len(group.members)))
    return Table(["GROUP", "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "MEMBERS"], rows, "no groups")


def print_tables(tables: Mapping[str, Table], as_json: bool) -> None:
    """One below the other; as JSON one by itself, or several by their names."""
    if as_json:
        found = {name: as_objects(table.columns, table.rows) for name, table in tables.items()}
        print_json(found if len(found) > 1 else next(iter(found.values())))
        return
    for number, table in enumerate(tables.values()):
        if number:
            say("")
        print_table(table.columns, table.rows, empty=table.empty)


def show_assignment(partitions: Sequence[TopicPartition]) -> str:
    """Like `clicks(0,1) users(2)`."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return " ".join(f"{topic}({joined(numbers)})" for topic, numbers in topics.items())
