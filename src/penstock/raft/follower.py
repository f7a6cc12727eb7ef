"""Those who pull: voters behind a leader, and observers, who may have to look for one."""

from typing import TYPE_CHECKING, ClassVar

from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.raft.control import batches_in
from penstock.raft.effects import ANY_SERVER, Send
from penstock.raft.ports import EpochEnd, SnapshotId
from penstock.raft.requests import (
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    PeerRequest,
    UpdateVoter,
)
from penstock.raft.role import Role
from penstock.raft.settings import NEVER
from penstock.raft.voters import DYNAMIC_VOTERS

if TYPE_CHECKING:
    from penstock.raft.replica import Replica


class Fetching:
    """One fetch after the other, each only when all that was fetched is on the disk: a fetch says "I have"."""

    __slots__ = (
        "_next_ms",
        "_patience_ms",
        "_replica",
        "deadline_ms",
        "download",
        "in_flight",
        "leader_heard",
        "position",
    )

    def __init__(self, replica: "Replica", now_ms: int) -> None:
        self._replica = replica
        self._next_ms = now_ms
        self._patience_ms = replica.patience_ms()
        self.deadline_ms = now_ms + self._patience_ms
        self.leader_heard = False
        self.in_flight: Fetch | FetchSnapshot | None = None
        self.download: SnapshotId | None = None
        self.position = 0

    @property
    def is_held_up(self) -> bool:
        """Whether the disk has to be waited for."""
        return self._replica.flushed_offset < self._replica.log.end_offset

    @property
    def next_ms(self) -> int:
        """When to fetch, or to stop waiting for the answer; while the disk is behind, a flush will tell."""
        return NEVER if self.in_flight is None and self.is_held_up else self._next_ms

    def send(self, to: int, now_ms: int) -> None:
        """Fetch if it is time to."""
        replica = self._replica
        if now_ms < self._next_ms or self.is_held_up:
            return
        settings = replica.settings
        if self.download is not None:
            self.in_flight = FetchSnapshot(
                replica.epoch, replica.me, self.download, self.position, settings.fetch_snapshot_max_bytes
            )
        else:
            self.in_flight = Fetch(
                epoch=replica.epoch,
                replica=replica.me,
                offset=replica.log.end_offset,
                last_epoch=replica.log.last_epoch,
                high_watermark=replica.high_watermark,
                max_wait_ms=settings.fetch_max_wait_ms,
                max_bytes=settings.fetch_max_bytes,
            )
        self._next_ms = now_ms + settings.request_timeout_ms
        replica.out.append(Send(to, self.in_flight))

    def answered(self, now_ms: int) -> None:
        """The leader answered well: fetch on at once."""
        self.in_flight = None
        self._next_ms = now_ms
        self.leader_heard = True
        self.deadline_ms = now_ms + self._patience_ms

    def failed(self, now_ms: int) -> None:
        """No answer, or none that helps: a moment's pause."""
        self.in_flight = None
        self._next_ms = now_ms + self._replica.settings.retry_backoff_ms

    def take(self, answer: FetchAnswer, now_ms: int) -> None:
        """What a leader said to a fetch."""
        replica = self._replica
        if answer.diverging is not None:
            replica.cut(self._common_end(answer.diverging), now_ms)
            return
        if answer.snapshot is not None:
            self.download, self.position = answer.snapshot, 0
            replica.snapshots.begin(answer.snapshot)
            return
        if answer.records:
            self._append(answer.records, now_ms)
        replica.commit(min(answer.high_watermark, replica.log.end_offset))

    def take_piece(self, answer: FetchSnapshotAnswer, now_ms: int) -> None:
        """What a leader said to a fetch of a snapshot."""
        assert self.download is not None, "a piece was asked for"
        if answer.error is not ErrorCode.NONE or (answer.snapshot, answer.position) != (self.download, self.position):
            self.download = None  # the leader has a newer one by now, or did not understand: ask for records again
            return
        self._replica.snapshots.add(self.download, answer.piece)
        self.position += len(answer.piece)
        if self.position >= answer.size:
            snapshot, self.download = self.download, None
            self._replica.take_snapshot(snapshot, now_ms)

    def _common_end(self, leader: EpochEnd) -> int:
        """How far this log may agree with the leader's, which has no later epoch that both know (D49 to D51)."""
        mine = self._replica.log.end_offset_for_epoch(leader.epoch)
        return min(mine.end_offset, leader.end_offset) if mine.epoch == leader.epoch else mine.end_offset

    def _append(self, records: bytes, now_ms: int) -> None:
        replica = self._replica
        expected, epoch, end = replica.log.end_offset, replica.log.last_epoch, 0
        for position, header in batches_in(records):
            if header.base_offset != expected or not epoch <= header.partition_leader_epoch <= replica.epoch:
                raise DecodeError(f"a batch at {header.base_offset} of epoch {header.partition_leader_epoch}")
            expected, epoch = header.last_offset + 1, header.partition_leader_epoch
            end = position + header.size_in_bytes
        if end:
            quorum = replica.quorum
            replica.append(records[:end], now_ms)
            if replica.quorum != quorum:
                replica.role.quorum_changed(now_ms)


