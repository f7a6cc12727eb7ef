"""Where `penstock groups --reset-offsets` moves a group: to a place, by a distance, to a moment, to a file's say."""

import csv
from collections.abc import Mapping, Sequence
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
from penstock.client.admin.groups import SHARE, GroupDescription
from penstock.client.durations import parse_duration_ms
from penstock.client.values import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

Positions = dict[TopicPartition, int]


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
        new = await positions(admin, group_id, topics, target, positioned)
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


async def positions(
    admin: Admin,
    group_id: str,
    topics: Sequence[str] | None,
    target: ResetTarget,
    positioned: Positioned | None = None,
) -> Positions:
    """`positioned` knows where the group is by now: `Admin.groups` by default."""
    if target.from_file is not None:
        return await _bounded(admin, _read(target.from_file, group_id))
    found = await (positioned or admin.groups).offsets(group_id)
    committed = {p: position.offset for p, position in found.items() if position.offset >= 0}
    if topics is None:
        chosen = sorted(found)
    else:
        counts = admin.cluster.metadata.partition_counts()
        chosen = [partition for text in topics for partition in parse_topic_partitions(text, counts, "--topic")]
    timestamp_ms = target.timestamp_ms(admin.cluster.settings.now_ms())
    if timestamp_ms is not None:
        return await _at(admin, chosen, timestamp_ms)
    if target.to_offset is not None:
        return await _bounded(admin, dict.fromkeys(chosen, target.to_offset))
    without = [partition for partition in chosen if partition not in committed]
    if target.shift_by is not None:
        if without:
            raise click.ClickException(f"group {group_id!r} has no offset of {without[0]} to shift")
        return await _bounded(admin, {partition: committed[partition] + target.shift_by for partition in chosen})
    return {p: committed[p] for p in chosen if p in committed} | await _at(admin, without, LATEST)


async def _at(admin: Admin, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
    """Where no record is that new, the end."""
    found = {p: v.offset for p, v in (await admin.offsets(dict.fromkeys(partitions, timestamp_ms))).items()}
    newer = [partition for partition, offset in found.items() if offset < 0]
    return found | (await _at(admin, newer, LATEST) if newer else {})


async def _bounded(admin: Admin, wanted: Mapping[TopicPartition, int]) -> Positions:
    first = await _at(admin, list(wanted), EARLIEST)
    end = await _at(admin, list(wanted), LATEST)
    return {partition: min(max(offset, first[partition]), end[partition]) for partition, offset in wanted.items()}


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
