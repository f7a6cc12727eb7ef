"""What a replica of the quorum says of itself: each figure by itself, in each role."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.node.metrics.registry import Registry
from penstock.node.quorum import metrics
from penstock.node.quorum.metrics import WINDOW_S, QuorumMetrics
from penstock.raft.campaign import Candidate, Prospective, Unattached, Voted
from penstock.raft.follower import Follower, Observer
from penstock.raft.leader import Leader
from penstock.raft.resigned import Resigned


def role(kind: Any) -> Any:
    made: Any = kind.__new__(kind)
    if kind is Leader:
        made.replicas = SimpleNamespace(observers=lambda quorum: ["x", "y"])
    return made


class Replica:
    """A raft of which each figure is another number, and the clock that it is read by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type = Follower) -> None:
        self.now_s = 0.0
        self.raft: Any = SimpleNamespace(
            role=role(kind),
            leader_id=5,
            epoch=6,
            high_watermark=70,
            quorum=SimpleNamespace(voters=(1, 2, 3)),
            replica=SimpleNamespace(
                log=SimpleNamespace(end_offset=80, last_epoch=4),
                state=SimpleNamespace(voted=SimpleNamespace(id=9)),
                voters=SimpleNamespace(latest_offset=69),
            ),
        )
        self.metrics, self.registry = QuorumMetrics(), Registry()
        self.driver: Any = SimpleNamespace(raft=self.raft, hears_leader=True)
        traffic = SimpleNamespace(requests=11, answers=12, bytes_out=13, bytes_in=14)
        self.metrics.register(self.registry, self.driver, cast("Any", SimpleNamespace(traffic=traffic)))
        clock = SimpleNamespace(time=lambda: self.now_s)
        monkeypatch.setattr(metrics, "asyncio", stand_in(asyncio, get_running_loop=lambda: clock))

    def figures(self) -> dict[str, Any]:
        return {metric.name: value for metric in self.registry for labels, value in metric.samples() if not labels}

    def rates(self, after_s: float = 0.0) -> tuple[float, float]:
        """In the window: as the leader, and from the leader."""
        self.now_s += after_s
        found = self.figures()
        return found["append-records-rate"] * WINDOW_S, found["fetch-records-rate"] * WINDOW_S

    def becomes(self, kind: type, end_offset: int, leader_id: int | None = None, after_s: float = 0.0) -> None:
        self.now_s += after_s
        self.raft.role, self.raft.leader_id, self.raft.replica.log.end_offset = role(kind), leader_id, end_offset
        self.metrics.look_at(self.raft, self.now_s)


NUMBERS = {
    "current-leader": 5,
    "hears-leader": 1,
    "current-vote": 9,
    "current-epoch": 6,
    "high-watermark": 70,
    "log-end-offset": 80,
    "log-end-epoch": 4,
    "number-of-voters": 3,
    "number-of-observers": 0,
    "uncommitted-voter-change": 0,
    "append-records-rate": 0,
    "fetch-records-rate": 0,
    "request-total": 11,
    "response-total": 12,
    "outgoing-byte-total": 13,
    "incoming-byte-total": 14,
}


def test_each_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    found = replica.figures()
    assert {name: found[name] for name in NUMBERS} == NUMBERS
    raft = replica.raft
    raft.leader_id = raft.replica.state.voted = None
    replica.driver.hears_leader = False
    raft.replica.voters.latest_offset = 70
    changed = {"current-leader": -1, "current-vote": -1, "hears-leader": 0, "uncommitted-voter-change": 1}
    found = replica.figures()
    assert {name: found[name] for name in NUMBERS} == NUMBERS | changed
    raft.replica.voters.latest_offset = 71
    assert replica.figures()["uncommitted-voter-change"] == 1
    raft.role = role(Leader)
    assert replica.figures()["number-of-observers"] == 2


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Unattached, "unattached"),
        (Voted, "unattached-voted"),
        (Prospective, "prospective"),
        (Candidate, "candidate"),
        (Leader, "leader"),
        (Resigned, "resigned"),
        (Follower, "follower"),
        (Observer, "observer"),
    ],
)
def test_its_role(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
    assert Replica(monkeypatch, kind).figures()["current-state"] == name


def test_records_count_for_the_role_in_which_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    assert replica.rates() == (0, 0), "what was there at the start did not come"
    replica.raft.replica.log.end_offset = 90
    assert replica.rates() == (0, 10)
    replica.raft.replica.log.end_offset = 87
    assert replica.rates() == (0, 7)
    replica.becomes(Leader, 92)
    assert replica.rates() == (0, 12)
    replica.raft.replica.log.end_offset = 95
    assert replica.rates() == (3, 12)
    replica.becomes(Unattached, 96)
    assert replica.rates() == (4, 12)
    replica.becomes(Follower, 90)
    assert replica.rates() == (4, 12), "what was cut off does not count"
    replica.raft.replica.log.end_offset = 85
    assert replica.rates() == (4, 12)
    replica.becomes(Leader, 85)
    assert replica.rates() == (4, 12)
    replica.raft.replica.log.end_offset = 86
    assert replica.rates(WINDOW_S) == (5, 12)
    assert replica.rates(WINDOW_S) == (0, 0)


def test_an_election_lasts_from_the_first_campaign_until_the_leader_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    elections = replica.metrics.elections
    replica.metrics.look_at(replica.raft, 0.0)
    assert elections.count == 0, "it had not campaigned"
    replica.becomes(Prospective, 80, after_s=1)
    replica.becomes(Candidate, 80, after_s=2)
    replica.becomes(Unattached, 80, after_s=2)
    assert elections.count == 0, "the leader is not known"
    replica.becomes(Candidate, 80, after_s=1)
    replica.becomes(Leader, 80, leader_id=0, after_s=3)
    assert (elections.count, elections.sum) == (1, 8_000)
    replica.becomes(Follower, 80, leader_id=2, after_s=5)
    assert elections.count == 1
    replica.becomes(Prospective, 80, after_s=1)
    replica.becomes(Follower, 80, leader_id=2, after_s=0.5)
    assert (elections.count, elections.sum) == (2, 8_500)