class Pulling(Role):
    """What followers and observers have in common."""

    __slots__ = ("fetching", "leader_id")

    def __init__(self, replica: "Replica", leader_id: int | None, fetching: Fetching) -> None:
        super().__init__(replica)
        self.leader_id = leader_id
        self.fetching = fetching

    @property
    def deadline_ms(self) -> int:
        """The next fetch."""
        return self.fetching.next_ms

    def enter(self, now_ms: int) -> None:
        """Fetch, unless that is under way already."""
        self.fetch(now_ms)

    def tick(self, now_ms: int) -> None:
        """Fetch, or fetch again what got no answer."""
        self.fetch(now_ms)

    def flushed(self, now_ms: int) -> None:
        """The disk has it all: go on."""
        self.fetch(now_ms)

    def fetch(self, now_ms: int) -> None:
        """From the leader."""
        assert self.leader_id is not None, "a follower knows its leader"
        self.fetching.send(self.leader_id, now_ms)

    def grants_pre_vote(self) -> bool:
        """Not while the leader is heard."""
        return not self.fetching.leader_heard

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        """Fetch again after a moment."""
        if request is self.fetching.in_flight:
            self.fetching.failed(now_ms)

    def fetch_answered(self, sender: int, request: Fetch, answer: FetchAnswer, now_ms: int) -> None:
        """Records, a cut, a snapshot to take first, or another leader."""
        if not self._is_well_answered(request, answer, now_ms):
            return
        if answer.error is not ErrorCode.NONE:
            self.fetching.failed(now_ms)
            return
        self.fetching.answered(now_ms)
        try:
            self.fetching.take(answer, now_ms)
        except DecodeError:
            self.fetching.failed(now_ms)  # damaged on its way: nothing of it was taken
        self._go_on(now_ms)

    def fetch_snapshot_answered(
        self, sender: int, request: FetchSnapshot, answer: FetchSnapshotAnswer, now_ms: int
    ) -> None:
        """A piece of the snapshot, or none."""
        if self._is_well_answered(request, answer, now_ms):
            self.fetching.answered(now_ms)
            self.fetching.take_piece(answer, now_ms)
            self._go_on(now_ms)

    def _is_well_answered(
        self, request: Fetch | FetchSnapshot, answer: FetchAnswer | FetchSnapshotAnswer, now_ms: int
    ) -> bool:
        """Whether this is the leader's answer to the question that is open."""
        replica = self.replica
        expected = request is self.fetching.in_flight
        replica.learn(answer.leader_id, answer.epoch, now_ms)
        if replica.role is not self or not expected:
            return False
        if answer.epoch != replica.epoch or answer.error in _WRONG_LEADER or self.leader_id is None:
            self.fetching.failed(now_ms)
            return False
        return True

    def _go_on(self, now_ms: int) -> None:
        """With the role that the replica has now: the records may have taken its vote away, or given it one."""
        self.replica.role.quorum_changed(now_ms)  # what is committed now may settle who votes
        role = self.replica.role
        if isinstance(role, Pulling):
            role.fetch(now_ms)

    def quorum_changed(self, now_ms: int) -> None:
        """Voters and observers change seats."""
        if self.replica.may_stand != isinstance(self, Follower):
            self.replica.change_seat(self.fetching, now_ms)


