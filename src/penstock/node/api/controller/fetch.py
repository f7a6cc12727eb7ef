"""Fetch 4-18 of the metadata log, as replicas fetch it; versions below 17 name no directory of the replica.

It waits, at most as long as the request says and `MAX_WAIT_MS`, until there is something to tell. Another partition
than that of the metadata log is UNKNOWN_TOPIC_OR_PARTITION, by id UNKNOWN_TOPIC_ID. There are no fetch sessions here.
"""

from penstock.node.api.quorum_answers import MAX_ANSWER_BYTES, MAX_WAIT_MS, asked, check_numbers, with_endpoint
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_fetch_answer
from penstock.raft.kafka_requests import read_fetch

FIRST_WITH_TOPIC_IDS = 13


@handles(ApiKey.FETCH, versions=(4, 18), rule=BETWEEN_NODES)
async def fetch(node: QuorumNode, context: RequestContext, request: FetchRequest) -> FetchResponse:
    context.counts = context.counts.of_nodes
    try:
        wanted = read_fetch(request, node.cluster_id, node.log)
        check_numbers(wanted.max_wait_ms, wanted.max_bytes)
        wanted = wanted.replace(
            max_wait_ms=min(wanted.max_wait_ms, MAX_WAIT_MS),
            max_bytes=min(wanted.max_bytes, MAX_ANSWER_BYTES),
        )
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _unknown(context, request)
        return FetchResponse(error_code=error.code)
    response = write_fetch_answer(await asked(node, wanted), node.log)
    leader_id = response.responses[0].partitions[0].current_leader.leader_id
    return with_endpoint(node, context, response, leader_id, NodeEndpoint)


def _unknown(context: RequestContext, request: FetchRequest) -> FetchResponse:
    by_id = context.api_version >= FIRST_WITH_TOPIC_IDS
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=partition.partition, error_code=code, high_watermark=-1, records=b"")
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
