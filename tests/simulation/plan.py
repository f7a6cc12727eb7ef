"""What one seed draws: the size of the cluster, its time-outs, its faults."""

from dataclasses import dataclass
from random import Random

from penstock.leadership.lease import MAX_DRIFT
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS


@dataclass(frozen=True, slots=True)
class Plan:
    """Times in milliseconds, chances from 0 to 1 (of a message, of an effect), or rates per
    millisecond (of all else). With `same_lots` all nodes draw the same time-outs, so that votes are often split.
    """

    voters: int
    observers: int
    kraft_version: int
    settings: RaftSettings
    trouble_ms: int
    longest_delay_ms: int
    loss: float
    duplication: float
    longest_examination_ms: int
    slow_disks: tuple[bool, ...]
    crash_between_effects: float
    crash_after_persist: float
    same_lots: bool
    longest_down_ms: int
    crashes: float
    partitions: float
    snapshots: float
    voter_changes: float
    appends: float
    resignations: float
    late: float
    """The chance of a message to be on its way for up to two fetch time-outs."""
    restart_before_vote: float
    """The chance of a voter to restart just before it is asked for its vote."""
    leases: bool
    clocks: tuple[float, ...]
    """How fast that of each node goes: wrong by as much as leases allow, at most."""

    @property
    def may_change_voters(self) -> bool:
        """From the beginning, or after an upgrade."""
        return self.kraft_version >= DYNAMIC_VOTERS or self.voter_changes > 0


def draw_clocks(random: Random, nodes: int, drift: float) -> tuple[float, ...]:
    """Most are as bad as they may be."""
    return tuple(1 + drift * random.choice((-1, -1, 1, 1, random.uniform(-1, 1))) for _ in range(nodes))


def draw_plan(random: Random) -> Plan:
    election_timeout_ms = random.choice((100, 300, 1000))
    voters = random.choice((1, 2, 3, 3, 3, 4, 5, 5))
    observers = random.choice((0, 0, 1, 2))
    settings = RaftSettings(
        election_timeout_ms=election_timeout_ms,
        election_backoff_max_ms=random.choice((election_timeout_ms // 2, election_timeout_ms)),
        fetch_timeout_ms=election_timeout_ms * random.choice((1, 2, 3)),
        request_timeout_ms=election_timeout_ms * random.choice((1, 2)),
        retry_backoff_ms=random.choice((20, 50, 100)),
        fetch_max_wait_ms=election_timeout_ms // random.choice((2, 4)),
        fetch_max_bytes=random.choice((100, 400, 1 << 20)),
        fetch_snapshot_max_bytes=random.choice((100, 333, 1 << 20)),
    )
    return Plan(
        voters=voters,
        observers=observers,
        kraft_version=random.choice((STATIC_VOTERS, DYNAMIC_VOTERS)),
        settings=settings,
        trouble_ms=election_timeout_ms * random.choice((10, 20, 40)),
        longest_delay_ms=random.choice((2, 10, 50, election_timeout_ms // 2)),
        loss=random.choice((0.0, 0.0, 0.02, 0.2)),
        duplication=random.choice((0.0, 0.05, 0.3)),
        slow_disks=tuple(random.random() < 0.25 for _ in range(voters + observers)),
        crash_between_effects=random.choice((0.0, 0.0, 0.002, 0.01)),
        crash_after_persist=random.choice((0.0, 0.0, 0.0, 0.5)),
        same_lots=random.random() < 0.25,
        longest_down_ms=random.choice((5, election_timeout_ms, election_timeout_ms * 4)),
        crashes=random.choice((0.0, 0.5, 1.0, 3.0)) / election_timeout_ms,
        partitions=random.choice((0.0, 0.5, 1.0, 3.0)) / election_timeout_ms,
        snapshots=random.choice((0.0, 0.3, 1.0, 3.0)) / election_timeout_ms,
        voter_changes=random.choice((0.0, 0.3, 1.0)) / election_timeout_ms,
        appends=random.choice((1.0, 3.0, 6.0)) / election_timeout_ms,
        resignations=random.choice((0.0, 0.0, 0.2)) / election_timeout_ms,
        longest_examination_ms=random.choice((0, 10, 3 * election_timeout_ms)),
        late=random.choice((0.0, 0.0, 0.05)),
        restart_before_vote=random.choice((0.0, 0.0, 0.1)),
        leases=random.random() < 0.5,
        clocks=draw_clocks(random, voters + observers, MAX_DRIFT),
    )
