"""TxnOffsetCommit 0-6: offsets of a group that count when a producer's transaction is committed.

Answered when they are committed to the log of the group's coordinator, which shows them to nobody until the marker of
the transaction is there (`coordinator/group/commit.py`). Before the first ones in a transaction the coordinator of that
is asked, as before a batch; from version 5 on it adds the partition itself.
"""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.node.api.coordinated import coordinated, take_out_unknown
from penstock.node.api.transactions.verification import MOST_TRIES, Asked, Asking, Knows, answers_of
from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE: Final = 6
EPOCHS_RISE_SINCE: Final = 5
ABORTABLE_SINCE: Final = 4
GROUPS_ERRORS_SINCE: Final = 6
LOADING_SINCE: Final = 2
"""Older producers end where they hear COORDINATOR_LOAD_IN_PROGRESS."""
NO_SEQUENCE: Final = -1


@coordinated()
def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> Steps[TxnOffsetCommitResponse]:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    commit = _plain(request)
    refused = [
        refusal for topic in commit.topics if (refusal := take_out_unknown(broker, topic, by_id=by_id)) is not None
    ]
    names = {topic.topic_id: topic.name for topic in commit.topics} if by_id else {}
    commit.topics = [topic for topic in commit.topics if topic.partitions]
    answered = OffsetCommitResponse()
    if commit.topics:
        try:
            answered = yield from _commit(broker, context.api_version, request, commit)
        except KafkaError as error:
            return _refused(request, _known_to(error.code, context.api_version))
    codes = {
        (topic.name, topic.topic_id, partition.partition_index): partition.error_code
        for topic in (*refused, *answered.topics)
        for partition in topic.partitions
    }
    response = _refused(request, ErrorCode.NONE)
    for topic in response.topics:
        for partition in topic.partitions:
            place = names.get(topic.topic_id, topic.name), topic.topic_id, partition.partition_index
            partition.error_code = _known_to(codes[place], context.api_version)
    return response


def _plain(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        committed_metadata=partition.committed_metadata,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _commit(
    broker: Broker, version: int, request: TxnOffsetCommitRequest, commit: OffsetCommitRequest
) -> Steps[OffsetCommitResponse]:
    """Raises KafkaError where all of it is refused."""
    if broker.groups.is_loading_for(request.group_id):
        yield broker.groups.loaded([request.group_id])
    partition = broker.groups.find(request.group_id).partition
    producer_id, epoch = request.producer_id, request.producer_epoch
    producer = partition.log.producers.get(producer_id)
    if producer is not None and producer.is_in_transaction(epoch):
        return (yield from _put(broker, commit, producer_id, epoch))
    asking = Asking(request.transactional_id, producer_id, epoch, _knows(version))
    return (yield from _commit_verified(broker, commit, partition, asking, MOST_TRIES))


def _commit_verified(
    broker: Broker, commit: OffsetCommitRequest, partition: Partition, asking: Asking, tries: int
) -> Steps[OffsetCommitResponse]:
    asked = Asked(partition, asking, NO_SEQUENCE)
    try:
        place = partition.topic, partition.index
        codes = yield answers_of(broker, asking, [place])
        asked.answered(code := codes[place])
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        if tries == 1 or not asked.may_be_asked_again(asking, code):
            return (yield from _put(broker, commit, asking.producer_id, asking.producer_epoch))
    finally:
        asked.over()
    return (yield from _commit_verified(broker, commit, partition, asking, tries - 1))


def _put(broker: Broker, commit: OffsetCommitRequest, producer_id: int, epoch: int) -> Steps[OffsetCommitResponse]:
    """The machine writes at once, so what was verified just now still holds."""
    hosted = broker.groups.find(commit.group_id)
    answer = hosted.ask(hosted.machine.commit_pending, commit, producer_id, epoch)
    response: OffsetCommitResponse = (yield answer) if isinstance(answer, asyncio.Future) else answer
    return response


def _knows(version: int) -> Knows:
    if version >= EPOCHS_RISE_SINCE:
        return Knows.EPOCHS_RISE
    return Knows.ABORTABLE if version >= ABORTABLE_SINCE else Knows.OLD_ERRORS


def _known_to(code: int, version: int) -> ErrorCode:
    if code == ErrorCode.NOT_ENOUGH_REPLICAS:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # to try again, here
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND) and version < GROUPS_ERRORS_SINCE:
        code = ErrorCode.ILLEGAL_GENERATION  # older producers do not know the others (KIP-1319)
    return ErrorCode(code)


def _refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
