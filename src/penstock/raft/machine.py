"""The consensus core: a method per event, which returns what the node has to do, in order.

    raft = Raft(local, quorum, settings, log, snapshots, random, election_state)
    effects = raft.start(now_ms)
    effects = raft.received(request, token, now_ms)

Requests come with a token, which comes back in the `Reply`. Answers come with the request object that was sent, so that
late ones are known. `tick` is due at `deadline_ms`. What an event means depends on the role that the replica is in:

| from                           | to          | cause                                                               |
| ------------------------------ | ----------- | ------------------------------------------------------------------- |
| (start)                        | Resigned    | it led when it stopped: no voter may believe that it does            |
| (start)                        | Voted       | it had voted, perhaps for itself; the winner is unknown             |
| (start)                        | Follower    | it knew the leader                                                  |
| (start)                        | Unattached  | it knew nothing of the kind                                         |
| (start)                        | Observer    | it is not a voter                                                   |
| Unattached, Voted              | Prospective | election time-out: no leader was heard of                           |
| Unattached                     | Prospective | asked to, before the first epoch (`Raft.stand_first`)               |
| Follower                       | Prospective | fetch time-out, or EndQuorumEpoch and this voter's turn has come    |
| Prospective                    | Candidate   | a majority would vote for it (pre-vote, KIP-996); epoch + 1         |
| Prospective                    | Follower    | refused or timed out, and a leader of this epoch is known           |
| Prospective                    | Unattached  | refused or timed out, and none is known                             |
| Follower                       | Candidate   | it has applied that it leads next, and may vote (`Raft.handed_over`) |
| Candidate                      | Leader      | a majority voted for it                                             |
| Candidate                      | Prospective | election time-out, or refused and backed off                        |
| Unattached, Prospective        | Voted       | it voted for another in this epoch                                  |
| any                            | Unattached  | it heard of a newer epoch, but not of its leader                    |
| any but Leader, Resigned       | Follower    | it heard who leads this epoch                                       |
| any                            | Follower    | it heard who leads a newer epoch                                    |
| Leader                         | Resigned    | asked to; heard no majority for too long; is committed to be no voter |
| Leader                         | Prospective | it has handed over, and no voter took it                            |
| Resigned                       | Unattached  | election time-out; epoch + 1, for in its own none can be elected    |
| Unattached, Voted, Follower, Resigned | Observer | as above, but it is not a voter                                 |
| Observer                       | Follower    | the log names it as a voter                                         |
| Follower                       | Observer    | its removal is committed, or cut from the log was what made it one  |

Not part of the core: where a node listens, how long a request may be on its way (an unanswered one is repeated after
`request_timeout_ms` anyway), and gathering small appends (`controller.quorum.append.linger.ms`).
"""

import math
from collections.abc import Sequence

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.campaign import Candidate, Prospective, Unattached, Voted
from penstock.raft.describe import QuorumDescription, describe
from penstock.raft.effects import Announce, Effect, ElectionState, Reply, Token
from penstock.raft.fetching import Fetching
from penstock.raft.follower import Follower, Observer
from penstock.raft.leader import Leader
from penstock.raft.ports import Log, Random, SnapshotId, Snapshots
from penstock.raft.replica import Replica
from penstock.raft.requests import (
    Answer,
    AskVersionsAnswer,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    PeerRequest,
    Request,
    Vote,
    VoteAnswer,
    VoterChangeAnswer,
)
from penstock.raft.resigned import Resigned
from penstock.raft.role import Role
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter


