"""What replicas ask and answer each other: Kafka's requests without their wrapping (see `kafka_requests`).

Each answer carries what its sender knows of the leader: that is how knowledge of a new epoch spreads.
"""

from penstock.protocol.errors import ErrorCode
from penstock.protocol.value import Value
from penstock.raft.ports import EpochEnd, SnapshotId
from penstock.raft.voters import Endpoint, ReplicaKey, Voter


class Vote(Value):
    """Will you vote for me? A pre-vote only asks whether you would, and names the epoch that the asker is in."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool = False


class VoteAnswer(Value):
    error: ErrorCode
    leader_id: int | None
    epoch: int
    granted: bool = False


class BeginEpoch(Value):
    """I lead this epoch: fetch from me."""

    epoch: int
    leader_id: int
    voter: ReplicaKey


class EndEpoch(Value):
    """I lead no longer. Those named first have most of my log: they should stand first."""

    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...] = ()


class EpochAnswer(Value):
    """To BeginEpoch, EndEpoch and UpdateVoter."""

    error: ErrorCode
    leader_id: int | None
    epoch: int


class Promise(Value):
    """I have got the answer of this number, and vote for no other voter for so long since then."""

    answer: int
    length_ms: int


class Fetch(Value):
    """My log ends at `offset`, its last record is of `last_epoch`, all of it is on my disk: what comes next?"""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int
    promise: Promise | None = None


class FetchAnswer(Value):
    """Records, or where the logs part, or a snapshot to take first; a promise names the `number` later."""

    error: ErrorCode
    leader_id: int | None
    epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    number: int = 0


class FetchSnapshot(Value):
    epoch: int
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int
    max_bytes: int


class FetchSnapshotAnswer(Value):
    """`size` is that of the whole snapshot."""

    error: ErrorCode
    leader_id: int | None
    epoch: int
    snapshot: SnapshotId
    size: int = 0
    position: int = 0
    piece: bytes = b""


class AddVoter(Value):
    """Make this replica, which has caught up as an observer, a voter."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    ack_when_committed: bool = True
    timeout_ms: int = 30_000


class RemoveVoter(Value):
    key: ReplicaKey


class VoterChangeAnswer(Value):
    error: ErrorCode
    message: str | None = None


class UpdateVoter(Value):
    """I have other endpoints, or understand other levels of `kraft.version`, than the log says."""

    epoch: int
    voter: Voter


class AskVersions(Value):
    """Which levels of `kraft.version` do you understand? Kafka asks with ApiVersions."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


class AskVersionsAnswer(Value):
    error: ErrorCode
    min_kraft_version: int = 0
    max_kraft_version: int = 0


VoterChange = AddVoter | RemoveVoter | UpdateVoter
"""Replicas ask for it themselves, and administrators."""

PeerRequest = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot | VoterChange | AskVersions
"""What a replica asks its peers."""

LeaderRequest = Fetch | FetchSnapshot | VoterChange
"""What only the leader of an epoch can answer."""

Request = Vote | BeginEpoch | EndEpoch | LeaderRequest
"""What peers and administrators may ask. AskVersions is missing: a node answers it without the core."""

Answer = VoteAnswer | EpochAnswer | FetchAnswer | FetchSnapshotAnswer | VoterChangeAnswer
