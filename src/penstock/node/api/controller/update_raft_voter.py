"""UpdateRaftVoter 0: a voter listens elsewhere now, or runs newer software (KIP-853)."""

from penstock.node.api.quorum_answers import asked, check_endpoints, check_numbers, leader_endpoint
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_update_voter_answer
from penstock.raft.kafka_requests import read_update_voter


@handles(ApiKey.UPDATE_RAFT_VOTER, versions=(0, 0), rule=BETWEEN_NODES)
async def update_raft_voter(
    node: QuorumNode, context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    """The answer says where the leader listens."""
    try:
        news = read_update_voter(request, node.cluster_id)
        check_numbers(news.voter.key.id, epoch=news.epoch)
        check_endpoints(node, news.voter.endpoints)
    except KafkaError as error:
        return UpdateRaftVoterResponse(error_code=error.code)
    response = write_update_voter_answer(await asked(node, news))
    leader = response.current_leader
    endpoint = leader_endpoint(node, context, leader.leader_id)
    if endpoint is not None:
        leader.host, leader.port = endpoint.host, endpoint.port
    return response
