"""What the quorum can say about itself, under the names of Kafka's `raft-metrics`.

Latencies are in milliseconds and since the start of the node.
"""

from dataclasses import dataclass, field

from penstock.raft.campaign import Campaign, Voted
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.role import Role

NOBODY = -1


@dataclass(slots=True)
class Latency:
    """How often something happened, how long it took altogether and at most."""

    count: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0

    def add(self, took_ms: float) -> None:
        """Count one more that took so long."""
        self.count += 1
        self.total_ms += took_ms
        self.max_ms = max(self.max_ms, took_ms)

    @property
    def average_ms(self) -> float:
        """0 as long as it has not happened."""
        return self.total_ms / self.count if self.count else 0.0


@dataclass(slots=True)
class QuorumMetrics:
    """What is counted while the driver works."""

    commits: Latency = field(default_factory=Latency)
    elections: Latency = field(default_factory=Latency)
    _role: Role | None = None
    _campaign_since_s: float | None = None

    def look_at(self, raft: Raft, now_s: float) -> None:
        """Something happened: an election lasts from this replica's first campaign until it knows who leads."""
        if raft.role is self._role:
            return
        self._role = raft.role
        if isinstance(raft.role, Campaign):
            if self._campaign_since_s is None:
                self._campaign_since_s = now_s
        elif self._campaign_since_s is not None and raft.leader_id is not None:
            self.elections.add((now_s - self._campaign_since_s) * 1000)
            self._campaign_since_s = None

    def values(self, raft: Raft) -> dict[str, str | float]:
        """The figures, by Kafka's names."""
        replica, role = raft.replica, raft.role
        voted = replica.state.voted
        observers = len(role.replicas.observers(raft.quorum)) if isinstance(role, Leader) else 0
        return {
            "current-state": "unattached-voted" if isinstance(role, Voted) else role.name.lower(),
            "current-leader": NOBODY if raft.leader_id is None else raft.leader_id,
            "current-vote": NOBODY if voted is None else voted.id,
            "current-epoch": raft.epoch,
            "high-watermark": raft.high_watermark,
            "log-end-offset": replica.log.end_offset,
            "log-end-epoch": replica.log.last_epoch,
            "number-of-voters": len(raft.quorum.voters),
            "number-of-observers": observers,
            "uncommitted-voter-change": int(replica.voters.latest_offset >= raft.high_watermark),
            "commit-latency-avg": self.commits.average_ms,
            "commit-latency-max": self.commits.max_ms,
            "election-latency-avg": self.elections.average_ms,
            "election-latency-max": self.elections.max_ms,
        }
