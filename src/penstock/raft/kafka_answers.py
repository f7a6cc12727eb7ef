"""The answers of the consensus core as Kafka's messages, and back: see `kafka_requests`.

An error of the whole request (another cluster, a malformed message) stands in no partition; reading it raises
KafkaError.
"""

from typing import Any

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import begin_quorum_epoch, describe_quorum, end_quorum_epoch, update_raft_voter
from penstock.protocol.messages import fetch as fetch_messages
from penstock.protocol.messages import fetch_snapshot as snapshot_messages
from penstock.protocol.messages import vote as vote_messages
from penstock.protocol.messages.add_raft_voter import AddRaftVoterResponse
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.protocol.messages.describe_quorum import DescribeQuorumResponse
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from penstock.protocol.messages.vote import VoteResponse
from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.kafka_requests import UNKNOWN, only
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.ports import EpochEnd, SnapshotId
from penstock.raft.requests import (
    EpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    VoteAnswer,
    VoterChangeAnswer,
)


def write_vote_answer(answer: VoteAnswer, log: LogName = METADATA_LOG) -> VoteResponse:
    partition = vote_messages.VoteResponsePartitionData(**_told(answer, log), vote_granted=answer.granted)
    return VoteResponse(topics=[vote_messages.VoteResponseTopicData(topic_name=log.topic, partitions=[partition])])


def read_vote_answer(message: VoteResponse) -> VoteAnswer:
    _check(message.error_code)
    found = only(only(message.topics).partitions)
    return VoteAnswer(ErrorCode(found.error_code), _read(found.leader_id), found.leader_epoch, found.vote_granted)


def write_begin_epoch_answer(answer: EpochAnswer, log: LogName = METADATA_LOG) -> BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(**_told(answer, log))
    topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(topic_name=log.topic, partitions=[partition])
    return BeginQuorumEpochResponse(topics=[topic])


def write_end_epoch_answer(answer: EpochAnswer, log: LogName = METADATA_LOG) -> EndQuorumEpochResponse:
    partition = end_quorum_epoch.EndQuorumEpochResponsePartitionData(**_told(answer, log))
    topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(topic_name=log.topic, partitions=[partition])
    return EndQuorumEpochResponse(topics=[topic])


def _told(answer: VoteAnswer | EpochAnswer, log: LogName) -> dict[str, Any]:
    """What a partition says in the answers to Vote, BeginQuorumEpoch and EndQuorumEpoch."""
    return {
        "partition_index": log.partition,
        "error_code": answer.error,
        "leader_id": _written(answer.leader_id),
        "leader_epoch": answer.epoch,
    }


def read_epoch_answer(message: BeginQuorumEpochResponse | EndQuorumEpochResponse) -> EpochAnswer:
    _check(message.error_code)
    topics: list[Any] = message.topics
    found = only(only(topics).partitions)
    return EpochAnswer(ErrorCode(found.error_code), _read(found.leader_id), found.leader_epoch)


def write_fetch_answer(answer: FetchAnswer, log: LogName = METADATA_LOG) -> FetchResponse:
    diverging, snapshot = answer.diverging, answer.snapshot
    leader = fetch_messages.LeaderIdAndEpoch(leader_id=_written(answer.leader_id), leader_epoch=answer.epoch)
    partition = fetch_messages.PartitionData(
        partition_index=log.partition,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=leader,
        records=answer.records,
    )
    if diverging is not None:
        partition.diverging_epoch = fetch_messages.EpochEndOffset(
            epoch=diverging.epoch, end_offset=diverging.end_offset
        )
    if snapshot is not None:
        partition.snapshot_id = fetch_messages.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    topic = fetch_messages.FetchableTopicResponse(topic_id=log.topic_id, topic=log.topic, partitions=[partition])
    return FetchResponse(responses=[topic], session_id=answer.number)


