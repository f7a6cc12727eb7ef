"""OffsetCommit: whose offsets are accepted, and when they count.

| who | state | answer |
| --- | --- | --- |
| no member id, generation -1 | no such group, or Empty | accepted: no group management, or an administrator |
| | with members | UNKNOWN_MEMBER_ID |
| a member of this generation | Stable, PreparingRebalance | accepted, and counts as a heartbeat |
| | CompletingRebalance | REBALANCE_IN_PROGRESS |
| a member of another generation | any | ILLEGAL_GENERATION |
| somebody else | any | UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID |
| anybody | Dead | COORDINATOR_NOT_AVAILABLE |

An offset is seen by OffsetFetch, and its commit is answered, when its record is committed.
"""

from penstock.coordinator.group.answers import offset_write_error
from penstock.coordinator.group.effects import Token
from penstock.coordinator.group.group import ClassicGroup, GroupState
from penstock.coordinator.group.rebalance import Rebalancing
from penstock.coordinator.group.records import CommittedOffset, OffsetRecord, encode_offset_record
from penstock.coordinator.group.table import GroupTable
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


class Committing:
    """Handles the OffsetCommit requests of a table's groups."""

    def __init__(self, table: GroupTable, rebalancing: Rebalancing) -> None:
        self._table = table
        self._rebalancing = rebalancing

    def commit(self, token: Token, request: OffsetCommitRequest, api_version: int, now_ms: int) -> None:
        """Write the offsets of a group; every topic has its name filled in, and exists."""
        error = self._check(request, api_version, now_ms)
        if error is not ErrorCode.NONE:
            self._table.reply(token, _answer_all(request, error))
            return
        records: list[OffsetRecord] = []
        answer = OffsetCommitResponse()
        written: list[OffsetCommitResponsePartition] = []
        for topic in request.topics:
            results = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            answer.topics.append(results)
            for partition in topic.partitions:
                result = OffsetCommitResponsePartition(partition_index=partition.partition_index)
                results.partitions.append(result)
                if len(partition.committed_metadata or "") > self._table.settings.offset_metadata_max_bytes:
                    result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                committed = _committed(request, topic, partition, now_ms)
                records.append(OffsetRecord(request.group_id, topic.name, partition.partition_index, committed))
                written.append(result)
        if records:
            self._write(token, request.group_id, records, answer, written)
        else:
            self._table.reply(token, answer)

    def _check(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> ErrorCode:
        group = self._table.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is None:
            if generation < 0:
                self._table.create_group(request.group_id, now_ms)
                return ErrorCode.NONE
            return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= 9 else ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and group.state is GroupState.EMPTY:
            return ErrorCode.NONE
        return self._check_member(group, request, now_ms)

    def _check_member(self, group: ClassicGroup, request: OffsetCommitRequest, now_ms: int) -> ErrorCode:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id_or_member_epoch != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._rebalancing.touch(group.members[request.member_id], now_ms)
        return ErrorCode.NONE

    def _write(
        self,
        token: Token,
        group_id: str,
        records: list[OffsetRecord],
        answer: OffsetCommitResponse,
        written: list[OffsetCommitResponsePartition],
    ) -> None:
        offsets = self._table.offsets
        offsets.begin_write(group_id)

        def then(error: ErrorCode, now_ms: int) -> None:
            offsets.end_write(group_id)
            if error is ErrorCode.NONE:
                for record in records:
                    offsets.apply(record)
            else:
                for result in written:
                    result.error_code = offset_write_error(error)
            self._table.reply(token, answer)

        self._table.append([encode_offset_record(record) for record in records], then)


def _committed(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
) -> CommittedOffset:
    """The offset as it is kept, with a retention time of its own if the client (up to version 4) asked for one."""
    keeps_ms = request.retention_time_ms
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms,
        -1 if keeps_ms < 0 else now_ms + keeps_ms,
        topic.topic_id,
    )


def _answer_all(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
