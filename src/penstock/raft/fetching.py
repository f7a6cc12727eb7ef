"""How a replica pulls what it lacks: records after its own, or a snapshot in pieces.

A snapshot that is whole is examined by the node before it replaces anything, which may take long. Meanwhile the replica
goes on asking for records, and takes none: so it and the leader hear of each other.
"""

from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.records import iterate_batches
from penstock.raft.effects import Examine, Send
from penstock.raft.ports import EpochEnd, SnapshotId
from penstock.raft.replica import Replica
from penstock.raft.requests import Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer, Promise
from penstock.raft.settings import NEVER


class Fetching:
    """One fetch after the other, each only when all that was fetched is on the disk: a fetch says "I have"."""

    __slots__ = (
        "_next_ms",
        "_patience_ms",
        "_replica",
        "asked",
        "deadline_ms",
        "download",
        "examining",
        "in_flight",
        "is_last",
        "leader_heard",
        "number",
        "position",
        "sent_ms",
    )

    def __init__(self, replica: Replica, now_ms: int) -> None:
        self._replica = replica
        self._next_ms = now_ms
        self._patience_ms = replica.patience_ms()
        self.deadline_ms = now_ms + self._patience_ms
        self.leader_heard = False
        self.is_last = False
        """Whether another voter leads next: the answers of this leader prolong nothing any more."""
        self.number = 0
        """The number of the last answer, if the leader numbers them."""
        self.in_flight: Fetch | FetchSnapshot | None = None
        self.asked: int | None = None
        """The peer that got the last request, at `sent_ms`."""
        self.sent_ms = now_ms
        self.download: SnapshotId | None = None
        self.position = 0
        self.examining: SnapshotId | None = None

    @property
    def is_held_up(self) -> bool:
        """The disk must have all that was fetched before the next fetch."""
        return self._replica.flushed_offset < self._replica.log.end_offset

    @property
    def next_ms(self) -> int:
        """When to fetch, or to stop waiting for the answer; while the disk is behind, a flush will tell."""
        return NEVER if self.in_flight is None and self.is_held_up else self._next_ms

    def send(self, to: int, now_ms: int) -> None:
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
                promise=Promise(self.number, settings.lease_ms) if self.number else None,
            )
        self.asked, self.sent_ms = to, now_ms
        self._next_ms = now_ms + settings.request_timeout_ms
        replica.out.append(Send(to, self.in_flight))

    def answered(self, answer: FetchAnswer | FetchSnapshotAnswer, now_ms: int) -> None:
        """Fetches on at once, with a promise if the leader asks for one."""
        if isinstance(answer, FetchAnswer) and answer.number and self._replica.settings.leases:
            self._replica.promise.granted(now_ms)
            self.number = answer.number
        self.in_flight = None
        self._next_ms = now_ms
        if not self.is_last:
            self.leader_heard = True
            self.deadline_ms = now_ms + self._patience_ms

    def handed_over(self, deadline_ms: int | None, now_ms: int) -> None:
        """Another voter leads next: waits for this leader until `deadline_ms` at most; None: as long as ever."""
        self.is_last, self.leader_heard = True, False
        self.deadline_ms = now_ms + self._patience_ms if deadline_ms is None else max(deadline_ms, now_ms)

    def failed(self, now_ms: int, pause_ms: int | None = None) -> None:
        """No answer, or none that helps: a moment's pause."""
        self.in_flight = None
        self._next_ms = now_ms + (self._replica.settings.retry_backoff_ms if pause_ms is None else pause_ms)

    def take(self, answer: FetchAnswer | FetchSnapshotAnswer, now_ms: int) -> None:
        """Raises DecodeError for damaged records, of which nothing is taken."""
        replica = self._replica
        if self.examining is not None:
            self._next_ms = now_ms + replica.settings.fetch_max_wait_ms
            return
        if isinstance(answer, FetchSnapshotAnswer):
            self._take_piece(answer, now_ms)
            return
        if answer.diverging is not None:
            replica.cut(self._common_end(answer.diverging))
            return
        if answer.snapshot is not None:
            self.download, self.position = answer.snapshot, 0
            replica.snapshots.begin(answer.snapshot)
            return
        if answer.records:
            self._append(answer.records)
        replica.told_high_watermark = answer.high_watermark
        replica.commit(min(answer.high_watermark, replica.log.end_offset))

    def _take_piece(self, answer: FetchSnapshotAnswer, now_ms: int) -> None:
        assert self.download is not None, "a piece was asked for"
        if answer.error is not ErrorCode.NONE or (answer.snapshot, answer.position) != (self.download, self.position):
            self.download = None  # the leader has a newer one by now, or did not understand: ask for records again
            return
        self._replica.snapshots.add(self.download, answer.piece)
        self.position += len(answer.piece)
        if self.position >= answer.size:
            self.examining, self.download = self.download, None
            self._next_ms = now_ms + self._replica.settings.fetch_max_wait_ms
            self._replica.out.append(Examine(self.examining))

    def examined(self, now_ms: int) -> None:
        """The snapshot can be read: it takes the place of the log."""
        assert self.examining is not None, "a snapshot is examined"
        snapshot, self.examining = self.examining, None
        self.in_flight = None  # an answer that is on its way is one to the old log
        self._next_ms = now_ms
        self._replica.take_snapshot(snapshot)

    def _common_end(self, leader: EpochEnd) -> int:
        """How far this log may agree with the leader's, which has no later epoch that both know."""
        mine = self._replica.log.end_offset_for_epoch(leader.epoch)
        return min(mine.end_offset, leader.end_offset) if mine.epoch == leader.epoch else mine.end_offset

    def _append(self, records: bytes) -> None:
        replica = self._replica
        expected, epoch, end = replica.log.end_offset, replica.log.last_epoch, 0
        for position, header in iterate_batches(records):
            if header.base_offset != expected or not epoch <= header.partition_leader_epoch <= replica.epoch:
                raise DecodeError(f"a batch at {header.base_offset} of epoch {header.partition_leader_epoch}")
            expected, epoch = header.last_offset + 1, header.partition_leader_epoch
            end = position + header.size_in_bytes
        if end:
            replica.append(records[:end])
