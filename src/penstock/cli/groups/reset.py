"""Where `penstock groups --reset-offsets` moves a group: to a place, by a distance, to a moment, to a file's say."""

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import click

from penstock.cli.groups.views import Row
from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.names import parse_topic_partitions
from penstock.cli.terminal.options import option
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.times import parse_datetime_ms
from penstock.client.admin import Admin
from penstock.client.admin.groups import SHARE, STREAMS, GroupDescription
from penstock.client.admin.streams_groups import input_topics
from penstock.client.durations import parse_duration_ms
from penstock.client.new_positions import Positions, bounded, offsets_at
from penstock.client.values import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value


class Position(Protocol):
    @property
    def offset(self) -> int: ...


class Positioned(Protocol):
    """`Admin.groups`, or `Admin.share_groups`."""

    async def offsets(self, group_id: str) -> Mapping[TopicPartition, Position]: ...

    async def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...


class ResetTarget(Value, kw_only=True):
    """Exactly one of the fields is given."""

    to_earliest: bool = option("To the first record.")
    to_latest: bool = option("To the end.")
    to_current: bool = option("To where they are.")
    to_offset: int | None = option("To this offset.", min=0)
    shift_by: int | None = option("By so many records, also back.")
    by_duration: str | None = option("To where the log was so long ago.", metavar="P1DT2H")
    to_datetime: str | None = option("To the first record from this moment on.", metavar="YYYY-MM-DDTHH:mm:SS.sss")
    from_file: Path | None = option("To what a file says, each line topic,partition,offset.")

    def check(self) -> None:
        """Raises UsageError unless exactly one field is given and makes sense."""
        names = self.given()
        if len(names) != 1:
            every = ", ".join(f"--{name.replace('_', '-')}" for name in self.__fields__)
            raise click.UsageError(f"give exactly one of {every}")
        with wrong_usage(ValueError, of=f"--{names[0]}"):
            self.timestamp_ms(0)

    def given(self) -> list[str]:
        """The names of options."""
        values = {name: getattr(self, name) for name in self.__fields__}
        return [name.replace("_", "-") for name, value in values.items() if value is not None and value is not False]

    def timestamp_ms(self, now_ms: int) -> int | None:
        """What to look up, if the target is a moment (or an end of the log)."""
        if self.to_earliest:
            return EARLIEST
        if self.to_latest:
            return LATEST
        if self.to_datetime is not None:
            return parse_datetime_ms(self.to_datetime)
        if self.by_duration is not None:
            return now_ms - parse_duration_ms(self.by_duration)
        return None


async def reset_offsets(
    admin: Admin,
    groups: Sequence[str],
    topics: Sequence[str] | None,
    target: ResetTarget,
    *,
    is_share: bool = False,
    execute: bool,
    export: bool,
    as_json: bool,
) -> None:
    """Without `execute` the new offsets are only shown. `is_share`: a group that is not there becomes a share group."""
    await admin.cluster.refresh()
    rows: list[Row] = []
    for group_id in groups:
        group = await check_empty(admin, group_id)
        is_shared = is_share if group is None else group.protocol_type == SHARE
        positioned: Positioned = admin.share_groups if is_shared else admin.groups
        new = await positions(admin, group_id, topics, target, positioned, await inputs_of(admin, group))
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in new.items()}
        if execute and offsets:
            await positioned.set_offsets(group_id, offsets)
        rows += [(group_id, *partition, offset) for partition, offset in sorted(new.items())]
    if export:
        lines = [",".join(map(str, row[0 if len(groups) > 1 else 1 :])) for row in rows]
        if lines:
            say(*lines)
    else:
        print_rows(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows, as_json=as_json, empty="no offset to reset")
        if not execute and rows:
            say("nothing was changed: --execute does it", err=True)


async def check_empty(admin: Admin, group_id: str, cure: str = "stop its consumers first") -> GroupDescription | None:
    """None for a group that is not there yet: it may be given offsets."""
    try:
        group = await admin.groups.describe(group_id)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None
    if group.state not in ("Empty", "Dead"):
        raise click.ClickException(f"group {group_id!r} has members (its state is {group.state}): {cure}")
    return group


async def inputs_of(admin: Admin, group: GroupDescription | None) -> list[str] | None:
    """The topics that a streams group has not made itself; None for groups of other kinds."""
    if group is None or group.protocol_type != STREAMS:
        return None
    return input_topics(await admin.streams_groups.describe(group.group_id))


async def positions(
    admin: Admin,
    group_id: str,
    topics: Sequence[str] | None,
    target: ResetTarget,
    positioned: Positioned | None = None,
    within: Collection[str] | None = None,
) -> Positions:
    """`positioned` knows where the group is by now: `Admin.groups` by default. Without `topics` it is all of which the
    group has offsets, as far as they are `within`.
    """
    if target.from_file is not None:
        return await bounded(admin.cluster, _read(target.from_file, group_id))
    found = await (positioned or admin.groups).offsets(group_id)
    committed = {p: position.offset for p, position in found.items() if position.offset >= 0}
    if topics is None:
        chosen = sorted(place for place in found if within is None or place.topic in within)
    else:
        counts = admin.cluster.metadata.partition_counts()
        chosen = [partition for text in topics for partition in parse_topic_partitions(text, counts, "--topic")]
    timestamp_ms = target.timestamp_ms(admin.cluster.settings.now_ms())
    if timestamp_ms is not None:
        return await offsets_at(admin.cluster, chosen, timestamp_ms)
    if target.to_offset is not None:
        return await bounded(admin.cluster, dict.fromkeys(chosen, target.to_offset))
    without = [partition for partition in chosen if partition not in committed]
    if target.shift_by is not None:
        if without:
            raise click.ClickException(f"group {group_id!r} has no offset of {without[0]} to shift")
        return await bounded(admin.cluster, {partition: committed[partition] + target.shift_by for partition in chosen})
    return {p: committed[p] for p in chosen if p in committed} | await offsets_at(admin.cluster, without, LATEST)


def _read(path: Path, group_id: str) -> Positions:
    """Reads lines `topic,partition,offset`, or with a group in front: then only this group's."""
    positions: Positions = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if not row:
                continue
            *group, topic, partition, offset = row if len(row) in (3, 4) else ["", "", ""]
            if not (partition.strip().isdigit() and offset.strip().isdigit()):
                raise click.ClickException(f"{path}, line {number}: needed is topic,partition,offset")
            if not group or group[0] == group_id:
                positions[TopicPartition(topic, int(partition))] = int(offset)
    return positions
