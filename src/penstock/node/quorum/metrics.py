"""What the quorum can say about itself, under the names of Kafka's `raft-metrics`."""

import asyncio
from collections import deque
from functools import partial
from typing import Final, Protocol

from penstock.node.metrics.distribution import Durations
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Registry, StateSet
from penstock.node.quorum.ports import PeerLinks
from penstock.raft.campaign import Campaign, Candidate, Prospective, Unattached, Voted
from penstock.raft.follower import Follower, Observer
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.resigned import Resigned
from penstock.raft.role import Role

NOBODY = -1
WINDOW_S: Final = 30.0

ROLES = (Unattached, Voted, Prospective, Candidate, Leader, Resigned, Follower, Observer)


class Watched(Protocol):
    """The driver, as far as it is told of."""

    @property
    def raft(self) -> Raft: ...

    @property
    def hears_leader(self) -> bool: ...


class Rate:
    """So many a second, of a total, since it was read half a minute ago, or longer if nobody has read it since."""

    def __init__(self) -> None:
        self._read: deque[tuple[float, int]] = deque()

    def of(self, total: int, now_s: float) -> float:
        read = self._read
        if not read or now_s - read[-1][0] >= WINDOW_S:
            read.append((now_s, total))
        while len(read) > 1 and now_s - read[1][0] >= WINDOW_S:
            read.popleft()
        since_s, before = read[0]
        return (total - before) / max(now_s - since_s, WINDOW_S)


class QuorumMetrics:
    def __init__(self) -> None:
        self.commits = Durations()
        self.elections = Durations()
        self._role: Role | None = None
        self._campaign_since_s: float | None = None
        self._came = [0, 0]
        """Records that came here until the role last changed: from the leader, and as the leader."""
        self._end_then = 0
        self._rates = Rate(), Rate()

    def look_at(self, raft: Raft, now_s: float) -> None:
        """An election lasts from this replica's first campaign until it knows the leader."""
        if raft.role is self._role:
            return
        end = raft.replica.log.end_offset
        self._came[isinstance(self._role, Leader)] += max(end - self._end_then, 0) if self._role is not None else 0
        self._role, self._end_then = raft.role, end
        if isinstance(raft.role, Campaign):
            if self._campaign_since_s is None:
                self._campaign_since_s = now_s
        elif self._campaign_since_s is not None and raft.leader_id is not None:
            self.elections.took(now_s - self._campaign_since_s)
            self._campaign_since_s = None

    def _rate(self, raft: Raft, *, leads: bool) -> float:
        now_s = asyncio.get_running_loop().time()
        self.look_at(raft, now_s)
        more = max(raft.replica.log.end_offset - self._end_then, 0) if isinstance(self._role, Leader) is leads else 0
        return self._rates[leads].of(self._came[leads] + more, now_s)

    def register(self, registry: Registry, driver: Watched, peers: PeerLinks) -> None:
        gauge = partial(Gauge, Group.QUORUM)

        def raft() -> Raft:
            return driver.raft

        self._register_channel(registry, peers)
        registry.add(
            StateSet(
                Group.QUORUM,
                "current-state",
                "Its role in the quorum",
                lambda: _state(raft().role),
                states=tuple(map(_state, ROLES)),
            ),
            gauge("current-leader", "The node that leads, -1 if that is not known", lambda: _id(raft().leader_id)),
            gauge("hears-leader", "1 while a leader answers this node, or it leads", lambda: int(driver.hears_leader)),
            gauge("current-vote", "The node that it has voted for in this epoch, or -1", lambda: _vote(raft())),
            gauge("current-epoch", "The newest epoch that it has heard of", lambda: raft().epoch),
            gauge("high-watermark", "All records before this offset are committed", lambda: raft().high_watermark),
            gauge("log-end-offset", "The offset of the next record", lambda: raft().replica.log.end_offset),
            gauge("log-end-epoch", "The epoch of the last record", lambda: raft().replica.log.last_epoch),
            gauge("number-of-voters", "Who votes", lambda: len(raft().quorum.voters)),
            gauge("number-of-observers", "Who fetches from this leader without a vote", lambda: _observers(raft())),
            gauge("uncommitted-voter-change", "1 while a change of voters is not committed", lambda: _changes(raft())),
            gauge("append-records-rate", "Records a second, as the leader", lambda: self._rate(raft(), leads=True)),
            gauge("fetch-records-rate", "Records a second, from the leader", lambda: self._rate(raft(), leads=False)),
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

    def _register_channel(self, registry: Registry, peers: PeerLinks) -> None:
        counter = partial(Counter, Group.QUORUM_CHANNEL)
        registry.add(
            counter("request-total", "Requests to other replicas", lambda: peers.traffic.requests),
            counter("response-total", "Their answers", lambda: peers.traffic.answers),
            counter("outgoing-byte-total", "Bytes of these requests", lambda: peers.traffic.bytes_out),
            counter("incoming-byte-total", "Bytes of these answers", lambda: peers.traffic.bytes_in),
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
