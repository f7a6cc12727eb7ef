"""FetchSnapshot 0-1: a replica that is far behind takes a snapshot of the metadata, a piece at a time (KIP-630)."""

from penstock.node.api.quorum_answers import MAX_ANSWER_BYTES, asked, check_numbers, with_endpoint
from penstock.node.roles.controller_node import QuorumNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse, NodeEndpoint
from penstock.protocol.requests.api import ApiKey
from penstock.raft.kafka_answers import write_fetch_snapshot_answer
from penstock.raft.kafka_requests import read_fetch_snapshot


@handles(ApiKey.FETCH_SNAPSHOT, versions=(0, 1), rule=BETWEEN_NODES)
async def fetch_snapshot(
    node: QuorumNode, context: RequestContext, request: FetchSnapshotRequest
) -> FetchSnapshotResponse:
    try:
        wanted = read_fetch_snapshot(request, node.cluster_id, node.log)
        check_numbers(wanted.snapshot.end_offset, wanted.snapshot.epoch, wanted.max_bytes)
        wanted = wanted.replace(max_bytes=min(wanted.max_bytes, MAX_ANSWER_BYTES))
    except KafkaError as error:
        return FetchSnapshotResponse(error_code=error.code)
    response = write_fetch_snapshot_answer(await asked(node, wanted), node.log)
    leader_id = response.topics[0].partitions[0].current_leader.leader_id
    return with_endpoint(node, context, response, leader_id, NodeEndpoint)
