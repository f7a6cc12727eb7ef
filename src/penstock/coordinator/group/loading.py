"""How a shard comes back to life from its partition's records, and how it hands its groups on."""

from penstock.coordinator.group.records import GroupMetadataValue, OffsetRecord, decode_record
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.machine import nothing
from penstock.protocol.errors import ErrorCode


class Loading:
    """Reads records in their order, then makes the groups. The last record about a thing is the one that holds."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._groups: dict[str, GroupMetadataValue] = {}

    def read(self, key: bytes, value: bytes | None) -> None:
        """Take one record in. DecodeError if it is not what it claims to be."""
        record = decode_record(key, value)
        if isinstance(record, OffsetRecord):
            self._table.offsets.apply(record)
        elif record is not None and record.value is not None:
            self._groups[record.group_id] = record.value
        elif record is not None:
            self._groups.pop(record.group_id, None)

    def finish(self, now_ms: int) -> None:
        """All records are read: members go on without a rebalance, their session timeouts count from now."""
        table = self._table
        for group_id, value in self._groups.items():
            table.restore_group(group_id, value, now_ms)
        self._groups = {}
        for group_id in table.offsets.group_ids():
            if group_id not in table.groups:
                table.create_group(group_id, now_ms)


def seal(table: GroupTable, now_ms: int) -> None:
    """Another node is to coordinate these groups: write what they are in the middle of. No other write is under way."""
    for group in table.groups.values():
        record = table.unsettled(group, now_ms)
        if record is not None:
            table.append([record], nothing, now_ms)


def hand_on(table: GroupTable, now_ms: int) -> None:
    """Another node coordinates these groups now: whoever waits here is sent there."""
    error = ErrorCode.NOT_COORDINATOR
    for group in list(table.groups.values()):
        group.send_away(table, error)
        table.drop_group(group, now_ms)
    table.fail_writes(error, now_ms)
    table.groups.clear()
    table.commits_first.end()
