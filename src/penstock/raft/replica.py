"""One replica of the metadata log: what it knows whatever its role is, and how it comes from one role to the next.

| from                           | to          | cause                                                               |
| ------------------------------ | ----------- | ------------------------------------------------------------------- |
| (start)                        | Resigned    | it led when it stopped: nobody may believe that it still does       |
| (start)                        | Voted       | it had voted, perhaps for itself; who won is not known              |
| (start)                        | Follower    | it knew the leader                                                  |
| (start)                        | Unattached  | it knew nothing of the kind                                         |
| (start)                        | Observer    | it is not a voter                                                   |
| Unattached, Voted              | Prospective | election time-out: no leader was heard of                           |
| Follower                       | Prospective | fetch time-out, or EndQuorumEpoch and this voter's turn has come    |
| Prospective                    | Candidate   | a majority would vote for it (pre-vote, KIP-996); epoch + 1         |
| Prospective                    | Follower    | refused or timed out, and a leader of this epoch is known           |
| Prospective                    | Unattached  | refused or timed out, and none is known                             |
| Candidate                      | Leader      | a majority voted for it                                             |
| Candidate                      | Prospective | election time-out, or refused and backed off                        |
| Unattached, Prospective        | Voted       | it voted for another in this epoch                                  |
| any                            | Unattached  | it heard of a newer epoch, but not of its leader                    |
| any but Leader, Resigned       | Follower    | it heard who leads this epoch                                       |
| any                            | Follower    | it heard who leads a newer epoch                                    |
| Leader                         | Resigned    | asked to; heard no majority for too long; is committed to be no voter |
| Resigned                       | Unattached  | election time-out; epoch + 1, for in its own it can elect nobody    |
| Unattached, Voted, Follower, Resigned | Observer | as above, but it is not a voter                                 |
| Observer                       | Follower    | the log names it as a voter                                         |
| Follower                       | Observer    | its removal is committed, or cut from the log was what made it one  |

The votes and the leader of an epoch are persisted whenever they change, before anything else is done.
"""

from collections.abc import Sequence
from typing import Final

from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.varint import Buffer
from penstock.raft.campaign import Candidate, Prospective, Unattached, Voted
from penstock.raft.control import batches_in, quorums_in
from penstock.raft.effects import Announce, Commit, Effect, ElectionState, Flush, LoadSnapshot, Persist, Reply, Token
from penstock.raft.follower import Fetching, Follower, Observer
from penstock.raft.leader import Leader
from penstock.raft.ports import Log, Random, SnapshotId, Snapshots
from penstock.raft.requests import Vote, VoteAnswer
from penstock.raft.resigned import Resigned
from penstock.raft.role import Role
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter, VoterHistory

READ_BYTES: Final = 1024 * 1024
"""So much is read at a time to find voters. In a snapshot they stand at its beginning, so once is enough."""


STAGGER: Final = 20
"""The voters' patience with a silent leader differs by the fetch time-out divided by this."""


class InconsistentLogError(Exception):
    """A leader wants this replica to forget what is committed: someone lost data, and this node must stop."""


