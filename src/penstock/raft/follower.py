"""Those who pull: voters behind a leader, and observers, who may have to look for one."""

from typing import ClassVar

from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.raft.effects import ANY_SERVER
from penstock.raft.fetching import Fetching
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import (
    AddVoter,
    Answer,
    AskVersionsAnswer,
    EndEpoch,
    EpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    PeerRequest,
    RemoveVoter,
    UpdateVoter,
)
from penstock.raft.role import Role, Roles
from penstock.raft.voters import DYNAMIC_VOTERS


class Pulling(Role):
    __slots__ = ("fetching", "leader_id")

    def __init__(self, roles: Roles, leader_id: int | None, fetching: Fetching) -> None:
        super().__init__(roles)
        self.leader_id = leader_id
        self.fetching = fetching

    @property
    def deadline_ms(self) -> int:
        return self.fetching.next_ms

    def enter(self, now_ms: int) -> None:
        """Fetch, unless a fetch is under way already."""
        self.fetch(now_ms)

    def tick(self, now_ms: int) -> None:
        self.fetch(now_ms)

    def flushed(self, now_ms: int) -> None:
        self.fetch(now_ms)

    def fetch(self, now_ms: int) -> None:
        assert self.leader_id is not None, "a follower knows its leader"
        self.fetching.send(self.leader_id, now_ms)

    def grants_pre_vote(self, now_ms: int) -> bool:
        """Not while the leader is heard: an observer goes on asking one that is silent, but lets others stand."""
        return not self.fetching.leader_heard or now_ms >= self.fetching.deadline_ms

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        if request is self.fetching.in_flight:
            self.failed(now_ms)

    def failed(self, now_ms: int) -> None:
        self.fetching.failed(now_ms)

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        """Records, a cut, a snapshot to take first, a piece of it, or another leader."""
        if request is not self.fetching.in_flight or not isinstance(answer, FetchAnswer | FetchSnapshotAnswer):
            return
        is_refused = isinstance(answer, FetchAnswer) and answer.error is not ErrorCode.NONE
        if is_refused or answer.epoch != self.replica.epoch or answer.error in _WRONG_LEADER or self.leader_id is None:
            self.failed(now_ms)
            return
        self.fetching.answered(answer, now_ms)
        try:
            self.fetching.take(answer, now_ms)
        except DecodeError:
            self.fetching.failed(now_ms)  # damaged on its way: nothing of it was taken
        self._go_on(now_ms)

    @property
    def examining(self) -> SnapshotId | None:
        """The snapshot that was fetched and is not known to be readable yet."""
        return self.fetching.examining

    def examined(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Let the snapshot replace the log, if it is still the one that is wanted."""
        if snapshot == self.examining:
            self.fetching.examined(now_ms)
            self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> None:
        """Fetch on in the role that it has by now: the records may have taken its vote away, or given it one."""
        self.roles.role.quorum_changed(now_ms)  # what is committed now may settle who votes
        role = self.roles.role
        if isinstance(role, Pulling):
            role.fetch(now_ms)

    def quorum_changed(self, now_ms: int) -> None:
        """Become an observer where this voter is none any more, and a follower where this observer votes now."""
        if self.replica.may_stand != isinstance(self, Follower):
            self.roles.stand_by(now_ms, self.fetching)


_WRONG_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


class Follower(Pulling):
    __slots__ = ("_has_told", "_succeeds", "_update_at_ms")
    name: ClassVar[str] = "Follower"

    def __init__(self, roles: Roles, leader_id: int, fetching: Fetching) -> None:
        super().__init__(roles, leader_id, fetching)
        self._succeeds = False
        self._has_told = False
        self._update_at_ms = 0

    @property
    def deadline_ms(self) -> int:
        return min(self.fetching.deadline_ms, self.fetching.next_ms)

    def tick(self, now_ms: int) -> None:
        """Stand when the leader is silent for too long, fetch otherwise."""
        if now_ms < self.fetching.deadline_ms:
            self.fetch(now_ms)
        elif self._succeeds and self.replica.promise.is_over(now_ms):
            self.roles.become_candidate(now_ms)  # a majority has agreed to that: it need not ask beforehand
        else:
            self.roles.become_prospective(now_ms)

    def handed_over(self, successor_id: int, now_ms: int) -> None:
        """Stand as soon as the promise to the leader is over, if this is the successor; the others give it time."""
        self._succeeds = successor_id == self.replica.me.id
        self.fetching.handed_over(self.replica.promised_until_ms if self._succeeds else None, now_ms)
        self.tick(now_ms)

    def leader_ended(self, request: EndEpoch, now_ms: int) -> None:
        """Stand at once if named first; the others in their order, each later than the one before."""
        if request.leader_id != self.leader_id:
            return
        longest_ms = max(self.replica.settings.election_backoff_max_ms, 1)
        places = [place for place, key in enumerate(request.successors) if key.names(self.replica.me)]
        if not places:
            patience_ms = self.replica.random.randrange(0, longest_ms)
        elif places[0] == 0:
            patience_ms = 0
        else:
            patience_ms = longest_ms >> (len(request.successors) - places[0])
        self.replica.promise.released()
        self.fetching.leader_heard = False
        self.fetching.deadline_ms = min(self.fetching.deadline_ms, now_ms + patience_ms)
        self.tick(now_ms)

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        """After an answer is a good moment to tell the leader of this voter (KIP-853)."""
        super().answered(sender, request, answer, now_ms)
        replica = self.replica
        if isinstance(request, UpdateVoter) and request.epoch == replica.epoch and isinstance(answer, EpochAnswer):
            # A leader that cannot use it, as it is too old, will not be able to later.
            self._has_told |= answer.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)
        if self.roles.role is not self or not self.fetching.leader_heard or now_ms < self._update_at_ms:
            return
        if self._is_to_tell:
            self._update_at_ms = now_ms + replica.settings.fetch_timeout_ms
            assert self.leader_id is not None, "a follower knows its leader"
            self.send(self.leader_id, UpdateVoter(replica.epoch, replica.local))

    @property
    def _is_to_tell(self) -> bool:
        """Whether the log says something else about this voter; or names no disks, so that each leader is told."""
        replica = self.replica
        said = replica.quorum.voter(replica.me.id)
        if replica.quorum.kraft_version >= DYNAMIC_VOTERS:
            return said is not None and said != replica.local
        return said is not None and replica.local.can_be_named and not self._has_told


class Observer(Pulling):
    """Not a voter: a broker, or a controller that is not yet or no longer one. It never stands.

    When the leader fails it asks another voter at once, which may know of a later leader, and others for a while. Then
    it is the leader's turn again: an old log may name voters of which none leads.
    """

    __slots__ = ("_join_at_ms", "_others_until_ms")
    name: ClassVar[str] = "Observer"

    def __init__(self, roles: Roles, leader_id: int | None, fetching: Fetching) -> None:
        super().__init__(roles, leader_id, fetching)
        self._others_until_ms = 0
        self._join_at_ms = 0

    def fetch(self, now_ms: int) -> None:
        """Asks the leader, or a voter that may know it."""
        fetching = self.fetching
        if fetching.next_ms > now_ms:
            return
        if fetching.in_flight is not None and fetching.asked == self.leader_id:
            self._leave_to_others(now_ms)
        asks_leader = self.leader_id is not None and now_ms >= self._others_until_ms
        to = self.leader_id if asks_leader else self._any_other()
        assert to is not None, "there is a leader, or else it asks around"
        fetching.send(to, now_ms)

    def failed(self, now_ms: int) -> None:
        """If that was the leader, ask another one at once."""
        if self.fetching.asked != self.leader_id or self._any_other() == self.leader_id:
            super().failed(now_ms)
            return
        self._leave_to_others(now_ms)
        self.fetching.failed(now_ms, pause_ms=0)
        self.fetch(now_ms)

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        """Having caught up, a controller may ask to become a voter."""
        super().answered(sender, request, answer, now_ms)
        replica = self.replica
        has_caught_up = self.fetching.leader_heard and replica.log.end_offset >= replica.told_high_watermark
        if replica.settings.auto_join and self.roles.role is self and has_caught_up and now_ms >= self._join_at_ms:
            self._join(now_ms)

    def _join(self, now_ms: int) -> None:
        """The leader refuses while another change is under way: it is asked again from time to time."""
        replica = self.replica
        if self.leader_id is None or replica.quorum.kraft_version < DYNAMIC_VOTERS:
            return
        self._join_at_ms = now_ms + replica.settings.fetch_timeout_ms
        predecessor = replica.quorum.voter(replica.me.id)
        if predecessor is not None:
            self.send(self.leader_id, RemoveVoter(predecessor.key))
            return
        timeout_ms = replica.settings.request_timeout_ms
        # A majority with the new voter commits that it is one: it does not wait for what waits for its own fetches.
        self.send(self.leader_id, AddVoter(replica.me, replica.local.endpoints, False, timeout_ms))

    def _leave_to_others(self, now_ms: int) -> None:
        """Ask others for as long as the leader was asked in vain: a voter that hangs takes half of the time at most."""
        settings, fetching = self.replica.settings, self.fetching
        in_vain_ms = now_ms - fetching.sent_ms - settings.fetch_max_wait_ms
        self._others_until_ms = now_ms + max(in_vain_ms, settings.retry_backoff_ms)

    def _any_other(self) -> int:
        """One of the voters that the log names; the leader if it is the only one."""
        replica = self.replica
        voters = [voter for voter in replica.quorum.ids if voter != replica.me.id]
        others = [voter for voter in voters if voter != self.leader_id] or voters
        return others[replica.random.randrange(0, len(others))] if others else ANY_SERVER
