"""DescribeQuorum 0-2: the voters and observers of the metadata quorum, and how far each is, as its leader sees them."""

from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_description
from penstock.raft.kafka_requests import check_partition, only


@handles(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), rule=(Whole(DESCRIBE_CLUSTER),))
def describe_quorum(
    node: QuorumNode, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    try:
        topic = only(request.topics)
        check_partition(topic.topic_name, only(topic.partitions).partition_index)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_REQUEST:
            return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
        return _refused(request, error)
    try:
        return write_description(node.quorum.describe())
    except KafkaError as error:
        return _refused(request, error)


def _refused(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                        leader_id=-1,
                        high_watermark=-1,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