class Raft:
    """One replica of the metadata log, voter or observer."""

    __slots__ = ("replica", "role")

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
        self.role = Role(self)

    @property
    def epoch(self) -> int:
        """The newest epoch that it has heard of."""
        return self.replica.epoch

    @property
    def leader_id(self) -> int | None:
        """None if not known, or if it leads no longer."""
        leader_id = self.replica.state.leader_id
        return None if leader_id == self.replica.me.id and not isinstance(self.role, Leader) else leader_id

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of the log says."""
        return self.replica.quorum

    @property
    def deadline_ms(self) -> int:
        return self.role.deadline_ms

    def holds_lease(self, now_ms: int) -> bool:
        """Whether its committed records are what a linearizable read sees. Always false without `settings.leases`."""
        return isinstance(self.role, Leader) and self.role.holds_lease(now_ms)

    @property
    def lease_until_ms(self) -> float:
        """When its lease ends if it is not renewed."""
        return self.role.lease_until_ms if isinstance(self.role, Leader) else -math.inf

    def describe(self, now_ms: int) -> QuorumDescription:
        """Raises KafkaError NOT_LEADER_OR_FOLLOWER."""
        if not isinstance(self.role, Leader):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "only the leader of the quorum can describe it")
        return describe(self.role, now_ms)

    # Events of the node itself.

    def start(self, now_ms: int) -> list[Effect]:
        """Raises InconsistentLogError."""
        replica = self.replica
        replica.recover()
        replica.recover_promise(now_ms)
        if replica.state.leader_id == replica.me.id:
            self._take(Resigned(self, (), now_ms), now_ms)
        else:
            # A vote for itself is not taken up again: it spoke for a log whose end may not have reached the disk.
            self.stand_by(now_ms)
        replica.out.append(Announce(self.leader_id, self.epoch))
        if replica.quorum.ids == [replica.me.id] and replica.is_voter and replica.promise.is_over(now_ms):
            self.become_prospective(now_ms)  # no other voter can win
        return self._effects()

    def tick(self, now_ms: int) -> list[Effect]:
        self.role.tick(now_ms)
        return self._effects()

    def resign(self, now_ms: int, successor_id: int | None = None) -> list[Effect]:
        """`successor_id` is asked to stand first; whether it wins is for the voters to say."""
        self.role.resign(now_ms, successor_id)
        return self._effects()

    def stand_first(self, now_ms: int) -> list[Effect]:
        """Stand at once: no epoch has begun yet, so there is no leader to wait for. The other voters wait as usual."""
        if not self.epoch and self.replica.is_voter:
            self.become_prospective(now_ms)
        return self._effects()

    def look_around(self) -> list[Effect]:
        """Ask who leads, if there was an epoch: a voter may have won it, and leaders remind voters only seldom."""
        if self.epoch and isinstance(self.role, Unattached):
            self.role.look_around()
        return self._effects()

    # The application may say in a record who leads next; the voters elect, as ever.

    def lay_down(self, epoch: int, ends_in_ms: int | None, now_ms: int) -> list[Effect]:
        """This lease is not renewed, and ends in so many milliseconds; None: by itself.

        Called before that record is appended, the last of this leader: the successor must have all.
        """
        if epoch == self.epoch:
            self.role.lay_down(ends_in_ms, now_ms)
        return self._effects()

    def handed_over(self, epoch: int, successor_id: int, ends_in_ms: int | None, now_ms: int) -> list[Effect]:
        """The record is applied: the successor stands once it may vote; what was promised ends in `ends_in_ms`."""
        if epoch == self.epoch:
            if ends_in_ms is not None:
                self.replica.promise.ends_by(now_ms + ends_in_ms)
            self.role.handed_over(successor_id, now_ms)
        return self._effects()

    def take_back(self, epoch: int, now_ms: int) -> list[Effect]:
        """No other voter leads instead of this replica, which has laid down its lease: it stands again."""
        if epoch == self.epoch:
            self.role.take_back(now_ms)
        return self._effects()

    def append(self, batches: bytearray, epoch: int, now_ms: int) -> list[Effect]:
        """Append record batches, which are given their offsets in place, from the end offset of the log on.

        They are committed when a `Commit` passes them; if `Announce` tells of another epoch before, their fate is
        unknown. Raises KafkaError NOT_LEADER_OR_FOLLOWER if this replica does not lead `epoch`, and DecodeError.
        """
        self._leading(epoch).append(batches, now_ms)
        return self._effects()

    def upgrade(self, kraft_version: int, epoch: int, now_ms: int, validate_only: bool = False) -> list[Effect]:
        """Append the level, and the voters as they have told this leader. See `append`.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER, and INVALID_UPDATE_VERSION, which says why that cannot be.
        """
        self._leading(epoch).changes.upgrade(kraft_version, now_ms, validate_only=validate_only)
        return self._effects()

    def _leading(self, epoch: int) -> Leader:
        if not isinstance(self.role, Leader) or epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead epoch {epoch}")
        return self.role

    def flush_begins(self) -> None:
        """The `Flush` begins only now: it covers what was appended meanwhile."""
        self.replica.flush_begins()

    def flushed(self, now_ms: int) -> list[Effect]:
        self.replica.flushed()
        self.role.flushed(now_ms)
        return self._effects()

    # Snapshots.

    @property
    def examining(self) -> SnapshotId | None:
        """The snapshot of the `Examine` that counts; None if another role or leader has made it void."""
        return self.role.examining

    def examined(self, snapshot: SnapshotId, now_ms: int) -> list[Effect]:
        self.role.examined(snapshot, now_ms)
        return self._effects()

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        """The name of a snapshot of the committed records before `end_offset`."""
        assert self.replica.log.start_offset <= end_offset <= self.high_watermark, "snapshots hold what is committed"
        return SnapshotId(end_offset, self.replica.log.epoch_at(end_offset - 1))

    def quorum_at(self, end_offset: int) -> Quorum:
        """The voters that a snapshot up to `end_offset` must name (see `control.snapshot_header_records`)."""
        return self.replica.voters.at(end_offset)

    def forget_log_behind(self, snapshot: SnapshotId) -> None:
        """The records that a whole snapshot holds may go. Replicas that still need them take the latest snapshot."""
        self.replica.forget_log_behind(snapshot)

    # Requests and answers.

    def received(self, request: Request, token: Token, now_ms: int) -> list[Effect]:
        match request:
            case Vote():
                answer: Answer = self._vote(request, now_ms)
            case BeginEpoch():
                answer = self._begin_epoch(request, now_ms)
            case EndEpoch():
                answer = self._end_epoch(request, now_ms)
            case _:
                self.role.asked(request, token, now_ms)
                return self._effects()
        self.replica.out.append(Reply(token, answer))
        return self._effects()

    def answered(
        self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int
    ) -> list[Effect]:
        """`request` is the very object that was sent. Raises InconsistentLogError if the leader's log lacks what is
        committed.
        """
        if not isinstance(answer, AskVersionsAnswer | VoterChangeAnswer):
            self.learn(answer.leader_id, answer.epoch, now_ms)
        self.role.answered(sender, request, answer, now_ms)
        return self._effects()

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> list[Effect]:
        self.role.request_failed(to, request, now_ms)
        return self._effects()

    def _effects(self) -> list[Effect]:
        effects, self.replica.out = self.replica.out, []
        return effects

    # Elections, which are the same in every role.

    def _vote(self, request: Vote, now_ms: int) -> VoteAnswer:
        error = self._vote_error(request)
        if error is not ErrorCode.NONE:
            return VoteAnswer(error, self.leader_id, self.epoch)
        if not self.replica.promise.is_over(now_ms):
            # It does not even learn the epoch, which would keep it from fetching from the leader that it hears.
            return VoteAnswer(ErrorCode.NONE, self.leader_id, self.epoch)
        self.learn(None, request.epoch, now_ms)
        log = self.replica.log
        good_enough = (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)
        if request.pre_vote:
            granted = good_enough and self.role.grants_pre_vote(now_ms)
        else:
            granted = self._grant(request.candidate, good_enough, now_ms)
        return VoteAnswer(ErrorCode.NONE, self.leader_id, self.epoch, granted)

    def _vote_error(self, request: Vote) -> ErrorCode:
        if not request.voter.names(self.replica.me):
            return ErrorCode.INVALID_VOTER_KEY
        if request.epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        newest = request.epoch if request.pre_vote else request.epoch - 1
        if request.end_offset < 0 or not 0 <= request.last_epoch <= newest:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _grant(self, candidate: ReplicaKey, good_enough: bool, now_ms: int) -> bool:
        """One vote per epoch, first come first served; also from an observer, whose log may lag behind its election."""
        state = self.replica.state
        if state.voted is not None:
            return state.voted.names(candidate)
        if state.leader_id is not None or not good_enough:
            return False
        self.replica.remember(state.epoch, None, candidate)
        self.stand_by(now_ms)
        return True

    def _begin_epoch(self, request: BeginEpoch, now_ms: int) -> EpochAnswer:
        error = ErrorCode.NONE
        if not request.voter.names(self.replica.me):
            error = ErrorCode.INVALID_VOTER_KEY
        elif request.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            self.learn(request.leader_id, request.epoch, now_ms)
        return EpochAnswer(error, self.leader_id, self.epoch)

    def _end_epoch(self, request: EndEpoch, now_ms: int) -> EpochAnswer:
        error = ErrorCode.NONE
        if request.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            self.learn(request.leader_id, request.epoch, now_ms)
            self.role.leader_ended(request, now_ms)
        return EpochAnswer(error, self.leader_id, self.epoch)

    # From one role to the next, as `role.Roles` says.

    def learn(self, leader_id: int | None, epoch: int, now_ms: int) -> None:
        state = self.replica.state
        if leader_id == self.replica.me.id or (leader_id is not None and leader_id < 0):
            leader_id = None  # if it led, it would know
        if epoch > state.epoch:
            self.replica.remember(epoch, leader_id, None)
            self.stand_by(now_ms)
        elif epoch == state.epoch and leader_id is not None and state.leader_id is None:
            self.replica.remember(epoch, leader_id, state.voted)
            self.stand_by(now_ms)

    def become_prospective(self, now_ms: int) -> None:
        assert self.replica.may_stand, "only voters stand"
        self._take(Prospective(self, now_ms), now_ms)

    def become_candidate(self, now_ms: int) -> None:
        assert self.replica.may_stand, "only voters stand"
        assert self.replica.promise.is_over(now_ms), "who hears a leader does not stand"
        self.replica.remember(self.epoch + 1, None, self.replica.me)
        self._take(Candidate(self, now_ms), now_ms)

    def become_leader(self, granting: Sequence[ReplicaKey], now_ms: int) -> None:
        me = self.replica.me
        assert self.replica.state.voted == me, "a leader has voted for itself"
        self.replica.remember(self.epoch, me.id, me)
        self._take(Leader(self, granting, now_ms), now_ms)

    def become_resigned(self, successors: Sequence[ReplicaKey], now_ms: int) -> None:
        self._take(Resigned(self, successors, now_ms), now_ms)
        self.replica.out.append(Announce(None, self.epoch))

    def begin_next_epoch(self, now_ms: int) -> None:
        if self.replica.may_stand:
            self.replica.remember(self.epoch + 1, None, None)
        self.stand_by(now_ms)

    def stand_by(self, now_ms: int, fetching: Fetching | None = None) -> None:
        replica, state = self.replica, self.replica.state
        leader_id = None if state.leader_id == replica.me.id else state.leader_id
        role: Role
        if not replica.may_stand:
            role = Observer(self, leader_id, fetching or Fetching(replica, now_ms))
        elif leader_id is not None:
            role = Follower(self, leader_id, fetching or Fetching(replica, now_ms))
        else:
            role = Unattached(self, now_ms) if state.voted is None else Voted(self, now_ms)
        self._take(role, now_ms)

    def _take(self, role: Role, now_ms: int) -> None:
        left, self.role = self.role, role
        left.leave()
        role.enter(now_ms)