class Replica:
    """State and transitions. Whatever an event asks of the node gathers in `out`."""

    __slots__ = (
        "_flush_covers",
        "flushed_offset",
        "high_watermark",
        "local",
        "log",
        "out",
        "random",
        "role",
        "settings",
        "snapshots",
        "state",
        "voters",
    )

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
        self.local = local
        self.settings = settings
        self.log = log
        self.snapshots = snapshots
        self.random = random
        self.state = state
        self.voters = VoterHistory(configured)
        self.high_watermark = 0
        self.flushed_offset = 0
        self._flush_covers: int | None = None
        self.out: list[Effect] = []
        self.role: Role = Role(self)

    # What it knows.

    @property
    def me(self) -> ReplicaKey:
        """This replica."""
        return self.local.key

    @property
    def epoch(self) -> int:
        """The newest epoch it has heard of."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads this epoch, if that is known and it still does."""
        leader_id = self.state.leader_id
        return None if leader_id == self.me.id and not isinstance(self.role, Leader) else leader_id

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of the log says."""
        return self.voters.latest

    @property
    def is_voter(self) -> bool:
        """Whether this replica's vote counts."""
        return self.quorum.has(self.me)

    @property
    def may_stand(self) -> bool:
        """Whether this replica is a voter, or is not known to be none for good.

        One whose removal is in its log but not known to be committed, say because it has just started, may hold the
        only log that the remaining voters accept: it has to lead once more, though its own vote does not count.
        """
        return self.is_voter or any(quorum.has(self.me) for quorum in self.voters.since(self.high_watermark))

    def election_timeout_ms(self) -> int:
        """Drawn anew each time from [t, 2t), so that two candidates seldom meet twice."""
        timeout_ms = self.settings.election_timeout_ms
        return self.random.randrange(timeout_ms, 2 * timeout_ms)

    @property
    def stagger_ms(self) -> int:
        """By so much each voter is more patient with a silent leader than the one before it."""
        return max(self.settings.fetch_timeout_ms // STAGGER, 1)

    def patience_ms(self) -> int:
        """So long a follower waits for its leader.

        The voters hear of it at the same moments, and those who give it up at the same moment split the vote.
        """
        place = self.quorum.ids.index(self.me.id) if self.is_voter else 0
        return self.settings.fetch_timeout_ms + min(place * self.stagger_ms, self.settings.fetch_timeout_ms // 4)

    # The beginning.

    def start(self, now_ms: int) -> None:
        """Read what the disk holds and take up the role that fits it."""
        snapshot, start_offset = self.snapshots.latest, self.log.start_offset
        if start_offset > (0 if snapshot is None else snapshot.end_offset):
            raise InconsistentLogError(f"the log starts at {start_offset}, and no snapshot holds what was before")
        if snapshot is not None:
            self._read_voters_of(snapshot)
            if not self._log_holds(snapshot):
                self.log.start_anew(snapshot)
            self.high_watermark = snapshot.end_offset
            self.out.append(LoadSnapshot(snapshot))
        log = self.log
        self._read_voters_of_log()
        self.flushed_offset = log.start_offset
        self.flush()
        if log.last_epoch > self.epoch:
            self._remember(log.last_epoch, None, None)
        self._take(self._first_role(now_ms), now_ms)
        self.out.append(Announce(self.leader_id, self.epoch))
        if self.quorum.ids == [self.me.id] and self.is_voter:
            self.become_prospective(now_ms)  # nobody else can win

    def _log_holds(self, snapshot: SnapshotId) -> bool:
        """Whether the log agrees with a snapshot and reaches it.

        A snapshot may have been taken of records that the disk did not have yet, with others in their place.
        """
        log, end_offset = self.log, snapshot.end_offset
        return log.end_offset >= end_offset and (not end_offset or log.epoch_at(end_offset - 1) == snapshot.epoch)

    def _first_role(self, now_ms: int) -> Role:
        leader_id = self.state.leader_id
        if leader_id == self.me.id:
            return Resigned(self, (), now_ms)
        if leader_id is not None:
            return self._behind(leader_id, now_ms)
        if not self.may_stand:
            return Observer(self, None, Fetching(self, now_ms))
        # A vote for itself is not taken up again: it spoke for a log whose end may not have reached the disk.
        return Unattached(self, now_ms) if self.state.voted is None else Voted(self, now_ms)

    # Transitions.

    def learn(self, leader_id: int | None, epoch: int, now_ms: int) -> None:
        """A peer says that `leader_id` leads `epoch`, or that nobody is known to."""
        if leader_id == self.me.id or (leader_id is not None and leader_id < 0):
            leader_id = None  # if it led, it would know
        if epoch > self.epoch:
            self._remember(epoch, leader_id, None)
            self._take(self._behind(leader_id, now_ms) if leader_id is not None else self._leaderless(now_ms), now_ms)
        elif epoch == self.epoch and leader_id is not None and self.state.leader_id is None:
            self._remember(epoch, leader_id, self.state.voted)
            self._take(self._behind(leader_id, now_ms), now_ms)

    def become_prospective(self, now_ms: int) -> None:
        """Ask the others whether an election would be won."""
        assert self.may_stand, "only voters stand"
        self._take(Prospective(self, now_ms), now_ms)

    def become_candidate(self, now_ms: int) -> None:
        """Begin an epoch and vote for itself."""
        assert self.may_stand, "only voters stand"
        self._remember(self.epoch + 1, None, self.me)
        self._take(Candidate(self, now_ms), now_ms)

    def become_leader(self, granting: Sequence[ReplicaKey], now_ms: int) -> None:
        """The epoch is won."""
        assert self.state.voted == self.me, "a leader has voted for itself"
        self._remember(self.epoch, self.me.id, self.me)
        self._take(Leader(self, granting, now_ms), now_ms)

    def become_resigned(self, successors: Sequence[ReplicaKey], now_ms: int) -> None:
        """Lead no longer, and tell the voters."""
        self._take(Resigned(self, successors, now_ms), now_ms)
        self.out.append(Announce(None, self.epoch))

    def lose(self, now_ms: int) -> None:
        """No majority wants this voter: back to the leader of this epoch, or to waiting for one."""
        leader_id = self.state.leader_id
        self._take(
            self._behind(leader_id, now_ms) if leader_id not in (None, self.me.id) else self._leaderless(now_ms), now_ms
        )

    def begin_next_epoch(self, now_ms: int) -> None:
        """This replica led the epoch and does so no longer: nobody can be elected in it."""
        if self.may_stand:
            self._remember(self.epoch + 1, None, None)
            self._take(self._leaderless(now_ms), now_ms)
        else:
            self._take(Observer(self, None, Fetching(self, now_ms)), now_ms)

    def change_seat(self, fetching: Fetching, now_ms: int) -> None:
        """A follower is a voter no longer, or an observer has become one; it goes on fetching all the same."""
        leader_id = self.state.leader_id
        if not self.may_stand:
            self._take(Observer(self, leader_id, fetching), now_ms)
        elif leader_id is None or leader_id == self.me.id:
            self._take(self._leaderless(now_ms), now_ms)
        else:
            self._take(Follower(self, leader_id, fetching), now_ms)

    def _behind(self, leader_id: int | None, now_ms: int) -> Role:
        assert leader_id is not None
        if self.may_stand:
            return Follower(self, leader_id, Fetching(self, now_ms))
        return Observer(self, leader_id, Fetching(self, now_ms))

    def _leaderless(self, now_ms: int) -> Role:
        if not self.may_stand:
            return Observer(self, None, Fetching(self, now_ms))
        return Unattached(self, now_ms) if self.state.voted is None else Voted(self, now_ms)

    def _take(self, role: Role, now_ms: int) -> None:
        left, self.role = self.role, role
        left.leave()
        role.enter(now_ms)

    def _remember(self, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
        state = ElectionState(epoch, leader_id, voted)
        before = self.state
        if state == before:
            return
        assert epoch >= before.epoch, "epochs never go back"
        self.state = state
        self._persist(state)
        if (before.epoch, before.leader_id) != (epoch, leader_id):
            self.out.append(Announce(leader_id, epoch))

    def _persist(self, state: ElectionState) -> None:
        """Once is enough for one event, as long as nobody else was told anything in between."""
        place = len(self.out)
        while place and isinstance(self.out[place - 1], Announce):
            place -= 1
        if place and isinstance(self.out[place - 1], Persist):
            self.out[place - 1] = Persist(state)
        else:
            self.out.append(Persist(state))

    # Votes are granted alike in every role.

    def vote_received(self, request: Vote, token: Token, now_ms: int) -> None:
        """Somebody wants to lead."""
        error = self._vote_error(request)
        if error is not ErrorCode.NONE:
            self.out.append(Reply(token, VoteAnswer(error, self.leader_id, self.epoch)))
            return
        self.learn(None, request.epoch, now_ms)
        good_enough = (request.last_epoch, request.end_offset) >= (self.log.last_epoch, self.log.end_offset)
        if request.pre_vote:
            granted = good_enough and self.role.grants_pre_vote()
        else:
            granted = self._grant(request.candidate, good_enough, now_ms)
        self.out.append(Reply(token, VoteAnswer(ErrorCode.NONE, self.leader_id, self.epoch, granted)))

    def _vote_error(self, request: Vote) -> ErrorCode:
        if not request.voter.fits(self.me):
            return ErrorCode.INVALID_VOTER_KEY
        if request.epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        newest = request.epoch if request.pre_vote else request.epoch - 1
        if request.end_offset < 0 or not 0 <= request.last_epoch <= newest:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _grant(self, candidate: ReplicaKey, good_enough: bool, now_ms: int) -> bool:
        """One vote per epoch, first come first served; also from an observer, whose log may lag behind its election."""
        state = self.state
        if state.voted is not None:
            return state.voted.fits(candidate)
        if state.leader_id is not None or not good_enough:
            return False
        self._remember(state.epoch, None, candidate)
        self._take(self._leaderless(now_ms), now_ms)
        return True

    # The log.

    def append(self, batches: Buffer, now_ms: int) -> None:
        """Add batches at the end of the log; voters that they name hold from now on. Raises DecodeError."""
        quorums = list(quorums_in(batches, self.quorum))
        self.log.append(batches)
        for offset, quorum in quorums:
            self.voters.add(offset, quorum)
        self.flush()

    def cut(self, end_offset: int, now_ms: int) -> None:
        """What lies at `end_offset` and behind it is not what the leader has."""
        if end_offset < self.high_watermark:
            raise InconsistentLogError(
                f"the leader's log parts from this one at {end_offset}, and {self.high_watermark} is committed"
            )
        quorum = self.quorum
        self.log.truncate(end_offset)
        self.voters.cut(end_offset)
        self.flushed_offset = min(self.flushed_offset, end_offset)
        if self._flush_covers is not None:
            self._flush_covers = min(self._flush_covers, end_offset)
        if self.quorum != quorum:
            self.role.quorum_changed(now_ms)

    def take_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        """A snapshot has been fetched: it takes the place of the whole log."""
        if snapshot.end_offset < self.high_watermark:
            raise InconsistentLogError(f"the leader offers a snapshot of {snapshot.end_offset} records only")
        quorum = self.quorum
        self.snapshots.finish(snapshot)
        self.log.start_anew(snapshot)
        self._read_voters_of(snapshot)
        self.flushed_offset = snapshot.end_offset
        if self._flush_covers is not None:
            self._flush_covers = snapshot.end_offset
        self.out.append(LoadSnapshot(snapshot))
        self.commit(snapshot.end_offset)
        if self.quorum != quorum:
            self.role.quorum_changed(now_ms)

    def commit(self, offset: int) -> None:
        """The high watermark is at `offset` at least."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.out.append(Commit(offset))

    def flush(self) -> None:
        """See that the log reaches the disk; while one flush runs, what is added waits for the next."""
        if self._flush_covers is None and self.flushed_offset < self.log.end_offset:
            self._flush_covers = self.log.end_offset
            self.out.append(Flush())

    def flush_begins(self) -> None:
        """The flush that was asked for brings all to the disk that the log has now."""
        assert self._flush_covers is not None, "a flush that was never asked for"
        self._flush_covers = self.log.end_offset

    def flushed(self, now_ms: int) -> None:
        """The flush is over."""
        assert self._flush_covers is not None, "a flush that was never asked for"
        self.flushed_offset = max(self.flushed_offset, self._flush_covers)
        self._flush_covers = None
        self.flush()
        self.role.flushed(now_ms)

    def _take_voters(self, batches: Buffer) -> None:
        for offset, quorum in quorums_in(batches, self.quorum):
            if offset >= self.voters.latest_offset:  # a snapshot that ends within the log knows better
                self.voters.add(offset, quorum)

    def _read_voters_of_log(self) -> None:
        offset = self.log.start_offset
        while offset < self.log.end_offset:
            batches = self.log.read(offset, READ_BYTES)
            self._take_voters(batches)
            offset = max(header.last_offset for _, header in batches_in(batches)) + 1

    def _read_voters_of(self, snapshot: SnapshotId) -> None:
        head = self.snapshots.read(snapshot, 0, READ_BYTES)
        quorum = self.quorum
        try:
            for _, named in quorums_in(head, quorum):
                quorum = named
        except DecodeError as error:
            raise InconsistentLogError(f"the snapshot {snapshot} cannot be read: {error}") from error
        self.voters.start_at(snapshot.end_offset, quorum)
