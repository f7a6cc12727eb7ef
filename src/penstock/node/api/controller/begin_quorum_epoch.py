"""BeginQuorumEpoch 0-1: a peer says that it leads, and from version 1 on where it listens (KIP-853)."""

from penstock.node.api.quorum_answers import asked, check_numbers, learn_leader, with_endpoint
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    NodeEndpoint,
)
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_begin_epoch_answer
from penstock.raft.kafka_requests import read_begin_epoch


@handles(ApiKey.BEGIN_QUORUM_EPOCH, versions=(0, 1), rule=BETWEEN_NODES)
async def begin_quorum_epoch(
    node: QuorumNode, context: RequestContext, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    try:
        news = read_begin_epoch(request, node.cluster_id, node.quorum.local_key, node.log)
        check_numbers(news.leader_id, epoch=news.epoch)
    except KafkaError as error:
        return BeginQuorumEpochResponse(error_code=error.code)
    learn_leader(node, news.leader_id, request.leader_endpoints)
    response = write_begin_epoch_answer(await asked(node, news), node.log)
    return with_endpoint(node, context, response, response.topics[0].partitions[0].leader_id, NodeEndpoint)
