"""Voters without a leader: waiting for one, asking whether to stand, standing."""

from typing import ClassVar

from penstock.protocol.errors import ErrorCode
from penstock.raft.asking import Asking
from penstock.raft.replica import Replica
from penstock.raft.requests import Answer, AskVersionsAnswer, PeerRequest, Vote, VoteAnswer
from penstock.raft.role import Role, Roles
from penstock.raft.settings import NEVER
from penstock.raft.voters import ReplicaKey, Voter


class Unattached(Role):
    """Knows of no leader in this epoch and has not voted in it."""

    __slots__ = ("_election_deadline_ms",)
    name: ClassVar[str] = "Unattached"

    def __init__(self, roles: Roles, now_ms: int) -> None:
        super().__init__(roles)
        replica = roles.replica
        self._election_deadline_ms = max(now_ms + replica.election_timeout_ms(), replica.promised_until_ms)

    @property
    def deadline_ms(self) -> int:
        """A voter does not stand before it may vote."""
        return self._election_deadline_ms

    def look_around(self) -> None:
        """Ask who leads: a voter that would not vote says whom it hears."""
        for voter in self.replica.quorum.others(self.replica.me):
            self.send(voter.key.id, _question(self.replica, voter, pre_vote=True))

    def tick(self, now_ms: int) -> None:
        if now_ms >= self._election_deadline_ms:
            self.roles.become_prospective(now_ms)


class Voted(Unattached):
    """Has given its vote in this epoch, and does not know who won."""

    __slots__ = ()
    name: ClassVar[str] = "Voted"


class Campaign(Role):
    """Asks all voters; a majority wins, and so many refusals that no majority is left lose."""

    __slots__ = ("_asking", "_election_deadline_ms", "granted", "refused")
    pre_vote: ClassVar[bool]

    def __init__(self, roles: Roles, now_ms: int) -> None:
        super().__init__(roles)
        self._election_deadline_ms = now_ms + roles.replica.election_timeout_ms()
        replica = roles.replica
        self.granted: dict[int, ReplicaKey] = {replica.me.id: replica.me} if replica.is_voter else {}
        self.refused: dict[int, ErrorCode] = {}
        others = [voter.key.id for voter in replica.quorum.others(replica.me)]
        self._asking = Asking(replica.settings, others, now_ms)

    @property
    def deadline_ms(self) -> int:
        return min(self._election_deadline_ms, self._asking.next_ms)

    def enter(self, now_ms: int) -> None:
        """Ask all voters, or none if its own vote is enough."""
        self._count(now_ms)
        if self.roles.role is self:
            self._ask(now_ms)

    def won(self, now_ms: int) -> None:
        raise NotImplementedError

    def lost(self, now_ms: int) -> None:
        raise NotImplementedError

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        if not isinstance(request, Vote) or not isinstance(answer, VoteAnswer) or not self._asks(request):
            return
        if not self.replica.quorum.has(request.voter) or sender in self.granted:
            return
        # A voter that is too old to know pre-votes is no reason not to stand.
        if answer.granted or (self.pre_vote and answer.error is ErrorCode.UNSUPPORTED_VERSION):
            self._asking.done(sender)
            self.refused.pop(sender, None)
            self.granted[sender] = request.voter
        elif answer.error is ErrorCode.BROKER_NOT_AVAILABLE:
            self._asking.failed(sender, now_ms)  # its node is there, and has not begun to take part yet
        elif not self.pre_vote and answer.error is ErrorCode.NONE and answer.epoch < request.epoch:
            # It has promised something to a leader, and may vote in a moment; it has not even taken note of this epoch.
            self._asking.postpone(sender, now_ms + self.replica.settings.retry_backoff_ms)
        else:
            self._refused_by(sender, answer.error, now_ms)
        self._count(now_ms)

    def _refused_by(self, sender: int, error: ErrorCode, now_ms: int) -> None:
        """A vote that was not given will not be: there is one in an epoch."""
        self._asking.done(sender)
        self.refused[sender] = error

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        if isinstance(request, Vote) and self._asks(request):
            self._asking.failed(to, now_ms)

    def _asks(self, request: Vote) -> bool:
        """Whether this campaign asked it, not an earlier one."""
        return (request.epoch, request.pre_vote) == (self.replica.epoch, self.pre_vote)

    @property
    def _has_majority(self) -> bool:
        return len(self.granted) >= self.replica.quorum.majority

    def _count(self, now_ms: int) -> None:
        quorum = self.replica.quorum
        if self._has_majority:
            self.won(now_ms)
        elif len(self.refused) > len(quorum.voters) - quorum.majority:
            self.lost(now_ms)

    def _ask(self, now_ms: int) -> None:
        replica = self.replica
        for peer in self._asking.take_due(now_ms):
            voter = replica.quorum.voter(peer)
            assert voter is not None, "the voters do not change while there is no leader"
            self.send(peer, _question(replica, voter, pre_vote=self.pre_vote))


