"""The requests of the consensus core as Kafka's messages, and back.

`write_…` makes a message, `read_…` takes one apart. Reading raises KafkaError for what this quorum cannot answer: the
id of another cluster (INCONSISTENT_CLUSTER_ID), or another log than the one it replicates, by default the metadata log
(UNKNOWN_TOPIC_OR_PARTITION). A version that lacks a field leaves it at its default: a vote of version 1 is never a
pre-vote, one of version 0 names no directory. Messages about voters that change are about the metadata log alone.
"""

from typing import Final, TypeVar
from uuid import UUID

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import add_raft_voter, begin_quorum_epoch, end_quorum_epoch, update_raft_voter
from penstock.protocol.messages import fetch as fetch_messages
from penstock.protocol.messages import fetch_snapshot as snapshot_messages
from penstock.protocol.messages import vote as vote_messages
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from penstock.protocol.messages.vote import VoteRequest
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchSnapshot,
    Promise,
    RemoveVoter,
    UpdateVoter,
    Vote,
)
from penstock.raft.voters import Endpoint, ReplicaKey, Voter

UNKNOWN: Final = -1

P = TypeVar("P")


def only(items: list[P]) -> P:
    if len(items) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(items)} topics or partitions instead of one")
    return items[0]


def check_partition(topic: str, index: int, log: LogName = METADATA_LOG) -> None:
    """Raises KafkaError for anything but that log."""
    if (topic, index) != (log.topic, log.partition):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} is not {log}")


def check_cluster(theirs: str | None, ours: str) -> None:
    """Raises KafkaError INCONSISTENT_CLUSTER_ID; a request that names no cluster passes."""
    if theirs is not None and theirs != ours:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {ours}, not {theirs}")


def write_vote(request: Vote, cluster_id: str, log: LogName = METADATA_LOG) -> VoteRequest:
    partition = vote_messages.VoteRequestPartitionData(
        partition_index=log.partition,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote_messages.VoteRequestTopicData(topic_name=log.topic, partitions=[partition])
    return VoteRequest(cluster_id=cluster_id, voter_id=request.voter.id, topics=[topic])


def read_vote(message: VoteRequest, cluster_id: str, me: ReplicaKey, log: LogName = METADATA_LOG) -> Vote:
    """Version 0 does not say whom it asks."""
    check_cluster(message.cluster_id, cluster_id)
    topic = only(message.topics)
    partition = only(topic.partitions)
    check_partition(topic.topic_name, partition.partition_index, log)
    return Vote(
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=_addressed(message.voter_id, partition.voter_directory_id, me),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def write_begin_epoch(
    request: BeginEpoch, cluster_id: str, listeners: tuple[Endpoint, ...], log: LogName = METADATA_LOG
) -> BeginQuorumEpochRequest:
    """The listeners are those of the leader."""
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        partition_index=log.partition,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochRequestTopicData(topic_name=log.topic, partitions=[partition])
    endpoints = [begin_quorum_epoch.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in listeners]
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=request.voter.id, topics=[topic], leader_endpoints=endpoints
    )


def read_begin_epoch(
    message: BeginQuorumEpochRequest, cluster_id: str, me: ReplicaKey, log: LogName = METADATA_LOG
) -> BeginEpoch:
    """Version 0 does not say whom it tells."""
    check_cluster(message.cluster_id, cluster_id)
    topic = only(message.topics)
    partition = only(topic.partitions)
    check_partition(topic.topic_name, partition.partition_index, log)
    voter = _addressed(message.voter_id, partition.voter_directory_id, me)
    return BeginEpoch(partition.leader_epoch, partition.leader_id, voter)


def write_end_epoch(
    request: EndEpoch, cluster_id: str, listeners: tuple[Endpoint, ...], log: LogName = METADATA_LOG
) -> EndQuorumEpochRequest:
    """Names the successors both as version 0 and as version 1 has them."""
    partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        partition_index=log.partition,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
        preferred_successors=[key.id for key in request.successors],
    )
    topic = end_quorum_epoch.EndQuorumEpochRequestTopicData(topic_name=log.topic, partitions=[partition])
    endpoints = [end_quorum_epoch.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in listeners]
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic], leader_endpoints=endpoints)


def read_end_epoch(message: EndQuorumEpochRequest, cluster_id: str, log: LogName = METADATA_LOG) -> EndEpoch:
    check_cluster(message.cluster_id, cluster_id)
    topic = only(message.topics)
    partition = only(topic.partitions)
    check_partition(topic.topic_name, partition.partition_index, log)
    successors = [ReplicaKey(info.candidate_id, info.candidate_directory_id) for info in partition.preferred_candidates]
    if not successors:
        successors = [ReplicaKey(node_id) for node_id in partition.preferred_successors]
    return EndEpoch(partition.leader_epoch, partition.leader_id, tuple(successors))


