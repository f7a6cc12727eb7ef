"""What the driver of a quorum is given: stores that keep things, peers that answer, and what is replicated.

The first three are the consensus core's ports (`raft.ports`) with what else a node needs of them.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Generator, Iterable
from typing import Protocol

from penstock.protocol.value import Value
from penstock.raft import ports
from penstock.raft.effects import ElectionState
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import Answer, AskVersionsAnswer, PeerRequest
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Endpoint, Quorum, Voter

PeerAnswer = Answer | AskVersionsAnswer

Reading = Generator[Future[None] | None, None, Callable[[], None]]
"""A snapshot is being read, some milliseconds' worth at each step; its result is what puts it in place.

A step may give a future to wait for, but not while the driver starts: it waits for nobody then.
"""


class QuorumLog(ports.Log, Protocol):
    """The replicated log."""

    def flush(self) -> None:
        """Returns when all that was appended before outlives a power cut. Runs in a thread beside everything else."""


class QuorumSnapshots(ports.Snapshots, Protocol):
    """The snapshots beside the log."""

    def write(self, snapshot: SnapshotId, chunks: Iterable[bytes]) -> None:
        """A snapshot of one's own, whole and durable. Runs in a thread beside everything else."""

    def load(self, snapshot: SnapshotId) -> bytes:
        """The bytes of a snapshot that is complete."""

    def fetched(self, snapshot: SnapshotId) -> bytes:
        """All of the one that was fetched, when it is on the disk. Runs in a thread beside everything else."""


class QuorumStateFile(Protocol):
    """Where the votes are remembered."""

    def read(self) -> ElectionState:
        """What was written last."""

    def write(self, state: ElectionState, quorum: Quorum) -> None:
        """Returns when the state outlives a power cut; `quorum` is who may vote, and at which level."""


class Stores(Value):
    """What a replica has on its disk."""

    log: QuorumLog
    snapshots: QuorumSnapshots
    state: QuorumStateFile


class Member(Value):
    """Who a replica is, whom it takes for the voters as long as the log names none, and how patient it is."""

    local: Voter
    configured: Quorum
    settings: RaftSettings
    remedy: str = "Make sure that its disk has room and works, then restart the node"
    """What is said when it has failed."""


class Clock(Value):
    """The core's time is the wall clock's at the start, and goes on by `elapsed_s`, or by the event loop: that stands
    still while the machine sleeps, which no other voter waits for where leaders hold leases.
    """

    now_ms: Callable[[], int]
    elapsed_s: Callable[[], float] | None = None


class PeerLinks(Protocol):
    """The way to the other replicas."""

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        """Who is asked is looked up in `quorum`; what comes of a request is told later, never within `send`."""

    def learn(self, node_id: int, host: str, port: int) -> None:
        """A peer said where this node listens for the quorum: the log may not say it, or not yet."""

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Where a node listens for the quorum, as far as that is known."""

    def hears(self, node_id: int) -> bool:
        """Whether the last fetch from this node was answered, or is under way; true as well if there was none."""

    def send(self, to: int, request: PeerRequest) -> None:
        """Sends a request to the node of this id, or to any server (`raft.effects.ANY_SERVER`)."""

    async def settle(self, kind: type[PeerRequest], timeout_ms: int) -> None:
        """Waits until no request of this kind is under way, but not longer than this."""

    async def stop(self) -> None:
        """Closes all connections; nothing is told from now on."""


class ReplicatedLog(Protocol):
    """What the metadata log asks of this node's part in the quorum (`QuorumDriver`)."""

    async def start(self) -> None:
        """Take up what the disk holds, and take part."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def told_high_watermark(self) -> int:
        """The high watermark that a leader has told last; 0 before one has."""

    @property
    def has_all(self) -> bool:
        """Whether this node leads within its lease, and has applied all that is committed."""

    def append(self, batch: bytearray, epoch: int) -> Future[int]:
        """Appends a batch; the future is done when it is committed and applied."""

    def barrier(self, epoch: int) -> Future[int]:
        """Appends nothing; the future is done when all that was appended before is committed and applied."""

    def resign(self) -> None:
        """Lead no longer, if this node does."""

    async def snapshot(self, chunks: Iterable[bytes], end_offset: int) -> SnapshotId:
        """Writes a snapshot of all before `end_offset`, and lets go of the log before it."""

    def quorum_at(self, end_offset: int) -> Quorum:
        """The voters that a snapshot up to `end_offset` must name."""

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        """What a snapshot up to `end_offset` is called."""


class Application(Protocol):
    """What is replicated. An exception that leaves one of these methods ends the driver: see `QuorumDriver`."""

    def committed(self, batches: bytes, base_offset: int, last_offset: int) -> None:
        """Whole record batches that are committed, in order, each once; control batches are among them."""

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        """Read a snapshot beside what is there; its result throws that away and begins anew with the snapshot."""

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Who leads from now on: None while nobody is known to.

        The local node is named only when it has applied all that was in the log before its epoch, and is leader still.
        """
