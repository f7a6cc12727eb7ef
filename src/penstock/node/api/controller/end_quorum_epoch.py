"""EndQuorumEpoch 0-1: a peer says that it leads no longer, and who should stand first."""

from penstock.node.api.quorum_answers import asked, check_numbers, learn_leader, with_endpoint
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse, NodeEndpoint
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_end_epoch_answer
from penstock.raft.kafka_requests import read_end_epoch


@handles(ApiKey.END_QUORUM_EPOCH, versions=(0, 1), rule=BETWEEN_NODES)
async def end_quorum_epoch(
    node: QuorumNode, context: RequestContext, request: EndQuorumEpochRequest
) -> EndQuorumEpochResponse:
    try:
        news = read_end_epoch(request, node.cluster_id, node.log)
        check_numbers(news.leader_id, epoch=news.epoch)
    except KafkaError as error:
        return EndQuorumEpochResponse(error_code=error.code)
    learn_leader(node, news.leader_id, request.leader_endpoints)
    response = write_end_epoch_answer(await asked(node, news), node.log)
    return with_endpoint(node, context, response, response.topics[0].partitions[0].leader_id, NodeEndpoint)