def read_fetch_answer(message: FetchResponse) -> FetchAnswer:
    _check(message.error_code)
    found = only(only(message.responses).partitions)
    diverging, snapshot = found.diverging_epoch, found.snapshot_id
    return FetchAnswer(
        error=ErrorCode(found.error_code),
        leader_id=_read(found.current_leader.leader_id),
        epoch=found.current_leader.leader_epoch,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        records=found.records or b"",
        diverging=None if diverging.epoch < 0 else EpochEnd(diverging.epoch, diverging.end_offset),
        snapshot=None if snapshot.end_offset < 0 else SnapshotId(snapshot.end_offset, snapshot.epoch),
        number=max(message.session_id, 0),
    )


def write_fetch_snapshot_answer(answer: FetchSnapshotAnswer, log: LogName = METADATA_LOG) -> FetchSnapshotResponse:
    snapshot = snapshot_messages.FetchSnapshotResponseSnapshotId(
        end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch
    )
    leader = snapshot_messages.LeaderIdAndEpoch(leader_id=_written(answer.leader_id), leader_epoch=answer.epoch)
    partition = snapshot_messages.FetchSnapshotResponsePartitionSnapshot(
        index=log.partition,
        error_code=answer.error,
        snapshot_id=snapshot,
        current_leader=leader,
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.piece,
    )
    topic = snapshot_messages.FetchSnapshotResponseTopicSnapshot(name=log.topic, partitions=[partition])
    return FetchSnapshotResponse(topics=[topic])


def read_fetch_snapshot_answer(message: FetchSnapshotResponse) -> FetchSnapshotAnswer:
    _check(message.error_code)
    found = only(only(message.topics).partitions)
    return FetchSnapshotAnswer(
        error=ErrorCode(found.error_code),
        leader_id=_read(found.current_leader.leader_id),
        epoch=found.current_leader.leader_epoch,
        snapshot=SnapshotId(found.snapshot_id.end_offset, found.snapshot_id.epoch),
        size=found.size,
        position=found.position,
        piece=found.unaligned_records or b"",
    )


def write_add_voter_answer(answer: VoterChangeAnswer) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=answer.error, error_message=answer.message)


def write_remove_voter_answer(answer: VoterChangeAnswer) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.message)


def read_voter_change_answer(message: AddRaftVoterResponse | RemoveRaftVoterResponse) -> VoterChangeAnswer:
    return VoterChangeAnswer(ErrorCode(message.error_code), message.error_message)


def write_update_voter_answer(answer: EpochAnswer) -> UpdateRaftVoterResponse:
    """The node adds where the leader listens."""
    leader = update_raft_voter.CurrentLeader(leader_id=_written(answer.leader_id), leader_epoch=answer.epoch)
    return UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader)


def read_update_voter_answer(message: UpdateRaftVoterResponse) -> EpochAnswer:
    leader = message.current_leader
    return EpochAnswer(ErrorCode(message.error_code), _read(leader.leader_id), leader.leader_epoch)


def write_description(description: QuorumDescription) -> DescribeQuorumResponse:
    partition = describe_quorum.DescribeQuorumResponsePartitionData(
        partition_index=METADATA_LOG.partition,
        leader_id=description.leader_id,
        leader_epoch=description.epoch,
        high_watermark=description.high_watermark,
        current_voters=[_described(voter) for voter in description.voters],
        observers=[_described(observer) for observer in description.observers],
    )
    nodes = [
        describe_quorum.Node(
            node_id=voter.key.id,
            listeners=[describe_quorum.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
        )
        for voter in description.quorum.voters
    ]
    topic = describe_quorum.DescribeQuorumResponseTopicData(topic_name=METADATA_LOG.topic, partitions=[partition])
    return DescribeQuorumResponse(topics=[topic], nodes=nodes)


def _described(replica: ReplicaDescription) -> describe_quorum.ReplicaState:
    return describe_quorum.ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _check(code: int) -> None:
    if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "it belongs to a cluster with another cluster.id")
    if code:
        raise KafkaError(ErrorCode(code), "the whole request was refused")


def _written(leader_id: int | None) -> int:
    return UNKNOWN if leader_id is None else leader_id


def _read(leader_id: int) -> int | None:
    return None if leader_id < 0 else leader_id
