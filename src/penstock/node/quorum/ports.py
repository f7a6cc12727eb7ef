"""What the driver of a quorum is given: stores that keep things, peers that answer, and what is replicated.

The first three are the consensus core's ports (`raft.ports`) with what else a node needs of them.
"""

from asyncio import Future
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Protocol

from penstock.protocol.requests.framing import Traffic
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

A step may give a future to wait for, but not while the driver starts: it waits for nothing then.
"""


class QuorumLog(ports.Log, Protocol):
    def flush(self) -> None:
        """Returns when all that was appended before outlives a power cut. Runs in a thread beside everything else."""


class QuorumSnapshots(ports.Snapshots, Protocol):
    def write(self, snapshot: SnapshotId, chunks: Iterable[bytes]) -> None:
        """A snapshot of one's own, durable. Runs in a thread beside everything else."""

    def load(self, snapshot: SnapshotId) -> bytes:
        """Of a snapshot that is complete."""

    def fetched(self, snapshot: SnapshotId) -> Callable[[], bytes]:
        """What reads the fetched snapshot once it is whole on the disk. Runs in a thread beside everything else, also
        beside the next fetch.
        """


class QuorumStateFile(Protocol):
    def read(self) -> ElectionState: ...

    def write(self, state: ElectionState, quorum: Quorum) -> None:
        """Returns when the state outlives a power cut; `quorum` has the voters, and the level. Runs in a thread."""


class Stores(Value):
    log: QuorumLog
    snapshots: QuorumSnapshots
    state: QuorumStateFile
    threads: Executor | None = None
    """Of the disk; None for those that all parts of the process share."""


class Member(Value):
    """The identity of a replica, its voters as long as the log names none, and its time-outs."""

    local: Voter
    configured: Quorum
    settings: RaftSettings
    remedy: str = "Make sure that its disk has room and works, then restart the node"


class Clock(Value):
    """The core's time is the wall clock's at the start, and goes on by `elapsed_s`, or by the event loop: that stands
    still while the machine sleeps, which no other voter waits for where leaders hold leases.
    """

    now_ms: Callable[[], int]
    elapsed_s: Callable[[], float] | None = None


class PeerLinks(Protocol):
    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        """Peers are looked up in `quorum`; the outcome of a request is told later, never within `send`."""

    def learn(self, node_id: int, endpoints: Sequence[Endpoint]) -> None:
        """A peer said where this node listens for the quorum: the log may not say it, or not yet."""

    def endpoint_of(self, node_id: int, listener: str | None = None) -> Endpoint | None: ...

    def hears(self, node_id: int) -> bool:
        """Whether the last fetch from this node was answered, or is under way; true as well if there was none."""

    @property
    def traffic(self) -> Traffic:
        """What was asked and answered so far."""

    def send(self, to: int, request: PeerRequest) -> None:
        """To the node of this id, or to any server (`raft.effects.ANY_SERVER`)."""

    async def settle(self, kind: type[PeerRequest], timeout_ms: int) -> None: ...

    async def stop(self) -> None:
        """Closes all connections; nothing is told from now on."""


class ReplicatedLog(Protocol):
    """What the metadata log asks of this node's part in the quorum (`QuorumDriver`)."""

    async def start(self) -> None: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def told_high_watermark(self) -> int: ...

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of the log says."""

    @property
    def has_all(self) -> bool:
        """Whether this node leads within its lease, and has applied all that is committed."""

    def append(self, batch: bytearray, epoch: int) -> Future[int]:
        """The future is done when the batch is committed and applied."""

    def upgrade(self, kraft_version: int, epoch: int, *, validate_only: bool) -> None:
        """Appends the level of the quorum, and who votes. Raises KafkaError that says why that cannot be."""

    def barrier(self, epoch: int) -> Future[int]:
        """Appends nothing; the future is done when all that was appended before is committed and applied."""

    def resign(self) -> None: ...

    async def snapshot(self, chunks: Iterable[bytes], end_offset: int) -> SnapshotId:
        """Writes a snapshot of all before `end_offset`, and lets go of the log before it."""

    def quorum_at(self, end_offset: int) -> Quorum:
        """The voters that a snapshot up to `end_offset` must name."""

    def snapshot_id_at(self, end_offset: int) -> SnapshotId: ...


class Application(Protocol):
    """What is replicated. An exception that leaves one of these methods ends the driver: see `QuorumDriver`."""

    def committed(self, batches: bytes, base_offset: int, last_offset: int) -> Iterator[None] | None:
        """Whole record batches that are committed, in order, each once; control batches are among them.

        If they are many records, some steps may be left, between which the event loop does other things: the batches
        are applied when these are done, and nothing else is told before, but that a snapshot takes the place of all.
        """

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        """Read a snapshot beside what is there; its result throws that away and begins anew with the snapshot."""

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """None while no leader is known; the local node once it has applied all before its epoch, if it still leads."""
