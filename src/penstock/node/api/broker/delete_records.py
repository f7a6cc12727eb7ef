"""DeleteRecords 0-2: move the beginning of partitions forward; -1 means to the high watermark (KIP-107).

Internal topics are refused (INVALID_TOPIC_EXCEPTION) and so are topics without `delete` in their cleanup policy
(POLICY_VIOLATION).
"""

from __future__ import annotations

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@handles(ApiKey.DELETE_RECORDS, versions=(0, 2), needs=(Need.DELETE_TOPIC,))
def delete_records(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete each partition's records before an offset."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(broker, topic.name, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(broker: Broker, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=NO_LOW_WATERMARK)
    try:
        known = broker.image.topics.get(topic)
        if known is not None and known.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.partition(topic, wanted.partition_index)
        partition.check_leader()
        if not partition.log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        offset = partition.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        partition.log.advance_log_start(offset)
        broker.replicas.on_log_start_moved(partition)
        result.low_watermark = partition.log.log_start_offset
    except KafkaError as error:
        result.error_code = error.code
    return result