def write_fetch(request: Fetch, cluster_id: str, log: LogName = METADATA_LOG) -> FetchRequest:
    """Says of the replica what the versions before and after 15 need. A promise stands in the fields of fetch sessions
    (KIP-227), which Kafka's replicas of this log leave empty.
    """
    partition = fetch_messages.FetchPartition(
        partition=log.partition,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        log_start_offset=UNKNOWN,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    message = FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch_messages.ReplicaState(replica_id=request.replica.id),
        replica_id=request.replica.id,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[fetch_messages.FetchTopic(topic_id=log.topic_id, topic=log.topic, partitions=[partition])],
    )
    if request.promise is not None:
        message.session_id, message.session_epoch = request.promise.answer, request.promise.length_ms
    return message


def read_fetch(message: FetchRequest, cluster_id: str, log: LogName = METADATA_LOG) -> Fetch:
    """Raises KafkaError if no replica of the log asks. Older versions ask for no high watermark."""
    check_cluster(message.cluster_id, cluster_id)
    topic = only(message.topics)
    partition = only(topic.partitions)
    check_partition(log.topic if topic.topic_id == log.topic_id else topic.topic, partition.partition, log)
    node_id = message.replica_state.replica_id if message.replica_state.replica_id >= 0 else message.replica_id
    return Fetch(
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(node_id, partition.replica_directory_id),
        offset=partition.fetch_offset,
        last_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=message.max_wait_ms,
        max_bytes=min(message.max_bytes, partition.partition_max_bytes),
        promise=Promise(message.session_id, message.session_epoch) if message.session_id > 0 else None,
    )


def write_fetch_snapshot(request: FetchSnapshot, cluster_id: str, log: LogName = METADATA_LOG) -> FetchSnapshotRequest:
    snapshot = snapshot_messages.FetchSnapshotRequestSnapshotId(
        end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch
    )
    partition = snapshot_messages.FetchSnapshotRequestPartitionSnapshot(
        partition=log.partition,
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot,
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    topic = snapshot_messages.FetchSnapshotRequestTopicSnapshot(name=log.topic, partitions=[partition])
    return FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=request.replica.id, max_bytes=request.max_bytes, topics=[topic]
    )


def read_fetch_snapshot(message: FetchSnapshotRequest, cluster_id: str, log: LogName = METADATA_LOG) -> FetchSnapshot:
    check_cluster(message.cluster_id, cluster_id)
    topic = only(message.topics)
    partition = only(topic.partitions)
    check_partition(topic.name, partition.partition, log)
    return FetchSnapshot(
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(message.replica_id, partition.replica_directory_id),
        snapshot=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def write_add_voter(request: AddVoter, cluster_id: str) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.key.id,
        voter_directory_id=request.key.directory_id,
        listeners=[add_raft_voter.Listener(name=e.name, host=e.host, port=e.port) for e in request.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def read_add_voter(message: AddRaftVoterRequest, cluster_id: str) -> AddVoter:
    check_cluster(message.cluster_id, cluster_id)
    return AddVoter(
        key=ReplicaKey(message.voter_id, message.voter_directory_id),
        endpoints=_endpoints(message.listeners),
        ack_when_committed=message.ack_when_committed,
        timeout_ms=message.timeout_ms,
    )


def write_remove_voter(request: RemoveVoter, cluster_id: str) -> RemoveRaftVoterRequest:
    key = request.key
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=key.id, voter_directory_id=key.directory_id)


def read_remove_voter(message: RemoveRaftVoterRequest, cluster_id: str) -> RemoveVoter:
    check_cluster(message.cluster_id, cluster_id)
    return RemoveVoter(ReplicaKey(message.voter_id, message.voter_directory_id))


def write_update_voter(request: UpdateVoter, cluster_id: str) -> UpdateRaftVoterRequest:
    voter = request.voter
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[update_raft_voter.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def read_update_voter(message: UpdateRaftVoterRequest, cluster_id: str) -> UpdateVoter:
    check_cluster(message.cluster_id, cluster_id)
    versions = message.k_raft_version_feature
    voter = Voter(
        key=ReplicaKey(message.voter_id, message.voter_directory_id),
        endpoints=_endpoints(message.listeners),
        min_kraft_version=versions.min_supported_version,
        max_kraft_version=versions.max_supported_version,
    )
    return UpdateVoter(message.current_leader_epoch, voter)


def _addressed(node_id: int, directory_id: UUID, me: ReplicaKey) -> ReplicaKey:
    return ReplicaKey(me.id if node_id == UNKNOWN else node_id, directory_id)


def _endpoints(listeners: "list[add_raft_voter.Listener] | list[update_raft_voter.Listener]") -> tuple[Endpoint, ...]:
    return tuple(Endpoint(listener.name, listener.host, listener.port) for listener in listeners)
