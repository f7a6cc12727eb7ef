"""How a group gets from one partition to another: as the records that make it up."""

from penstock.coordinator.effects import KeyValue, Token
from penstock.coordinator.group.classic.group import ClassicGroup, find_classic
from penstock.coordinator.group.classic.restore import restore_group
from penstock.coordinator.group.records import GroupRecord, OffsetRecord, decode_record, encode_offset_record
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.protocol.errors import ErrorCode


def records_of(table: GroupTable, group_id: str) -> list[KeyValue]:
    """The records that make up a group and its offsets."""
    offsets = [
        OffsetRecord(group_id, topic, partition, committed)
        for topic, partitions in table.offsets.of_group(group_id).items()
        for partition, committed in partitions.items()
    ]
    return [*table.groups[group_id].records(), *(encode_offset_record(record) for record in offsets)]


def adopt(table: GroupTable, token: Token, records: list[KeyValue], now_ms: int) -> None:
    """Take in groups from another partition; what is known here and not older stays. The answer is an ErrorCode."""
    decoded = [(one, decode_record(*one)) for one in records]
    wanted = [(one, record) for one, record in decoded if record is not None and _is_news(table, record)]
    if not wanted:
        table.reply(token, ErrorCode.NONE)
        return

    def then(error: ErrorCode, now_ms: int) -> None:
        if error is ErrorCode.NONE:
            for _, record in wanted:
                _apply(table, record, now_ms)

    table.append([one for one, _ in wanted], then, now_ms, token=token, answer=group_write_error)


def _is_news(table: GroupTable, record: OffsetRecord | GroupRecord) -> bool:
    """Whether a record says something later than what is known here."""
    if record.value is None:
        return False
    if isinstance(record, OffsetRecord):
        known = table.offsets.of_group(record.group_id).get(record.topic, {}).get(record.partition)
        return known is None or known.commit_timestamp_ms < record.value.commit_timestamp_ms
    group = find_classic(table.groups, record.group_id)
    if group is None:
        return record.group_id not in table.groups
    return group.protocol_type is None or group.state_since_ms < record.value.current_state_timestamp


def _apply(table: GroupTable, record: OffsetRecord | GroupRecord, now_ms: int) -> None:
    if isinstance(record, OffsetRecord):
        table.offsets.apply(record)
        if record.group_id not in table.groups:
            table.groups[record.group_id] = ClassicGroup(record.group_id, now_ms, table.settings.history_length)
        return
    assert record.value is not None
    known = table.groups.get(record.group_id)
    if known is not None:
        table.drop_group(known, now_ms)
    restore_group(table, record.group_id, record.value, now_ms)
