"""OffsetCommit: whose offsets are accepted, and when they count.

| who | state | answer |
| --- | --- | --- |
| no member id, generation -1 | no such group, or Empty | accepted: no group management, or an administrator |
| | with members | UNKNOWN_MEMBER_ID |
| a member of this generation | Stable, PreparingRebalance | accepted, and counts as a heartbeat |
| | CompletingRebalance | REBALANCE_IN_PROGRESS |
| a member of another generation | any | ILLEGAL_GENERATION |
| any other member | any | UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID |
| any client | Dead | COORDINATOR_NOT_AVAILABLE |

An offset is seen by OffsetFetch, and its commit is answered, when its record is committed. One that is committed in a
transaction (TxnOffsetCommit) is answered then as well, and seen when the marker of the transaction is committed. There
a client without member id and generation is accepted in any state, and a rebalance refuses nobody.
"""

from penstock.coordinator.effects import Part, Token
from penstock.coordinator.group.commits_first import Key
from penstock.coordinator.group.image import Place
from penstock.coordinator.group.records import AnyRecord, CommittedOffset, OffsetRecord, PendingRecord
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import offset_write_error
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def commit_offsets(
    table: GroupTable,
    token: Token,
    request: OffsetCommitRequest,
    api_version: int,
    now_ms: int,
    part: Part | None = None,
) -> None:
    """Every topic has its name filled in, and exists. With `part` the offsets wait for the end of the transaction."""
    error = _check(table, request, api_version, now_ms, part)
    if error is not ErrorCode.NONE:
        table.refuse(token, lambda code: _answer_all(request, offset_write_error(code)), error, now_ms)
        return
    records: list[AnyRecord] = []
    answer = OffsetCommitResponse()
    written: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        results = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        answer.topics.append(results)
        for partition in topic.partitions:
            result = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            results.partitions.append(result)
            if len(partition.committed_metadata or "") > table.settings.offset_metadata_max_bytes:
                result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            committed = _committed(request, topic, partition, now_ms)
            place = request.group_id, topic.name, partition.partition_index
            record = OffsetRecord(*place, committed)
            records.append(record if part is None else PendingRecord(part.producer_id, *place, committed))
            written.append(result)
    member = (request.group_id, request.member_id)
    asked = member if table.commits_first.was_asked(member) else None
    if records:
        _write(table, token, records, answer, written, asked, now_ms, part)
    else:
        table.reply(token, answer)
        if asked is not None:
            table.commits_first.done(asked)


def end_transaction(table: GroupTable, token: Token, part: Part, now_ms: int) -> None:
    """Write the marker; the offsets of the transaction count, or are forgotten, when that is committed. Answered with
    an ErrorCode.
    """
    assert part.end is not None
    is_commit = part.end.is_commit

    def then(error: ErrorCode, now_ms: int) -> None:
        if error is not ErrorCode.NONE:
            return
        records = table.image.pending.end(part.producer_id, is_commit=is_commit)
        if is_commit:
            table.came_true([record.come_true() for record in records], place=_place, value=_value)
        for group_id in dict.fromkeys(record.group_id for record in records):
            if not is_commit:
                table.drop_unfounded(group_id, now_ms)
            elif group_id not in table.groups:
                table.create_group(group_id, now_ms)

    table.append([], now_ms, then=then, token=token, answer=lambda error: error, part=part)


def _place(record: AnyRecord) -> Place | None:
    """Where it is an offset that counts, or takes one away."""
    return (record.group_id, record.topic, record.partition) if type(record) is OffsetRecord else None


def _value(record: AnyRecord) -> object:
    return record.value


def _check(
    table: GroupTable, request: OffsetCommitRequest, api_version: int, now_ms: int, part: Part | None
) -> ErrorCode:
    group = table.groups.get(request.group_id)
    if group is not None and part is not None:
        return group.check_pending_commit(request)
    if group is not None:
        return group.check_commit(request, api_version, table, now_ms)
    if request.generation_id_or_member_epoch < 0:
        table.create_group(request.group_id, now_ms)
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if api_version >= 9 else ErrorCode.ILLEGAL_GENERATION


def _write(
    table: GroupTable,
    token: Token,
    records: list[AnyRecord],
    answer: OffsetCommitResponse,
    written: list[OffsetCommitResponsePartition],
    asked: Key | None,
    now_ms: int,
    part: Part | None,
) -> None:
    group_id = records[0].group_id

    def then(error: ErrorCode, now_ms: int) -> None:
        if error is not ErrorCode.NONE:
            table.drop_unfounded(group_id, now_ms)
        elif asked is not None:
            table.commits_first.done(asked)

    def response(error: ErrorCode) -> OffsetCommitResponse:
        if error is not ErrorCode.NONE:
            for result in written:
                result.error_code = offset_write_error(error)
        return answer

    table.append(records, now_ms, then=then, token=token, answer=response, part=part)


def _committed(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
) -> CommittedOffset:
    """Has a retention time of its own if the client (up to version 4) asked for one."""
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
