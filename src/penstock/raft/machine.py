"""The consensus core: a method per event, which returns what the node has to do, in order.

    raft = Raft(local, quorum, settings, log, snapshots, random, election_state)
    effects = raft.start(now_ms)
    effects = raft.fetch_received(request, token, now_ms)

Requests come with a token, which comes back in the `Reply`. Answers come with the request object that was sent, so that
late ones are known. `tick` is due at `deadline_ms`. What an event means depends on the role that the replica is in; the
roles and what leads from one to the next are listed in `replica`.

Not part of the core: where a node listens, how long a request may be on its way (an unanswered one is repeated after
`request_timeout_ms` anyway), and gathering small appends (`controller.quorum.append.linger.ms`).
"""

from typing import Any, Final

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.describe import QuorumDescription, describe
from penstock.raft.effects import Effect, ElectionState, Reply, Token
from penstock.raft.leader import Leader
from penstock.raft.ports import Log, Random, SnapshotId, Snapshots
from penstock.raft.replica import Replica
from penstock.raft.requests import (
    AddVoter,
    Answer,
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
)
from penstock.raft.role import Role
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, Voter


class Raft:
    """One replica of the metadata log, voter or observer."""

    __slots__ = ("replica",)

    def __init__(
        self,
        local: Voter,
        configured: Quorum,
        settings: RaftSettings,
        log: Log,
        snapshots: Snapshots,
        random: Random,
        state: ElectionState,
    ) -> None:
        self.replica = Replica(local, configured, settings, log, snapshots, random, state)

    # Looking at it.

    @property
    def role(self) -> Role:
        """The role it is in: look at its type or its `name`."""
        return self.replica.role

    @property
    def epoch(self) -> int:
        """The newest epoch it has heard of."""
        return self.replica.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads, if that is known."""
        return self.replica.leader_id

    @property
    def high_watermark(self) -> int:
        """All records before this offset are committed."""
        return self.replica.high_watermark

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of the log says."""
        return self.replica.quorum

    @property
    def deadline_ms(self) -> int:
        """When `tick` is due."""
        return self.replica.role.deadline_ms

    def describe(self, now_ms: int) -> QuorumDescription:
        """What DescribeQuorum tells. Raises KafkaError NOT_LEADER_OR_FOLLOWER."""
        return describe(self.replica, now_ms)

    # Life.

    def start(self, now_ms: int) -> list[Effect]:
        """The node starts: first event of all."""
        self.replica.start(now_ms)
        return self._take()

    def tick(self, now_ms: int) -> list[Effect]:
        """Time went by."""
        self.replica.role.tick(now_ms)
        return self._take()

    def resign(self, now_ms: int, successor_id: int | None = None) -> list[Effect]:
        """Lead no longer: the node is going to stop, or somebody wants another leader (C18).

        `successor_id` is asked to stand first (C19); whether it wins is for the voters to say.
        """
        self.replica.role.resign(now_ms, successor_id)
        return self._take()

    # The log.

    def append(self, batches: bytearray, epoch: int, now_ms: int) -> list[Effect]:
        """Append record batches, which are given their offsets in place, from the end offset of the log on.

        They are committed when a `Commit` passes them, and lost if `Announce` tells of another epoch before: then
        nobody knows. Raises KafkaError NOT_LEADER_OR_FOLLOWER if this replica does not lead `epoch`, and DecodeError.
        """
        role = self.replica.role
        if not isinstance(role, Leader) or epoch != self.replica.epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead epoch {epoch}")
        role.append(batches, now_ms)
        return self._take()

    def flush_begins(self) -> None:
        """The `Flush` begins only now: it covers what was appended meanwhile."""
        self.replica.flush_begins()

    def flushed(self, now_ms: int) -> list[Effect]:
        """The `Flush` is done."""
        self.replica.flushed(now_ms)
        return self._take()

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        """What a snapshot of the committed records before `end_offset` is called."""
        assert self.replica.log.start_offset <= end_offset <= self.replica.high_watermark, "snapshots hold what is so"
        return SnapshotId(end_offset, self.replica.log.epoch_at(end_offset - 1))

    def quorum_at(self, end_offset: int) -> Quorum:
        """The voters that a snapshot up to `end_offset` must name (see `control.snapshot_header_records`)."""
        return self.replica.voters.at(end_offset)

    def forget_log_behind(self, snapshot: SnapshotId) -> None:
        """The records that a whole snapshot holds may go. Replicas that still need them take the latest snapshot."""
        assert self.replica.snapshots.size(snapshot) is not None, "only a whole snapshot stands for the log"
        if snapshot.end_offset > self.replica.log.start_offset:
            self.replica.log.start_behind(snapshot)
            self.replica.voters.forget_before(snapshot.end_offset)

    # Requests of peers.

    def vote_received(self, request: Vote, token: Token, now_ms: int) -> list[Effect]:
        """Somebody wants to lead, or wants to know whether it could."""
        self.replica.vote_received(request, token, now_ms)
        return self._take()

    def begin_epoch_received(self, request: BeginEpoch, token: Token, now_ms: int) -> list[Effect]:
        """Somebody leads."""
        replica = self.replica
        error = ErrorCode.NONE
        if not request.voter.fits(replica.me):
            error = ErrorCode.INVALID_VOTER_KEY
        elif request.epoch < replica.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            replica.learn(request.leader_id, request.epoch, now_ms)
        replica.out.append(Reply(token, BeginEpochAnswer(error, replica.leader_id, replica.epoch)))
        return self._take()

    def end_epoch_received(self, request: EndEpoch, token: Token, now_ms: int) -> list[Effect]:
        """Somebody leads no longer."""
        replica = self.replica
        error = ErrorCode.NONE
        if request.epoch < replica.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            replica.learn(request.leader_id, request.epoch, now_ms)
            replica.role.leader_ended(request, now_ms)
        replica.out.append(Reply(token, EndEpochAnswer(error, replica.leader_id, replica.epoch)))
        return self._take()

    def fetch_received(self, request: Fetch, token: Token, now_ms: int) -> list[Effect]:
        """A replica wants records."""
        self.replica.role.fetch_received(request, token, now_ms)
        return self._take()

    def fetch_snapshot_received(self, request: FetchSnapshot, token: Token, now_ms: int) -> list[Effect]:
        """A replica wants a piece of a snapshot."""
        self.replica.role.fetch_snapshot_received(request, token, now_ms)
        return self._take()

    def add_voter_received(self, request: AddVoter, token: Token, now_ms: int) -> list[Effect]:
        """An administrator wants one more voter."""
        self.replica.role.add_voter_received(request, token, now_ms)
        return self._take()

    def remove_voter_received(self, request: RemoveVoter, token: Token, now_ms: int) -> list[Effect]:
        """An administrator wants a voter gone."""
        self.replica.role.remove_voter_received(request, token, now_ms)
        return self._take()

    def update_voter_received(self, request: UpdateVoter, token: Token, now_ms: int) -> list[Effect]:
        """A voter has something new to say about itself."""
        self.replica.role.update_voter_received(request, token, now_ms)
        return self._take()

    # Answers of peers. `request` is the object that was sent.

    def vote_answered(self, sender: int, request: Vote, answer: VoteAnswer, now_ms: int) -> list[Effect]:
        """A voter said yes or no."""
        self.replica.role.vote_answered(sender, request, answer, now_ms)
        return self._take()

    def begin_epoch_answered(
        self, sender: int, request: BeginEpoch, answer: BeginEpochAnswer, now_ms: int
    ) -> list[Effect]:
        """A voter knows who leads."""
        self.replica.role.begin_epoch_answered(sender, request, answer, now_ms)
        return self._take()

    def end_epoch_answered(self, sender: int, request: EndEpoch, answer: EndEpochAnswer, now_ms: int) -> list[Effect]:
        """A voter knows that the epoch is over."""
        self.replica.role.end_epoch_answered(sender, request, answer, now_ms)
        return self._take()

    def fetch_answered(self, sender: int, request: Fetch, answer: FetchAnswer, now_ms: int) -> list[Effect]:
        """Records came, or none. Raises InconsistentLogError if the leader's log lacks what is committed."""
        self.replica.role.fetch_answered(sender, request, answer, now_ms)
        return self._take()

    def fetch_snapshot_answered(
        self, sender: int, request: FetchSnapshot, answer: FetchSnapshotAnswer, now_ms: int
    ) -> list[Effect]:
        """A piece of a snapshot came, or none. Raises InconsistentLogError as above."""
        self.replica.role.fetch_snapshot_answered(sender, request, answer, now_ms)
        return self._take()

    def update_voter_answered(
        self, sender: int, request: UpdateVoter, answer: UpdateVoterAnswer, now_ms: int
    ) -> list[Effect]:
        """The leader has heard what this voter is like."""
        self.replica.role.update_voter_answered(sender, request, answer, now_ms)
        return self._take()

    def versions_answered(
        self, sender: int, request: AskVersions, answer: AskVersionsAnswer, now_ms: int
    ) -> list[Effect]:
        """A replica that is to become a voter said what it understands."""
        self.replica.role.versions_answered(sender, request, answer, now_ms)
        return self._take()

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> list[Effect]:
        """A request got no answer: the connection broke, or could not be made."""
        self.replica.role.request_failed(to, request, now_ms)
        return self._take()

    # Any of them, by its type.

    def received(self, request: PeerRequest | AddVoter | RemoveVoter, token: Token, now_ms: int) -> list[Effect]:
        """A request of a peer, or of an administrator; AskVersions is for the node to answer."""
        effects: list[Effect] = getattr(self, _RECEIVED[type(request)])(request, token, now_ms)
        return effects

    def answered(
        self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int
    ) -> list[Effect]:
        """The answer of a peer. `request` is the object that was sent."""
        effects: list[Effect] = getattr(self, _ANSWERED[type(request)])(sender, request, answer, now_ms)
        return effects

    def _take(self) -> list[Effect]:
        effects, self.replica.out = self.replica.out, []
        return effects


_RECEIVED: Final[dict[type[Any], str]] = {
    Vote: "vote_received",
    BeginEpoch: "begin_epoch_received",
    EndEpoch: "end_epoch_received",
    Fetch: "fetch_received",
    FetchSnapshot: "fetch_snapshot_received",
    UpdateVoter: "update_voter_received",
    AddVoter: "add_voter_received",
    RemoveVoter: "remove_voter_received",
}
_ANSWERED: Final[dict[type[Any], str]] = {
    Vote: "vote_answered",
    BeginEpoch: "begin_epoch_answered",
    EndEpoch: "end_epoch_answered",
    Fetch: "fetch_answered",
    FetchSnapshot: "fetch_snapshot_answered",
    UpdateVoter: "update_voter_answered",
    AskVersions: "versions_answered",
}
