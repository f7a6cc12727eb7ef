"""What a replica is to its quorum right now. A role lives in exactly one epoch; what comes after it is a new object.

`Role` holds what every role does if it knows nothing better, which is little: it refuses what only a leader can do, and
is not interested in answers. `Roles` is how a role reads and ends itself: all changes of role are in `machine`.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from penstock.protocol.errors import ErrorCode
from penstock.raft.effects import Reply, Send, Token
from penstock.raft.fetching import Fetching
from penstock.raft.ports import SnapshotId
from penstock.raft.replica import Replica
from penstock.raft.requests import (
    AddVoter,
    Answer,
    AskVersionsAnswer,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    LeaderRequest,
    PeerRequest,
    RemoveVoter,
    VoterChangeAnswer,
)
from penstock.raft.settings import NEVER
from penstock.raft.voters import ReplicaKey


class Roles(Protocol):
    replica: Replica
    role: "Role"

    @property
    def leader_id(self) -> int | None:
        """None if not known, or if it leads no longer."""

    def learn(self, leader_id: int | None, epoch: int, now_ms: int) -> None:
        """A peer says that `leader_id` leads `epoch`, or that it knows no leader."""

    def become_prospective(self, now_ms: int) -> None: ...

    def become_candidate(self, now_ms: int) -> None: ...

    def become_leader(self, granting: Sequence[ReplicaKey], now_ms: int) -> None:
        """Those in `granting` have elected this replica."""

    def become_resigned(self, successors: Sequence[ReplicaKey], now_ms: int) -> None:
        """Tell the voters which of them should stand first."""

    def stand_by(self, now_ms: int, fetching: Fetching | None = None) -> None:
        """Follow the leader or wait for one, as an observer without a vote; `fetching` goes on if given."""

    def begin_next_epoch(self, now_ms: int) -> None:
        """This replica led the epoch and does so no longer: no voter can be elected in it."""


class Role:
    """What roles do unless they know better."""

    __slots__ = ("replica", "roles")
    name: ClassVar[str] = "Role"

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.replica = roles.replica

    @property
    def deadline_ms(self) -> int:
        """When `tick` is due."""
        return NEVER

    def tick(self, now_ms: int) -> None: ...

    def enter(self, now_ms: int) -> None: ...

    def leave(self) -> None:
        """The replica takes another role now; the state is that of the new one already."""

    def grants_pre_vote(self, now_ms: int) -> bool:
        """Whether a candidate whose log is good enough has a chance here: not while a leader is heard (KIP-996)."""
        return True

    def leader_ended(self, request: EndEpoch, now_ms: int) -> None: ...

    def resign(self, now_ms: int, successor_id: int | None = None) -> None:
        """`successor_id` should stand before all others."""

    def lay_down(self, ends_in_ms: int | None, now_ms: int) -> None:
        """The node is about to say that another voter leads next."""

    def handed_over(self, successor_id: int, now_ms: int) -> None:
        """It is committed, and applied here, that this voter leads next."""

    def take_back(self, now_ms: int) -> None:
        """The voter that was to lead next does not: this one stands again."""

    def flushed(self, now_ms: int) -> None:
        """The log is on the disk up to `replica.flushed_offset`."""

    @property
    def examining(self) -> SnapshotId | None:
        """The snapshot that was fetched and is not known to be readable yet."""
        return None

    def examined(self, snapshot: SnapshotId, now_ms: int) -> None: ...

    def quorum_changed(self, now_ms: int) -> None:
        """The log names other voters, or more of it is committed."""

    def asked(self, request: LeaderRequest, token: Token, now_ms: int) -> None:
        """Answer what is asked of the leader of an epoch: this replica is not, or not of that epoch."""
        self.reply(token, refusal(request, self.roles.leader_id, self.replica.epoch))

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        """`request` may be of an earlier role; what the answer says of a leader is known already."""

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None: ...

    # For the roles themselves.

    def send(self, to: int, request: PeerRequest) -> None:
        self.replica.out.append(Send(to, request))

    def reply(self, token: Token, answer: Answer) -> None:
        self.replica.out.append(Reply(token, answer))


def refusal(request: LeaderRequest, leader_id: int | None, epoch: int) -> Answer:
    if isinstance(request, AddVoter | RemoveVoter):
        text = "nobody is known to lead the quorum" if leader_id is None else f"node {leader_id} leads the quorum"
        return VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if request.epoch < epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif request.epoch > epoch:
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    if isinstance(request, Fetch):
        return FetchAnswer(error, leader_id, epoch)
    if isinstance(request, FetchSnapshot):
        return FetchSnapshotAnswer(error, leader_id, epoch, request.snapshot)
    return EpochAnswer(error, leader_id, epoch)
