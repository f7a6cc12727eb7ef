"""RemoveRaftVoter 0: a controller shall vote no longer (KIP-853); the leader sees to it, and goes if it is itself."""

from penstock.node.api.quorum_answers import asked
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.access import ALTER_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_remove_voter_answer
from penstock.raft.kafka_requests import read_remove_voter


@handles(ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), rule=(Whole(ALTER_CLUSTER),))
async def remove_raft_voter(
    node: QuorumNode, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    try:
        change = read_remove_voter(request, node.cluster_id)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
    return write_remove_voter_answer(await asked(node, change))
