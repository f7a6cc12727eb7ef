"""What the quorum can say about itself, under the names of Kafka's `raft-metrics`."""

from collections.abc import Callable
from functools import partial

from penstock.node.metrics.distribution import Durations
from penstock.node.metrics.registry import Gauge, Group, Histogram, Registry, StateSet
from penstock.raft.campaign import Campaign, Candidate, Prospective, Unattached, Voted
from penstock.raft.follower import Follower, Observer
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.resigned import Resigned
from penstock.raft.role import Role

NOBODY = -1

ROLES = (Unattached, Voted, Prospective, Candidate, Leader, Resigned, Follower, Observer)


class QuorumMetrics:
    def __init__(self) -> None:
        self.commits = Durations()
        self.elections = Durations()
        self._role: Role | None = None
        self._campaign_since_s: float | None = None

    def look_at(self, raft: Raft, now_s: float) -> None:
        """An election lasts from this replica's first campaign until it knows the leader."""
        if raft.role is self._role:
            return
        self._role = raft.role
        if isinstance(raft.role, Campaign):
            if self._campaign_since_s is None:
                self._campaign_since_s = now_s
        elif self._campaign_since_s is not None and raft.leader_id is not None:
            self.elections.took(now_s - self._campaign_since_s)
            self._campaign_since_s = None

    def register(self, registry: Registry, raft: Callable[[], Raft], hears_leader: Callable[[], bool]) -> None:
        gauge = partial(Gauge, Group.QUORUM)
        registry.add(
            StateSet(
                Group.QUORUM,
                "current-state",
                "Its role in the quorum",
                lambda: _state(raft().role),
                states=tuple(map(_state, ROLES)),
            ),
            gauge("current-leader", "The node that leads, -1 if that is not known", lambda: _id(raft().leader_id)),
            gauge("hears-leader", "1 while a leader answers this node, or it leads", lambda: int(hears_leader())),
            gauge("current-vote", "The node that it has voted for in this epoch, or -1", lambda: _vote(raft())),
            gauge("current-epoch", "The newest epoch that it has heard of", lambda: raft().epoch),
            gauge("high-watermark", "All records before this offset are committed", lambda: raft().high_watermark),
            gauge("log-end-offset", "The offset of the next record", lambda: raft().replica.log.end_offset),
            gauge("log-end-epoch", "The epoch of the last record", lambda: raft().replica.log.last_epoch),
            gauge("number-of-voters", "Who votes", lambda: len(raft().quorum.voters)),
            gauge("number-of-observers", "Who fetches from this leader without a vote", lambda: _observers(raft())),
            gauge("uncommitted-voter-change", "1 while a change of voters is not committed", lambda: _changes(raft())),
            Histogram(
                Group.QUORUM,
                "commit-latency",
                "From when records were appended here until they were applied",
                lambda: self.commits,
                "milliseconds",
            ),
            Histogram(
                Group.QUORUM,
                "election-latency",
                "From this replica's first campaign until it knew who leads",
                lambda: self.elections,
                "milliseconds",
            ),
        )


def _state(role: Role | type[Role]) -> str:
    return "unattached-voted" if role.name == Voted.name else role.name.lower()


def _id(node_id: int | None) -> int:
    return NOBODY if node_id is None else node_id


def _vote(raft: Raft) -> int:
    voted = raft.replica.state.voted
    return NOBODY if voted is None else voted.id


def _observers(raft: Raft) -> int:
    return len(raft.role.replicas.observers(raft.quorum)) if isinstance(raft.role, Leader) else 0


def _changes(raft: Raft) -> int:
    return int(raft.replica.voters.latest_offset >= raft.high_watermark)
