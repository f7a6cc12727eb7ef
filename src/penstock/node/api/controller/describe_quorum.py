"""DescribeQuorum 0-2: the voters and observers of the metadata quorum, and how far each is, as its leader sees them."""

from itertools import islice

from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_description
from penstock.raft.log_name import METADATA_LOG


@handles(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), rule=(Whole(DESCRIBE_CLUSTER),))
def describe_quorum(
    node: QuorumNode, context: RequestContext, request: DescribeQuorumRequest
) -> Steps[DescribeQuorumResponse]:
    asked = ((topic.topic_name, row.partition_index) for topic in request.topics for row in topic.partitions)
    try:
        if list(islice(asked, 2)) != [(METADATA_LOG.topic, METADATA_LOG.partition)]:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{METADATA_LOG} alone is described")
        return write_description(node.quorum.describe())
    except KafkaError as error:
        return (yield from _refused(request, error))


def _refused(request: DescribeQuorumRequest, error: KafkaError) -> Steps[DescribeQuorumResponse]:
    """Each partition that was asked about has the error, and they may be many."""
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(
                DescribeQuorumResponsePartitionData(
                    partition_index=partition.partition_index,
                    error_code=error.code,
                    error_message=error.message,
                    leader_id=-1,
                    high_watermark=-1,
                )
            )
            yield None
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
        yield None
    return DescribeQuorumResponse(topics=topics)
