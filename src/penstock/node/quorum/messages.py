"""What a replica asks a peer, and is answered, as the messages of Kafka's protocol."""

from typing import Any

from penstock.node.quorum.ports import PeerAnswer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_raft_voter import AddRaftVoterResponse
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from penstock.protocol.messages.vote import VoteResponse
from penstock.protocol.schema import Message
from penstock.raft import kafka_answers, kafka_requests
from penstock.raft import requests as ask
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.voters import Endpoint

KRAFT_VERSION = "kraft.version"
"""The feature by which a replica says which levels of the quorum it understands."""

SOFTWARE_NAME = "penstock"
SOFTWARE_VERSION = "0.1.0"


def written(
    request: ask.PeerRequest, cluster_id: str, listeners: tuple[Endpoint, ...], log: LogName = METADATA_LOG
) -> Message:
    match request:
        case ask.Vote():
            return kafka_requests.write_vote(request, cluster_id, log)
        case ask.BeginEpoch():
            return kafka_requests.write_begin_epoch(request, cluster_id, listeners, log)
        case ask.EndEpoch():
            return kafka_requests.write_end_epoch(request, cluster_id, listeners, log)
        case ask.Fetch():
            return kafka_requests.write_fetch(request, cluster_id, log)
        case ask.FetchSnapshot():
            return kafka_requests.write_fetch_snapshot(request, cluster_id, log)
        case ask.AddVoter():
            return kafka_requests.write_add_voter(request, cluster_id)
        case ask.RemoveVoter():
            return kafka_requests.write_remove_voter(request, cluster_id)
        case ask.UpdateVoter():
            return kafka_requests.write_update_voter(request, cluster_id)
        case ask.AskVersions():
            return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)


def answer_class(request: ask.PeerRequest) -> type[Message]:
    return _ANSWERS[type(request)]


def answer_in(message: Message) -> PeerAnswer:
    """Raises KafkaError for a refusal of the whole request."""
    match message:
        case VoteResponse():
            return kafka_answers.read_vote_answer(message)
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            return kafka_answers.read_epoch_answer(message)
        case FetchResponse():
            return kafka_answers.read_fetch_answer(message)
        case FetchSnapshotResponse():
            return kafka_answers.read_fetch_snapshot_answer(message)
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            return kafka_answers.read_voter_change_answer(message)
        case UpdateRaftVoterResponse():
            return kafka_answers.read_update_voter_answer(message)
        case ApiVersionsResponse():
            return _versions(message)
        case _:
            raise AssertionError(f"nobody asks a peer for {type(message).__name__}")


def endpoints_in(message: Message) -> list[tuple[int, str, int]]:
    """(id, host, port) of the nodes whose address a peer's answer tells: that of the leader it names."""
    if isinstance(message, UpdateRaftVoterResponse):
        leader = message.current_leader
        return [(leader.leader_id, leader.host, leader.port)] if leader.host else []
    nodes: list[Any] = getattr(message, "node_endpoints", [])
    return [(node.node_id, node.host, node.port) for node in nodes]


def _versions(message: ApiVersionsResponse) -> ask.AskVersionsAnswer:
    """A node that does not name the feature knows only the first level."""
    if message.error_code:
        return ask.AskVersionsAnswer(ErrorCode.UNSUPPORTED_VERSION)
    for feature in message.supported_features:
        if feature.name == KRAFT_VERSION:
            return ask.AskVersionsAnswer(ErrorCode.NONE, feature.min_version, feature.max_version)
    return ask.AskVersionsAnswer(ErrorCode.NONE)


_ANSWERS: dict[type, type[Message]] = {
    ask.Vote: VoteResponse,
    ask.BeginEpoch: BeginQuorumEpochResponse,
    ask.EndEpoch: EndQuorumEpochResponse,
    ask.Fetch: FetchResponse,
    ask.FetchSnapshot: FetchSnapshotResponse,
    ask.AddVoter: AddRaftVoterResponse,
    ask.RemoveVoter: RemoveRaftVoterResponse,
    ask.UpdateVoter: UpdateRaftVoterResponse,
    ask.AskVersions: ApiVersionsResponse,
}