_WRONG_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


class Follower(Pulling):
    """A voter behind the leader of this epoch."""

    __slots__ = ("_update_at_ms",)
    name: ClassVar[str] = "Follower"

    def __init__(self, replica: "Replica", leader_id: int, fetching: Fetching) -> None:
        super().__init__(replica, leader_id, fetching)
        self._update_at_ms = 0

    @property
    def deadline_ms(self) -> int:
        """The next fetch, or the end of patience with the leader."""
        return min(self.fetching.deadline_ms, self.fetching.next_ms)

    def tick(self, now_ms: int) -> None:
        """Stand when the leader is silent for too long, fetch otherwise."""
        if now_ms >= self.fetching.deadline_ms:
            self.replica.become_prospective(now_ms)
        else:
            self.fetch(now_ms)

    def leader_ended(self, request: EndEpoch, now_ms: int) -> None:
        """Stand at once if named first; the others in their order, each later than the one before."""
        if request.leader_id != self.leader_id:
            return
        longest_ms = max(self.replica.settings.election_backoff_max_ms, 1)
        places = [place for place, key in enumerate(request.successors) if key.fits(self.replica.me)]
        if not places:
            patience_ms = self.replica.random.randrange(0, longest_ms)
        elif places[0] == 0:
            patience_ms = 0
        else:
            patience_ms = longest_ms >> (len(request.successors) - places[0])
        self.fetching.leader_heard = False
        self.fetching.deadline_ms = min(self.fetching.deadline_ms, now_ms + patience_ms)
        self.tick(now_ms)

    def fetch_answered(self, sender: int, request: Fetch, answer: FetchAnswer, now_ms: int) -> None:
        """As in `Pulling`; a good moment to correct what the log says about this voter (KIP-853)."""
        super().fetch_answered(sender, request, answer, now_ms)
        replica = self.replica
        if replica.role is not self or not self.fetching.leader_heard or now_ms < self._update_at_ms:
            return
        if replica.quorum.kraft_version >= DYNAMIC_VOTERS and replica.quorum.voter(replica.me.id) != replica.local:
            self._update_at_ms = now_ms + replica.settings.fetch_timeout_ms
            assert self.leader_id is not None, "a follower knows its leader"
            replica.out.append(Send(self.leader_id, UpdateVoter(replica.epoch, replica.local)))


class Observer(Pulling):
    """Not a voter: a broker, or a controller that is not yet or no longer one. It never stands."""

    __slots__ = ("_asks_around",)
    name: ClassVar[str] = "Observer"

    def __init__(self, replica: "Replica", leader_id: int | None, fetching: Fetching) -> None:
        super().__init__(replica, leader_id, fetching)
        self._asks_around = False

    def fetch(self, now_ms: int) -> None:
        """From the leader; when it is silent, in turn from it and from any voter, who may know of a later one.

        Always from others would not do: the leader may be none of the voters that an old log names.
        """
        if self.fetching.next_ms > now_ms:
            return
        is_silent = now_ms >= self.fetching.deadline_ms
        self._asks_around = self.leader_id is None or (is_silent and not self._asks_around)
        to = self.leader_id if not self._asks_around else self._any_voter()
        assert to is not None, "there is a leader, or else it asks around"
        self.fetching.send(to, now_ms)

    def _any_voter(self) -> int:
        replica = self.replica
        voters = [voter for voter in replica.quorum.ids if voter != replica.me.id]
        return voters[replica.random.randrange(0, len(voters))] if voters else ANY_SERVER
