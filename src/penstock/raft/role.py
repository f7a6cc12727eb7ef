"""What a replica is to its quorum right now. A role lives in exactly one epoch; what comes after it is a new object.

Here stands what every role does if it knows nothing better: learn of newer epochs, and send those who look for a leader
on to the one it knows.
"""

from typing import TYPE_CHECKING, ClassVar

from penstock.protocol.errors import ErrorCode
from penstock.raft.effects import Reply, Token
from penstock.raft.requests import (
    AddVoter,
    AskVersions,
    AskVersionsAnswer,
    BeginEpoch,
    BeginEpochAnswer,
    EndEpoch,
    EndEpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    PeerRequest,
    RemoveVoter,
    UpdateVoter,
    UpdateVoterAnswer,
    Vote,
    VoteAnswer,
    VoterChangeAnswer,
)
from penstock.raft.settings import NEVER

if TYPE_CHECKING:
    from penstock.raft.replica import Replica


class Role:
    """The defaults; `deadline_ms` is when `tick` wants to be called next."""

    __slots__ = ("replica",)
    name: ClassVar[str] = "Role"

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica

    @property
    def deadline_ms(self) -> int:
        """When this role wants to act by itself."""
        return NEVER

    def tick(self, now_ms: int) -> None:
        """Time went by."""

    def enter(self, now_ms: int) -> None:
        """The replica has just taken this role."""

    def leave(self) -> None:
        """The replica takes another role now; the state is that of the new one already."""

    def grants_pre_vote(self) -> bool:
        """Whether a candidate whose log is good enough has a chance here: not while a leader is heard (KIP-996)."""
        return True

    def leader_ended(self, request: EndEpoch, now_ms: int) -> None:
        """The leader of this epoch lays down its office."""

    def resign(self, now_ms: int, successor_id: int | None = None) -> None:
        """The node is asked to lead no longer; `successor_id` should stand before all others."""

    def flushed(self, now_ms: int) -> None:
        """The log is on the disk up to `replica.flushed_offset`."""

    def quorum_changed(self, now_ms: int) -> None:
        """The log names other voters."""

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        """A request got no answer."""

    # Requests that only a leader can answer.

    def refusal(self, epoch: int) -> ErrorCode:
        """Why a request that was made in `epoch` to its leader is not answered by this replica."""
        if epoch < self.replica.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.replica.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetch_received(self, request: Fetch, token: Token, now_ms: int) -> None:
        """A replica wants records."""
        replica = self.replica
        answer = FetchAnswer(self.refusal(request.epoch), replica.leader_id, replica.epoch)
        replica.out.append(Reply(token, answer))

    def fetch_snapshot_received(self, request: FetchSnapshot, token: Token, now_ms: int) -> None:
        """A replica wants a piece of a snapshot."""
        replica = self.replica
        error = self.refusal(request.epoch)
        replica.out.append(Reply(token, FetchSnapshotAnswer(error, replica.leader_id, replica.epoch, request.snapshot)))

    def update_voter_received(self, request: UpdateVoter, token: Token, now_ms: int) -> None:
        """A voter has something new to say about itself."""
        replica = self.replica
        error = self.refusal(request.epoch)
        replica.out.append(Reply(token, UpdateVoterAnswer(error, replica.leader_id, replica.epoch)))

    def add_voter_received(self, request: AddVoter, token: Token, now_ms: int) -> None:
        """An administrator wants one more voter."""
        self._refuse_change(token)

    def remove_voter_received(self, request: RemoveVoter, token: Token, now_ms: int) -> None:
        """An administrator wants a voter gone."""
        self._refuse_change(token)

    def _refuse_change(self, token: Token) -> None:
        leader = self.replica.leader_id
        text = "nobody is known to lead the quorum" if leader is None else f"node {leader} leads the quorum"
        self.replica.out.append(Reply(token, VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)))

    # Answers to what was asked in this or an earlier role: there may be a newer leader in them.

    def vote_answered(self, sender: int, request: Vote, answer: VoteAnswer, now_ms: int) -> None:
        """A voter said yes or no."""
        self.replica.learn(answer.leader_id, answer.epoch, now_ms)

    def begin_epoch_answered(self, sender: int, request: BeginEpoch, answer: BeginEpochAnswer, now_ms: int) -> None:
        """A voter knows that this replica leads, or better."""
        self.replica.learn(answer.leader_id, answer.epoch, now_ms)

    def end_epoch_answered(self, sender: int, request: EndEpoch, answer: EndEpochAnswer, now_ms: int) -> None:
        """A voter knows that this replica leads no longer."""
        self.replica.learn(answer.leader_id, answer.epoch, now_ms)

    def fetch_answered(self, sender: int, request: Fetch, answer: FetchAnswer, now_ms: int) -> None:
        """Records came, or none."""
        self.replica.learn(answer.leader_id, answer.epoch, now_ms)

    def fetch_snapshot_answered(
        self, sender: int, request: FetchSnapshot, answer: FetchSnapshotAnswer, now_ms: int
    ) -> None:
        """A piece of a snapshot came, or none."""
        self.replica.learn(answer.leader_id, answer.epoch, now_ms)

    def update_voter_answered(self, sender: int, request: UpdateVoter, answer: UpdateVoterAnswer, now_ms: int) -> None:
        """The leader knows what this voter is like."""
        self.replica.learn(answer.leader_id, answer.epoch, now_ms)

    def versions_answered(self, sender: int, request: AskVersions, answer: AskVersionsAnswer, now_ms: int) -> None:
        """A replica that is to become a voter said what it understands."""
