"""What a replica of the metadata log knows whatever its role is: its settings, its vote, its log, the voters.

Events bring about effects, which gather in `out`. The votes and the leader of an epoch are persisted whenever they
change, before anything else is done.
"""

from typing import Final

from penstock.leadership.lease import Granter
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import iterate_batches
from penstock.protocol.varint import Buffer
from penstock.raft.control import quorums_in
from penstock.raft.effects import Announce, Commit, Effect, ElectionState, Flush, LoadSnapshot, Persist
from penstock.raft.ports import Log, Random, SnapshotId, Snapshots
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter, VoterHistory

READ_BYTES: Final = 1024 * 1024
"""How much is read at a time to find voters. In a snapshot they stand at its beginning, so once is enough."""

STAGGER: Final = 20
"""The voters' patience with a silent leader differs by the fetch time-out divided by this."""


class InconsistentLogError(Exception):
    """A leader wants this replica to forget what is committed: a node lost data, and this one must stop."""


class Replica:
    """State that outlives roles: who votes, epoch and vote, log, snapshots, what is committed and what is flushed."""

    __slots__ = (
        "_flush_covers",
        "flushed_offset",
        "high_watermark",
        "local",
        "log",
        "out",
        "promise",
        "random",
        "settings",
        "snapshots",
        "state",
        "told_high_watermark",
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
        self.told_high_watermark = 0
        """What a leader said last, even if this log does not reach so far."""
        self.flushed_offset = 0
        self._flush_covers: int | None = None
        self.promise = Granter(settings.fetch_timeout_ms)
        """Given to the leader that was heard last: until it is over this replica elects no other voter, nor itself."""
        self.out: list[Effect] = []

    # Its identity, and its patience.

    @property
    def me(self) -> ReplicaKey:
        return self.local.key

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of the log says."""
        return self.voters.latest

    @property
    def is_voter(self) -> bool:
        return self.quorum.has(self.me)

    @property
    def may_stand(self) -> bool:
        """Whether this replica is a voter, or may be one.

        One whose removal is in its log but not known to be committed may hold the only log that the remaining voters
        accept: it has to lead once more, though its own vote does not count.
        """
        return self.is_voter or any(quorum.has(self.me) for quorum in self.voters.since(self.high_watermark))

    def election_timeout_ms(self) -> int:
        """Drawn anew each time from [t, 2t), so that two candidates seldom meet twice."""
        timeout_ms = self.settings.election_timeout_ms
        return self.random.randrange(timeout_ms, 2 * timeout_ms)

    @property
    def stagger_ms(self) -> int:
        """By how much each voter is more patient with a silent leader than the one before it."""
        return max(self.settings.fetch_timeout_ms // STAGGER, 1)

    def patience_ms(self) -> int:
        """The voters hear a leader at the same moments; giving it up at the same moment would split the vote."""
        place = self.quorum.ids.index(self.me.id) if self.is_voter else 0
        return self.settings.fetch_timeout_ms + min(place * self.stagger_ms, self.settings.fetch_timeout_ms // 4)

    # Epoch, leader and vote.

    @property
    def promised_until_ms(self) -> int:
        return int(max(self.promise.until, 0))

    def recover_promise(self, now_ms: int) -> None:
        """Promises are not on the disk: assumes as much as can be, unless it heard of no epoch or led the last one."""
        if self.settings.leases and self.epoch and self.state.leader_id != self.me.id:
            self.promise.granted(now_ms)

    def remember(self, epoch: int, leader_id: int | None, voted: ReplicaKey | None) -> None:
        """Persist what has changed, and announce another leader or epoch."""
        state, before = ElectionState(epoch, leader_id, voted), self.state
        if state == before:
            return
        assert epoch >= before.epoch, "epochs never go back"
        self.state = state
        self._persist(state)
        if (before.epoch, before.leader_id) != (epoch, leader_id):
            self.out.append(Announce(leader_id, epoch))

    def _persist(self, state: ElectionState) -> None:
        """Once is enough for one event, as long as no message was sent in between."""
        place = len(self.out)
        while place and isinstance(self.out[place - 1], Announce):
            place -= 1
        if place and isinstance(self.out[place - 1], Persist):
            self.out[place - 1] = Persist(state)
        else:
            self.out.append(Persist(state))

    # The log.

    def recover(self) -> None:
        """Raises InconsistentLogError if the log and the snapshots have a gap."""
        snapshot, log = self.snapshots.latest, self.log
        if log.start_offset > (0 if snapshot is None else snapshot.end_offset):
            raise InconsistentLogError(f"the log starts at {log.start_offset}, and no snapshot holds what was before")
        if snapshot is not None:
            self._read_voters_of(snapshot)
            if not self._log_holds(snapshot):
                log.start_anew(snapshot)
            self.high_watermark = snapshot.end_offset
            self.out.append(LoadSnapshot(snapshot))
        self._read_voters_of_log()
        self.flushed_offset = log.start_offset
        self.flush()
        if log.last_epoch > self.epoch:
            self.remember(log.last_epoch, None, None)

    def _log_holds(self, snapshot: SnapshotId) -> bool:
        """Whether the log agrees with a snapshot and reaches it.

        A snapshot may hold records of which the disk had others. A log that has let go of all that the snapshot holds
        shows it by what is left: a log's epochs never go back.
        """
        log, end_offset = self.log, snapshot.end_offset
        if log.end_offset < end_offset or (end_offset and log.epoch_at(end_offset - 1) != snapshot.epoch):
            return False
        return log.end_offset == end_offset or log.epoch_at(end_offset) >= snapshot.epoch

    def append(self, batches: Buffer) -> None:
        """Voters that the batches name hold from now on. Raises DecodeError."""
        quorums = list(quorums_in(batches, self.quorum))
        self.log.append(batches)
        for offset, quorum in quorums:
            self.voters.add(offset, quorum)
        self.flush()

    def cut(self, end_offset: int) -> None:
        """Remove what lies at `end_offset` and behind it: the leader has something else there."""
        if end_offset < self.high_watermark:
            raise InconsistentLogError(
                f"the leader's log parts from this one at {end_offset}, and {self.high_watermark} is committed"
            )
        self._assert_flushed()
        self.log.truncate(end_offset)
        self.voters.cut(end_offset)
        self.flushed_offset = self.log.end_offset

    def take_snapshot(self, snapshot: SnapshotId) -> None:
        if snapshot.end_offset < self.high_watermark:
            raise InconsistentLogError(f"the leader offers a snapshot of {snapshot.end_offset} records only")
        self._assert_flushed()
        self.snapshots.finish(snapshot)
        self.log.start_anew(snapshot)
        self._read_voters_of(snapshot)
        self.flushed_offset = snapshot.end_offset
        self.out.append(LoadSnapshot(snapshot))
        self.commit(snapshot.end_offset)

    def _assert_flushed(self) -> None:
        """A flush that covers what is cut from the log would count for what comes in its place."""
        assert self._flush_covers is None, "who fetches has all on its disk, and takes nothing but the answer"
        assert self.flushed_offset == self.log.end_offset, "who fetches has all on its disk"

    def commit(self, offset: int) -> None:
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

    def flushed(self) -> None:
        """Begins the next flush if there is more."""
        assert self._flush_covers is not None, "a flush that was never asked for"
        self.flushed_offset = max(self.flushed_offset, self._flush_covers)
        self._flush_covers = None
        self.flush()

    def forget_log_behind(self, snapshot: SnapshotId) -> None:
        """The records that a whole snapshot holds may go. Replicas that still need them take the latest snapshot."""
        assert self.snapshots.size(snapshot) is not None, "only a whole snapshot stands for the log"
        if snapshot.end_offset > self.log.start_offset:
            self.log.start_behind(snapshot)
            self.voters.forget_before(snapshot.end_offset)

    def _take_voters(self, batches: Buffer) -> None:
        for offset, quorum in quorums_in(batches, self.quorum):
            if offset >= self.voters.latest_offset:  # a snapshot that ends within the log knows better
                self.voters.add(offset, quorum)

    def _read_voters_of_log(self) -> None:
        offset = self.log.start_offset
        while offset < self.log.end_offset:
            batches = self.log.read(offset, READ_BYTES)
            self._take_voters(batches)
            offset = max(header.last_offset for _, header in iterate_batches(batches)) + 1

    def _read_voters_of(self, snapshot: SnapshotId) -> None:
        head = self.snapshots.read(snapshot, 0, READ_BYTES)
        quorum = self.voters.configured  # a snapshot that names no voters is older than the first record that does
        try:
            for _, named in quorums_in(head, quorum):
                quorum = named
        except DecodeError as error:
            raise InconsistentLogError(f"the snapshot {snapshot} cannot be read: {error}") from error
        self.voters.start_at(snapshot.end_offset, quorum)
