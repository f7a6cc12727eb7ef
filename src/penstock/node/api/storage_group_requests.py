"""What peers ask of this node's replicas of storage groups.

| request                                     | who answers                                                            |
| ------------------------------------------- | ---------------------------------------------------------------------- |
| Vote, BeginQuorumEpoch, EndQuorumEpoch      | the replica of the group, by the handler that controllers have for it  |
| FetchSnapshot, Fetch of a group's own log   | the same                                                               |
| Fetch of a partition that a group has       | its log, from which another replica copies what it lacks               |

A group that does not run here answers BROKER_NOT_AVAILABLE: it may start in a moment, and other groups use the same
connections.
"""

from functools import lru_cache
from typing import Any, Final

from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import CONTROLLER_HANDLERS, RequestContext, load_handlers
from penstock.node.storage_groups.copying import read_for_copy
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.codec import decode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.fetch import FetchFrame
from penstock.protocol.requests.framing import encode_response
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID
from penstock.raft import kafka_answers as write
from penstock.raft import requests as core
from penstock.raft.kafka_requests import only
from penstock.raft.log_name import LogName
from penstock.raft.ports import SnapshotId
from penstock.replication.storage_groups.entries import PartitionId

NOT_HERE: Final = ErrorCode.BROKER_NOT_AVAILABLE

_handlers = lru_cache(1)(lambda: load_handlers(CONTROLLER_HANDLERS))


async def ask(broker: Broker, context: RequestContext, request: Any) -> Message:
    try:
        topic = only(request.topics)
        partition = only(topic.partitions)
    except KafkaError as error:
        return api_of(context.api_key).response_class(error_code=error.code)
    is_snapshot = context.api_key == ApiKey.FETCH_SNAPSHOT
    name, index = (topic.name, partition.partition) if is_snapshot else (topic.topic_name, partition.partition_index)
    if name != STORAGE_GROUPS:
        return api_of(context.api_key).response_class(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return await _answered(broker, context, request, LogName(STORAGE_GROUPS, ZERO_UUID, index))


async def _answered(broker: Broker, context: RequestContext, request: Any, log: LogName) -> Message:
    replica = _running(broker, log.partition)
    if replica is None:
        return _not_here(context.api_key, log)
    answer: Message = await _handlers()[context.api_key].function(replica, context, request)
    return answer


def _running(broker: Broker, number: int) -> GroupReplica | None:
    replica = broker.storage_groups.by_number.get(number)
    return replica if replica is not None and replica.is_running else None


def _not_here(api_key: int, log: LogName) -> Message:
    match api_key:
        case ApiKey.VOTE:
            return write.write_vote_answer(core.VoteAnswer(NOT_HERE, None, 0), log)
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return write.write_begin_epoch_answer(core.EpochAnswer(NOT_HERE, None, 0), log)
        case ApiKey.END_QUORUM_EPOCH:
            return write.write_end_epoch_answer(core.EpochAnswer(NOT_HERE, None, 0), log)
        case ApiKey.FETCH_SNAPSHOT:
            answer = core.FetchSnapshotAnswer(NOT_HERE, None, 0, SnapshotId(0, 0))
            return write.write_fetch_snapshot_answer(answer, log)
        case _:
            return write.write_fetch_answer(core.FetchAnswer(NOT_HERE, None, 0), log)


def is_of_replica(broker: Broker, request: FetchFrame) -> bool:
    """Whether a fetch that names its cluster, as no consumer does, is that of a group's replica."""
    groups = broker.image.topics.get(STORAGE_GROUPS)
    return request.replica_id >= 0 and any(
        topic.topic_id in broker.storage_groups.by_topic or (groups is not None and topic.topic_id == groups.topic_id)
        for topic in request.topics
    )


async def fetch(broker: Broker, context: RequestContext, frame: bytes, position: int) -> list[Any]:
    request, _ = decode(FetchRequest, context.api_version, frame, position)
    response = await _fetched(broker, context, request)
    return [encode_response(response, context.api_key, context.api_version, context.correlation_id)]


async def _fetched(broker: Broker, context: RequestContext, request: FetchRequest) -> Message:
    try:
        topic = only(request.topics)
        partition = only(topic.partitions)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    groups = broker.image.topics.get(STORAGE_GROUPS)
    if groups is not None and topic.topic_id == groups.topic_id:
        return await _answered(broker, context, request, LogName(STORAGE_GROUPS, topic.topic_id, partition.partition))
    answer = PartitionData(partition_index=partition.partition, high_watermark=-1)
    try:
        group = broker.storage_groups.group_of(topic.topic_id)
        if group is None:
            raise KafkaError(NOT_HERE)
        wanted, offset = PartitionId(topic.topic_id, partition.partition), partition.fetch_offset
        answer.log_start_offset, answer.records = read_for_copy(group.partition(wanted).log, offset, request.max_bytes)
    except KafkaError as error:
        answer.error_code = error.code
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[answer])])
