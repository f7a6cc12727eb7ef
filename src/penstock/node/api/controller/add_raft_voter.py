"""AddRaftVoter 0-1: a controller that has caught up as an observer shall vote (KIP-853); the leader sees to it."""

from penstock.node.api.quorum_answers import asked, check_endpoints, check_numbers
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.access import ALTER_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_add_voter_answer
from penstock.raft.kafka_requests import read_add_voter


@handles(ApiKey.ADD_RAFT_VOTER, versions=(0, 1), rule=(Whole(ALTER_CLUSTER),))
async def add_raft_voter(
    node: QuorumNode, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    try:
        change = read_add_voter(request, node.cluster_id)
        check_numbers(change.key.id)
        check_endpoints(node, change.endpoints)
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
    return write_add_voter_answer(await asked(node, change))
