"""The leader of an epoch: it appends, serves those who pull, and knows what is committed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from penstock.leadership.lease import held
from penstock.protocol.batch import set_base_offset, set_partition_leader_epoch
from penstock.protocol.control.records import control_batch
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.records import iterate_batches
from penstock.raft.asking import Asking
from penstock.raft.control import (
    kraft_version_record,
    leader_change_record,
    voters_record_of,
)
from penstock.raft.effects import Announce, Token
from penstock.raft.progress import Progress, ReplicaTable
from penstock.raft.requests import (
    AddVoter,
    Answer,
    AskVersions,
    AskVersionsAnswer,
    BeginEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    LeaderRequest,
    PeerRequest,
    RemoveVoter,
    UpdateVoter,
)
from penstock.raft.role import Role, Roles
from penstock.raft.settings import NEVER
from penstock.raft.voter_changes import VoterChanges
from penstock.raft.voters import CONFIGURED, DYNAMIC_VOTERS, ReplicaKey

MAX_NUMBER: Final = 0x7FFFFFFF
"""The highest number of an answer that Kafka's field has room for; numbers begin anew behind it."""


@dataclass(slots=True)
class WaitingFetch:
    request: Fetch
    token: Token
    deadline_ms: int


class Leader(Role):
    """Leads from its election until it resigns or hears of a newer epoch."""

    __slots__ = (
        "_begin_asking",
        "_ends",
        "_granting",
        "_number",
        "_waiting",
        "changes",
        "epoch_start_offset",
        "replicas",
    )
    name: ClassVar[str] = "Leader"

    def __init__(self, roles: Roles, granting: Sequence[ReplicaKey], now_ms: int) -> None:
        super().__init__(roles)
        replica = roles.replica
        self._granting = granting
        self._number = 0
        self._ends: float | None = None
        self._waiting: dict[ReplicaKey, WaitingFetch] = {}
        self._begin_asking = Asking(replica.settings, self._others(), now_ms)
        self.epoch_start_offset = replica.log.end_offset
        self.replicas = ReplicaTable(now_ms)
        self.changes = VoterChanges(replica, self.replicas, self.epoch_start_offset, self._append_own)

    def enter(self, now_ms: int) -> None:
        """Begin the epoch with a control record, and tell the voters."""
        replica, quorum = self.replica, self.replica.quorum
        records = [leader_change_record(replica.me.id, quorum, self._granting, now_ms)]
        named = quorum.with_voter(replica.local) if replica.is_voter else quorum
        if quorum.kraft_version >= DYNAMIC_VOTERS and (replica.voters.latest_offset == CONFIGURED or named != quorum):
            # What only this node's bootstrap snapshot says, or only itself knows, the others must learn from the log.
            records += [kraft_version_record(quorum.kraft_version, now_ms), voters_record_of(named, now_ms)]
        replica.append(control_batch(records, base_offset=self.epoch_start_offset, epoch=replica.epoch))
        self._begin_epoch(now_ms)

    def leave(self) -> None:
        answer = FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.roles.leader_id, self.replica.epoch)
        for waiting in self._waiting.values():
            self.reply(waiting.token, answer)
        self._waiting = {}
        self.changes.end(self.roles.leader_id)

    # Time.

    @property
    def deadline_ms(self) -> int:
        fetches = min((waiting.deadline_ms for waiting in self._waiting.values()), default=NEVER)
        return min(fetches, self.check_quorum_deadline_ms, self._begin_asking.next_ms, self.changes.deadline_ms)

    @property
    def check_quorum_deadline_ms(self) -> int:
        """When it resigns if no voter is heard until then."""
        heard_ms = self.replicas.majority_heard_ms(self.replica.quorum, self.replica.me)
        return heard_ms + self.replica.settings.check_quorum_timeout_ms

    def tick(self, now_ms: int) -> None:
        """Resign if cut off from the majority; else answer fetches that are due, and tell silent voters who leads."""
        if now_ms >= self.check_quorum_deadline_ms:
            self.resign(now_ms)
            return
        for waiting in [w for w in self._waiting.values() if w.deadline_ms <= now_ms]:
            self._answer_fetch(waiting.request, waiting.token, now_ms)
            del self._waiting[waiting.request.replica]
        self._begin_epoch(now_ms)
        self.changes.tick(now_ms)

    def resign(self, now_ms: int, successor_id: int | None = None) -> None:
        """`successor_id` should stand first, then those who have most of the log."""
        replica = self.replica
        successors = self.replicas.by_end_offset(replica.quorum, replica.me)
        self.roles.become_resigned(sorted(successors, key=lambda key: key.id != successor_id), now_ms)

    def grants_pre_vote(self, now_ms: int) -> bool:
        """Only as long as no voter has followed yet, for all that it knows, or when it has laid down its lease."""
        return self.replica.high_watermark <= self.epoch_start_offset or self._ends is not None

    def lay_down(self, ends_in_ms: int | None, now_ms: int) -> None:
        """Ask for no promise any more, and count on none for longer than the others are told to keep it."""
        # The others count from when they apply the record, this one from now; clocks are read in whole milliseconds.
        counted_ms = math.inf if ends_in_ms is None else (ends_in_ms - 1) * held(self.replica.settings.max_clock_drift)
        self._ends = now_ms + counted_ms
        self.changes.leave(self.replica.me.id)

    def take_back(self, now_ms: int) -> None:
        """Stand for election: without its lease it cannot lead on in this epoch."""
        if self._ends is not None and self.replica.may_stand:
            self.replica.out.append(Announce(None, self.replica.epoch))
            self.roles.become_prospective(now_ms)

    def _others(self) -> list[int]:
        return [voter.key.id for voter in self.replica.quorum.others(self.replica.me)]

    def _begin_epoch(self, now_ms: int) -> None:
        settings, replica = self.replica.settings, self.replica
        patience_ms = min(settings.begin_epoch_interval_ms, settings.request_timeout_ms)
        for peer in self._begin_asking.take_due(now_ms, patience_ms):
            voter = replica.quorum.voter(peer)
            assert voter is not None, "only voters are asked"
            self.send(peer, BeginEpoch(replica.epoch, replica.me.id, voter.key))

    def answered(self, sender: int, request: PeerRequest, answer: Answer | AskVersionsAnswer, now_ms: int) -> None:
        """A voter knows who leads and should fetch soon, or one that is to become a voter says what it understands."""
        if isinstance(request, BeginEpoch):
            self._begin_asking.postpone(sender, now_ms + self.replica.settings.begin_epoch_interval_ms)
        elif isinstance(request, AskVersions) and isinstance(answer, AskVersionsAnswer):
            self.changes.versions_answered(request, answer, now_ms)

    def request_failed(self, to: int, request: PeerRequest, now_ms: int) -> None:
        """Tell a voter again who leads; a replica that does not say which levels it understands becomes no voter."""
        if isinstance(request, BeginEpoch):
            self._begin_asking.failed(to, now_ms)
        elif isinstance(request, AskVersions):
            self.changes.versions_answered(request, AskVersionsAnswer(ErrorCode.REQUEST_TIMED_OUT), now_ms)

    # The log.

    def append(self, batches: bytearray, now_ms: int) -> None:
        """Give the batches their offsets and the epoch, in place, and append them. Raises DecodeError."""
        replica = self.replica
        offset, end = replica.log.end_offset, 0
        for position, header in iterate_batches(batches):
            set_base_offset(batches, position, offset)
            set_partition_leader_epoch(batches, position, replica.epoch)
            offset += header.last_offset_delta + 1
            end = position + header.size_in_bytes
        if end != len(batches) or not end:
            raise DecodeError("not whole record batches")
        self._append_own(batches, now_ms)

    def _append_own(self, batches: bytearray, now_ms: int) -> None:
        """Append batches that have their offsets, and answer fetches that wait for them."""
        quorum = self.replica.quorum
        self.replica.append(batches)
        if self.replica.quorum != quorum:
            self.quorum_changed(now_ms)
        self._serve_waiting(now_ms)

    def flushed(self, now_ms: int) -> None:
        """The leader counts as any other voter: as soon as its own disk has the records."""
        self._advance(now_ms)

    def quorum_changed(self, now_ms: int) -> None:
        """Tell new voters who leads, and removed ones no longer."""
        self._begin_asking.keep(self._others(), now_ms)

    def _advance(self, now_ms: int) -> None:
        """Only for a record of this epoch: a majority may have an older one that is lost yet (Raft paper, figure 8)."""
        replica = self.replica
        end_offset = self.replicas.majority_end_offset(replica.quorum, replica.me, replica.flushed_offset)
        if not self._may_commit(end_offset):
            return
        replica.commit(end_offset)
        self._serve_waiting(now_ms)
        self.changes.committed()
        if not replica.is_voter and replica.voters.latest_offset < replica.high_watermark:
            self.resign(now_ms)

    def _may_commit(self, end_offset: int) -> bool:
        return end_offset > max(self.epoch_start_offset, self.replica.high_watermark)

    def holds_lease(self, now_ms: int) -> bool:
        """A majority votes for no other voter as long as this millisecond, and a record is committed.

        A candidate needs one vote of that majority; those of two quorums that follow on each other overlap, too.
        """
        replica = self.replica
        if not replica.settings.leases or replica.high_watermark <= self.epoch_start_offset:
            return False
        return now_ms + 1 < self.lease_until_ms

    @property
    def lease_until_ms(self) -> float:
        """Until when a majority votes for no other voter, as far as this leader may count on it."""
        promised = self.replicas.majority_promised_until(self.replica.quorum, self.replica.me)
        return promised if self._ends is None else min(promised, self._ends)

    # Serving.

    def asked(self, request: LeaderRequest, token: Token, now_ms: int) -> None:
        """Refuses what is meant for the leader of another epoch."""
        match request:
            case AddVoter() | RemoveVoter() | UpdateVoter() if self._ends is not None:
                super().asked(request, token, now_ms)
            case AddVoter():
                self.changes.add(request, token, now_ms)
            case RemoveVoter():
                self.changes.remove(request, token, now_ms)
            case _ if request.epoch != self.replica.epoch:
                super().asked(request, token, now_ms)
            case Fetch():
                self._fetch(request, token, now_ms)
            case FetchSnapshot():
                self._fetch_snapshot(request, token, now_ms)
            case UpdateVoter():
                self.changes.update(request, token, now_ms)

    def _fetch(self, request: Fetch, token: Token, now_ms: int) -> None:
        replica = self.replica
        if min(request.offset, request.last_epoch) < 0:
            self.reply(token, FetchAnswer(ErrorCode.INVALID_REQUEST, replica.me.id, replica.epoch))
            return
        progress = self._heard(request.replica, now_ms)
        if progress is not None and request.promise is not None:
            progress.promised(request.promise, replica.settings.max_clock_drift)
        if self._redirect(request, token, now_ms):
            return
        if progress is not None:
            progress.fetched(request.offset, replica.log.end_offset, now_ms)
            self._advance(now_ms)
        if self.roles.role is not self:
            super().asked(request, token, now_ms)
        elif self._has_news(request) or request.max_wait_ms <= 0:
            self._answer_fetch(request, token, now_ms)
        else:
            self._wait(WaitingFetch(request, token, now_ms + request.max_wait_ms), now_ms)

    def _redirect(self, request: Fetch, token: Token, now_ms: int) -> bool:
        """Whether the follower must take a snapshot or cut its log first: then it is told so."""
        replica = self.replica
        log, snapshot = replica.log, replica.snapshots.latest
        mine = None
        if snapshot is None or not self._is_before_log(request):
            snapshot, mine = None, log.end_offset_for_epoch(request.last_epoch)
            if mine.epoch == request.last_epoch and request.offset <= mine.end_offset:
                return False
        answer = FetchAnswer(
            error=ErrorCode.NONE,
            leader_id=replica.me.id,
            epoch=replica.epoch,
            high_watermark=replica.high_watermark,
            log_start_offset=log.start_offset,
            diverging=mine,
            snapshot=snapshot,
            number=self._numbered(request.replica, now_ms),
        )
        self.reply(token, answer)
        return True

    def _is_before_log(self, request: Fetch) -> bool:
        """Whether this log begins too late to say where the follower's log parts from it."""
        log = self.replica.log
        return (
            request.offset < log.start_offset
            or request.last_epoch < log.start_epoch
            or (request.offset == log.start_offset and request.last_epoch != log.start_epoch)
        )

    def _fetch_snapshot(self, request: FetchSnapshot, token: Token, now_ms: int) -> None:
        """A replica that is far behind gets it piece by piece."""
        replica = self.replica
        self._heard(request.replica, now_ms)
        size, piece, error = replica.snapshots.size(request.snapshot), b"", ErrorCode.NONE
        if size is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= request.position < max(size, 1):
            error = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            max_bytes = max(1, min(request.max_bytes, replica.settings.fetch_snapshot_max_bytes))
            piece = replica.snapshots.read(request.snapshot, request.position, max_bytes)
        answer = FetchSnapshotAnswer(
            error, replica.me.id, replica.epoch, request.snapshot, size or 0, request.position, piece
        )
        self.reply(token, answer)

    def _heard(self, key: ReplicaKey, now_ms: int) -> Progress | None:
        """Note that a replica lives. None for a reader without an id, such as a tool."""
        if key.id < 0:
            return None
        self._begin_asking.postpone(key.id, now_ms + self.replica.settings.begin_epoch_interval_ms)
        return self.replicas.heard(key, self.replica.quorum, now_ms)

    def _has_news(self, request: Fetch) -> bool:
        return request.offset < self.replica.log.end_offset or request.high_watermark < self.replica.high_watermark

    def _numbered(self, key: ReplicaKey, now_ms: int) -> int:
        progress = self.replicas.find(key)
        if progress is None or not self.replica.settings.leases or self._ends is not None:
            return 0
        self._number = self._number % MAX_NUMBER + 1
        progress.answered(self._number, now_ms)
        return self._number

    def _answer_fetch(self, request: Fetch, token: Token, now_ms: int) -> None:
        replica = self.replica
        answer = FetchAnswer(
            error=ErrorCode.NONE,
            leader_id=replica.me.id,
            epoch=replica.epoch,
            high_watermark=self.replica.high_watermark,
            log_start_offset=replica.log.start_offset,
            records=replica.log.read(request.offset, min(request.max_bytes, replica.settings.fetch_max_bytes)),
            number=self._numbered(request.replica, now_ms),
        )
        self.reply(token, answer)

    def _wait(self, waiting: WaitingFetch, now_ms: int) -> None:
        """One fetch of each replica waits: a new one gives up the one before."""
        before = self._waiting.pop(waiting.request.replica, None)
        if before is not None:
            self._answer_fetch(before.request, before.token, now_ms)
        self._waiting[waiting.request.replica] = waiting

    def _serve_waiting(self, now_ms: int) -> None:
        for key, waiting in list(self._waiting.items()):
            if self._has_news(waiting.request):
                del self._waiting[key]
                self._answer_fetch(waiting.request, waiting.token, now_ms)
