"""What takes groups and offsets away: DeleteGroups, OffsetDelete, deleted topics, and time.

Offsets expire `offsets.retention.minutes` after their group became Empty (KIP-211); those of a group without group
management, after their own commit; those that named a retention time of their own, by that. An Empty group without
offsets goes at the next look. All of it is written as tombstones and happens when they are committed.
"""

from penstock.coordinator.group.answers import group_write_error
from penstock.coordinator.group.effects import Token
from penstock.coordinator.group.group import ClassicGroup, GroupState
from penstock.coordinator.group.records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    encode_group_record,
    encode_offset_record,
)
from penstock.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE, is_subscribed
from penstock.coordinator.group.table import Continuation, GroupTable
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class Removal:
    """Takes groups and offsets out of a table."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    # -- on request ---------------------------------------------------------------------------------------------------

    def delete_group(self, token: Token, group_id: str, now_ms: int) -> None:
        """Delete a group with all its offsets; the answer is an ErrorCode."""
        error = _check_deletable(self._table.groups.get(group_id))
        group = self._table.groups.get(group_id)
        if error is not ErrorCode.NONE or group is None:
            self._table.reply(token, error)
            return

        def then(error: ErrorCode, now_ms: int) -> None:
            self._table.reply(token, group_write_error(error))

        self._remove_group(group, now_ms, then)

    def delete_offsets(self, token: Token, request: OffsetDeleteRequest, now_ms: int) -> None:
        """Delete offsets of topics that no member of the group reads (KIP-496)."""
        group = self._table.groups.get(request.group_id)
        error = _check_deletable(group)
        is_consumer = group is not None and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        if group is None or (error is ErrorCode.NON_EMPTY_GROUP and not is_consumer) or group.state is GroupState.DEAD:
            self._table.reply(token, OffsetDeleteResponse(error_code=error))
            return
        records: list[OffsetRecord] = []
        answer = OffsetDeleteResponse()
        for topic in request.topics:
            subscribed = is_subscribed(group, topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            results = OffsetDeleteResponseTopic(name=topic.name)
            answer.topics.append(results)
            committed = self._table.offsets.of_group(request.group_id).get(topic.name, {})
            for partition in topic.partitions:
                index = partition.partition_index
                results.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
                if index in committed and not subscribed:
                    records.append(OffsetRecord(request.group_id, topic.name, index, None))

        def then(error: ErrorCode, now_ms: int) -> None:
            failed = OffsetDeleteResponse(error_code=group_write_error(error))
            self._table.reply(token, answer if error is ErrorCode.NONE else failed)

        if records:
            self._remove_offsets(records, then)
        else:
            self._table.reply(token, answer)

    def topic_deleted(self, topic: str) -> None:
        """A topic is gone: so are the offsets in it."""
        for group_id in self._table.offsets.readers(topic):
            self._remove_offsets(self._table.offsets.tombstones(group_id, topic), _nothing)

    # -- by time ------------------------------------------------------------------------------------------------------

    def schedule(self, now_ms: int) -> None:
        """Look again after `offsets.retention.check.interval.ms`."""
        self._table.start_timer(self._check, now_ms + self._table.settings.offsets_retention_check_interval_ms)

    def _check(self, now_ms: int) -> None:
        for group in list(self._table.groups.values()):
            self._expire(group, now_ms)
        self.schedule(now_ms)

    def _expire(self, group: ClassicGroup, now_ms: int) -> None:
        if group.state is not GroupState.EMPTY or group.pending or self._table.offsets.is_written(group.group_id):
            return
        topics = self._table.offsets.of_group(group.group_id)
        expired = [
            OffsetRecord(group.group_id, topic, partition, None)
            for topic, partitions in topics.items()
            for partition, committed in partitions.items()
            if now_ms >= self._expires_ms(group, committed)
        ]
        if len(expired) == sum(len(partitions) for partitions in topics.values()):
            self._remove_group(group, now_ms, _nothing)
        elif expired:
            self._remove_offsets(expired, _nothing)

    def _expires_ms(self, group: ClassicGroup, committed: CommittedOffset) -> int:
        if committed.expire_timestamp_ms != -1:
            return committed.expire_timestamp_ms
        since_ms = committed.commit_timestamp_ms
        if group.protocol_type is not None and group.state_since_ms >= 0:
            since_ms = max(since_ms, group.state_since_ms)
        return since_ms + self._table.settings.offsets_retention_ms

    # -- writing ------------------------------------------------------------------------------------------------------

    def _remove_offsets(self, records: list[OffsetRecord], finally_: Continuation) -> None:
        def then(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE:
                for record in records:
                    self._table.offsets.apply(record)
            finally_(error, now_ms)

        self._table.append([encode_offset_record(record) for record in records], then)

    def _remove_group(self, group: ClassicGroup, now_ms: int, finally_: Continuation) -> None:
        """Nobody can join while the tombstones are under way; should they fail, the group is back as it was."""
        table, group_id, state_since_ms = self._table, group.group_id, group.state_since_ms
        table.kill_group(group, now_ms)
        records = table.offsets.tombstones(group_id)

        def then(error: ErrorCode, now_ms: int) -> None:
            table.drop_group(group, now_ms)
            if error is ErrorCode.NONE:
                for record in records:
                    table.offsets.apply(record)
            else:
                revived = table.create_group(group_id, state_since_ms)
                revived.generation, revived.protocol_type = group.generation, group.protocol_type
            finally_(error, now_ms)

        tombstones = [encode_offset_record(record) for record in records]
        table.append([*tombstones, encode_group_record(GroupRecord(group_id, None))], then)


def _check_deletable(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def _nothing(error: ErrorCode, now_ms: int) -> None:
    """Nobody waits for this write."""
