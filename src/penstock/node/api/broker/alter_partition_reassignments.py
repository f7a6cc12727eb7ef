"""AlterPartitionReassignments 0-1: partitions begin to move to other replicas, or stop moving (KIP-455).

The controller decides. What would need a copy of the data on another broker is refused here: followers do not fetch
yet, so such a move would never end.
"""

from __future__ import annotations

from penstock.node.api.commands import handed_on
from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

NOT_YET = "a partition cannot move to another broker yet: followers do not copy data from their leaders"


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), needs=(Need.ALTER_CLUSTER,))
async def alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Answer when the beginning is committed; what is refused here comes last."""
    refused = _chosen(broker, request.topics, needs_copy=True)
    if not refused:
        return await handed_on(broker, context, request, AlterPartitionReassignmentsResponse)
    response = AlterPartitionReassignmentsResponse(error_message=None)
    others = _chosen(broker, request.topics, needs_copy=False)
    if others:
        response = await handed_on(broker, context, request.replace(topics=others), AlterPartitionReassignmentsResponse)
    response.responses += [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    error_message=NOT_YET,
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


def _chosen(broker: Broker, topics: list[ReassignableTopic], *, needs_copy: bool) -> list[ReassignableTopic]:
    """The partitions that need a copy, or those that do not."""
    chosen = []
    for topic in topics:
        partitions = [p for p in topic.partitions if _needs_copy(broker, topic.name, p) is needs_copy]
        if partitions:
            chosen.append(ReassignableTopic(name=topic.name, partitions=partitions))
    return chosen


def _needs_copy(broker: Broker, topic: str, wanted: ReassignablePartition) -> bool:
    """Whether a broker would have to hold a replica that it does not hold; the controller refuses the rest itself."""
    known = broker.image.topics.get(topic)
    partition = None if known is None else known.partitions.get(wanted.partition_index)
    if partition is None or wanted.replicas is None:
        return False
    adding = [replica for replica in wanted.replicas if replica not in partition.replicas]
    return bool(adding) and all(replica in broker.image.brokers for replica in adding)