class Prospective(Campaign):
    """Asks whether it would be elected, without disturbing the voters (KIP-996), and asks voters that refuse again.

    They may hear the leader for a moment longer, and be willing then. Otherwise the voter with the best log may be the
    one that has asked too early, and no leader is elected for seconds.
    """

    __slots__ = ()
    name: ClassVar[str] = "Prospective"
    pre_vote: ClassVar[bool] = True

    def _refused_by(self, sender: int, error: ErrorCode, now_ms: int) -> None:
        # Not just when the others give the leader up as well: all would be willing then, and split the vote.
        self._asking.postpone(sender, now_ms + self.replica.stagger_ms * 3 // 2)
        self.refused[sender] = error

    def won(self, now_ms: int) -> None:
        self.roles.become_candidate(now_ms)

    def lost(self, now_ms: int) -> None:
        self.roles.stand_by(now_ms)

    def tick(self, now_ms: int) -> None:
        """Give up when the time is over; else ask again voters that have not answered."""
        if now_ms >= self._election_deadline_ms:
            self.roles.stand_by(now_ms)
        else:
            self._ask(now_ms)


class Candidate(Campaign):
    """When a voter refuses, the vote is split. Voters that are silent then, perhaps a leader that has died or hangs,
    get a moment more to decide it, and not the whole election time-out.
    """

    __slots__ = ("_backoff_until_ms", "_began_ms")
    name: ClassVar[str] = "Candidate"
    pre_vote: ClassVar[bool] = False

    def __init__(self, roles: Roles, now_ms: int) -> None:
        super().__init__(roles, now_ms)
        self._backoff_until_ms = NEVER
        self._began_ms = now_ms

    def enter(self, now_ms: int) -> None:
        """If its own vote is enough, it must be on the disk before it counts: see `tick`."""
        self._ask(now_ms)

    @property
    def deadline_ms(self) -> int:
        if self._has_majority:
            return self._began_ms
        if self._backoff_until_ms != NEVER:
            return min(self._election_deadline_ms, self._backoff_until_ms)
        return super().deadline_ms

    def won(self, now_ms: int) -> None:
        self.roles.become_leader([self.granted[voter] for voter in sorted(self.granted)], now_ms)

    def lost(self, now_ms: int) -> None:
        """Stand back for a random while, so that one of the candidates that split the vote goes first."""
        if self._backoff_until_ms == NEVER:
            longest_ms = max(self.replica.settings.election_backoff_max_ms, 1)
            self._backoff_until_ms = now_ms + self.replica.random.randrange(0, longest_ms) + 1

    def _count(self, now_ms: int) -> None:
        super()._count(now_ms)
        if self.refused and self.roles.role is self:
            self.lost(now_ms + self.replica.stagger_ms)

    def tick(self, now_ms: int) -> None:
        """Begin another election when the time is over, else ask on. The only voter of its quorum wins here."""
        if self._has_majority:
            self.won(now_ms)
        elif now_ms >= min(self._election_deadline_ms, self._backoff_until_ms):
            self.roles.become_prospective(now_ms)
        elif self._backoff_until_ms == NEVER:
            self._ask(now_ms)


def _question(replica: Replica, voter: Voter, *, pre_vote: bool) -> Vote:
    log = replica.log
    return Vote(replica.epoch, replica.me, voter.key, log.last_epoch, log.end_offset, pre_vote)
