"""Vote 0-2: a peer wants to lead the metadata quorum, or asks whether it could (version 2, KIP-996)."""

from penstock.node.api.quorum_answers import asked, check_numbers, with_endpoint
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.vote import NodeEndpoint, VoteRequest, VoteResponse
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_vote_answer
from penstock.raft.kafka_requests import read_vote


@handles(ApiKey.VOTE, versions=(0, 2), rule=BETWEEN_NODES)
async def vote(node: QuorumNode, context: RequestContext, request: VoteRequest) -> VoteResponse:
    try:
        ballot = read_vote(request, node.cluster_id, node.quorum.local_key, node.log)
        check_numbers(ballot.candidate.id, epoch=ballot.epoch)
    except KafkaError as error:
        return VoteResponse(error_code=error.code)
    response = write_vote_answer(await asked(node, ballot), node.log)
    return with_endpoint(node, context, response, response.topics[0].partitions[0].leader_id, NodeEndpoint)
