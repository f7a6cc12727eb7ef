"""What DescribeQuorum tells about the quorum."""

from penstock.protocol.value import Value
from penstock.raft.leader import Leader
from penstock.raft.progress import Progress
from penstock.raft.voters import Quorum, ReplicaKey

UNKNOWN = -1


class ReplicaDescription(Value):
    """-1 is what the leader does not know."""

    key: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumDescription(Value):
    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    quorum: Quorum


def describe(leader: Leader, now_ms: int) -> QuorumDescription:
    replica = leader.replica
    voters = []
    for voter in replica.quorum.voters:
        if voter.key.names(replica.me):
            voters.append(ReplicaDescription(voter.key, replica.log.end_offset, now_ms, now_ms))
        else:
            voters.append(_described(voter.key, leader.replicas.find(voter.key)))
    observers = tuple(_described(seen.key, seen) for seen in leader.replicas.observers(replica.quorum))
    high_watermark = UNKNOWN if replica.high_watermark <= leader.epoch_start_offset else replica.high_watermark
    return QuorumDescription(replica.me.id, replica.epoch, high_watermark, tuple(voters), observers, replica.quorum)


def _described(key: ReplicaKey, progress: Progress | None) -> ReplicaDescription:
    if progress is None:
        return ReplicaDescription(key, UNKNOWN, UNKNOWN, UNKNOWN)
    return ReplicaDescription(key, progress.end_offset, progress.fetched_ms, progress.caught_up_ms)
