"""OffsetForLeaderEpoch 2-4: where a leader's term ended, so that a reader finds where its log diverged (KIP-101)."""

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import CLUSTER_ACTION, DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=(2, 4),
    rule=(Each(DESCRIBE_TOPIC, ("topics",), "topics", unless=CLUSTER_ACTION),),
)
def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """For each partition the largest epoch that is not above the asked one, and the offset behind its last record."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _end_of_epoch(broker, topic.topic, wanted, request.replica_id) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_of_epoch(broker: Broker, topic: str, wanted: OffsetForLeaderPartition, replica_id: int) -> EpochEndOffset:
    try:
        partition = broker.partition(topic, wanted.partition)
        if replica_id < 0:
            broker.check_leader(partition, wanted.current_leader_epoch)
        else:
            partition.check_leader(wanted.current_leader_epoch)
        epoch, end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
