"""One simulated node: the consensus core, its disk, and a state machine that is a checksum of all it applied."""

from dataclasses import dataclass, field
from math import ceil
from random import Random
from zlib import crc32

from tests.simulation.invariants import InvariantError, Invariants
from tests.simulation.memory import Batch, Contents, MemoryLog, MemorySnapshots

from penstock.protocol.control.records import control_batch
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_batches
from penstock.raft.control import snapshot_header_records
from penstock.raft.effects import ElectionState
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.ports import SnapshotId
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Endpoint, Quorum, Voter


@dataclass(slots=True)
class Disk:
    """What a crash leaves behind."""

    contents: Contents = field(default_factory=Contents)
    state: ElectionState = field(default_factory=ElectionState)
    snapshots: MemorySnapshots = field(default_factory=MemorySnapshots)


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a node: how fast it goes, and what it showed in the beginning."""

    rate: float = 1.0
    began_ms: int = 0

    def at(self, true_ms: int) -> int:
        return self.began_ms + int(true_ms * self.rate)

    def true_ms(self, time_ms: int) -> int:
        """When it shows that time."""
        return ceil((time_ms - self.began_ms) / self.rate)


RIGHT = Clock()


class Node:
    def __init__(
        self,
        voter: Voter,
        configured: Quorum,
        settings: RaftSettings,
        invariants: Invariants,
        clock: Clock = RIGHT,
    ) -> None:
        self.id = voter.key.id
        self.voter = voter
        self.configured = configured
        self.settings = settings
        self.invariants = invariants
        self.clock = clock
        self.disk = Disk()
        self.log = MemoryLog()
        self.raft: Raft | None = None
        self.incarnation = 0
        self.applied = 0
        self.app_state = 0
        self.high_watermark = 0
        self.wake_ms = 0
        self.flush_ms = 1

    @property
    def leads(self) -> bool:
        return self.raft is not None and isinstance(self.raft.role, Leader)

    @property
    def epoch(self) -> int:
        return self.disk.state.epoch if self.raft is None else self.raft.epoch

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of its log says."""
        return self.configured if self.raft is None else self.raft.quorum

    def boot(self, random: Random) -> Raft:
        """A new process on the old disk."""
        self.incarnation += 1
        self.applied = self.app_state = self.high_watermark = 0
        self.log = MemoryLog(self.disk.contents)
        self.log.on_append = self.invariants.appended
        self.log.on_cut = lambda end_offset: self.invariants.cut(self.id, self.leads, end_offset)
        self.raft = Raft(
            self.voter, self.configured, self.settings, self.log, self.disk.snapshots, random, self.disk.state
        )
        return self.raft

    def crash(self, random: Random) -> None:
        """Lose what was not flushed, or some of it."""
        self.disk.contents = self.log.crash(random)
        self.disk.snapshots.partial = {}
        self.raft = None
        self.incarnation += 1

    def move(self, host: str) -> None:
        """It listens elsewhere from its next start on."""
        self.voter = self.voter.replace(endpoints=(Endpoint("CONTROLLER", host, 9093),))

    def wipe(self, voter: Voter) -> None:
        """A new disk: another replica with the same id."""
        self.disk = Disk()
        self.voter = voter
        self.invariants.epochs.pop(self.id, None)

    # The state machine.

    def apply(self, high_watermark: int) -> None:
        if high_watermark < self.high_watermark:
            raise InvariantError(
                f"monotonic high watermarks: {self.id} goes from {self.high_watermark} to {high_watermark}"
            )
        self.high_watermark = high_watermark
        while self.applied < high_watermark:
            batch = self.log.batches[self.log._index_of(self.applied)]
            if batch.base_offset != self.applied or batch.last_offset >= high_watermark:
                raise InvariantError(
                    f"{self.id} is to apply from {self.applied} up to {high_watermark}: no whole batches"
                )
            self.app_state = next_state(self.app_state, batch)
            self.applied = batch.last_offset + 1
            self.invariants.applied(self.id, self.epoch, batch, self.app_state)

    def load(self, snapshot: SnapshotId) -> None:
        data = self.disk.snapshots.whole[snapshot]
        *_, (position, _) = iterate_batches(data)
        value = decode_batch(data, position)[0].value
        assert value is not None
        self.app_state = int(value.split()[0])
        self.applied = self.high_watermark = snapshot.end_offset
        self.invariants.loaded(self.id, snapshot.end_offset, self.app_state)

    def take_snapshot(self, now_ms: int) -> SnapshotId:
        """Of all that is applied; long enough to be fetched in several pieces."""
        assert self.raft is not None
        snapshot = self.raft.snapshot_id_at(self.applied)
        header = snapshot_header_records(self.raft.quorum_at(self.applied), now_ms, now_ms)
        data = bytes(control_batch(header, base_offset=0, epoch=snapshot.epoch))
        body = f"{self.app_state} {'.' * (200 + self.app_state % 300)}".encode()
        data += bytes(encode_batch([Record(timestamp_ms=now_ms, value=body)], base_offset=len(header)))
        self.disk.snapshots.store(snapshot, data)
        return snapshot


def next_state(state: int, batch: Batch) -> int:
    return crc32(batch.data, state)
