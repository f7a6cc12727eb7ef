"""How many records a second come to a replica, told by looking at the end of its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.quorum.metrics import WINDOW_S, QuorumMetrics, Rate
from penstock.raft.campaign import Candidate
from penstock.raft.follower import Follower
from penstock.raft.leader import Leader


def test_a_rate_is_of_the_last_half_minute_or_of_the_time_since_it_was_read() -> None:
    rate = Rate()
    assert rate.of(1_000, 0.0) == 0
    assert rate.of(1_300, 10.0) == 300 / WINDOW_S
    assert rate.of(1_600, 30.0) == 600 / 30
    assert rate.of(1_600, 60.0) == 0
    assert rate.of(2_000, 1_060.0) == 0.4


def test_who_reads_it_often_changes_nothing() -> None:
    often, seldom = Rate(), Rate()
    for second in range(120):
        found = often.of(5 * second, second)
        if second % 30 == 0:
            last = seldom.of(5 * second, second)
    assert (found, last) == (5, 5)
    assert len(often._read) <= 3


class Roles:
    """A replica whose role and log change."""

    def __init__(self) -> None:
        self.role: Any = Follower.__new__(Follower)
        self.leader_id: int | None = 2
        self.replica = SimpleNamespace(log=SimpleNamespace(end_offset=0))

    def become(self, kind: Any, *, leader: int | None, end: int) -> None:
        self.role, self.leader_id = kind.__new__(kind), leader
        self.replica.log.end_offset = end


def test_an_election_lasts_from_the_first_campaign_until_the_leader_is_known() -> None:
    roles, metrics = Roles(), QuorumMetrics()
    took: list[float] = []
    for now_s, kind, leader, elections in (
        (1.0, Follower, 2, []),
        (2.0, Candidate, None, []),
        (3.5, Candidate, None, []),
        (4.0, Follower, None, []),
        (5.0, Candidate, None, []),
        (6.0, Leader, 1, [4.0]),
        (7.0, Follower, 2, [4.0]),
        (8.0, Candidate, None, [4.0]),
        (8.5, Follower, 2, [4.0, 0.5]),
    ):
        roles.become(kind, leader=leader, end=0)
        before = metrics.elections.total
        metrics.look_at(cast("Any", roles), now_s)
        if metrics.elections.total > before:
            took.append((metrics.elections.total - before) / 1_000_000)
        assert took == elections


def test_records_count_for_the_role_in_which_they_came() -> None:
    roles, metrics = Roles(), QuorumMetrics()
    for kind, end, came in (
        (Follower, 10, [0, 0]),
        (Leader, 17, [7, 0]),
        (Follower, 20, [7, 3]),
        (Follower, 18, [7, 3]),
        (Leader, 18, [7, 3]),
        (Leader, 23, [7, 8]),
    ):
        roles.become(kind, leader=1, end=end)
        metrics.look_at(cast("Any", roles), 1.0)
        roles.replica.log.end_offset += 90
        metrics.look_at(cast("Any", roles), 1.0)
        roles.replica.log.end_offset -= 90
        assert metrics._came == came, "the role is the same until it changes"


@pytest.mark.parametrize(
    ("kind", "leads", "has"),
    [(Leader, True, 30.0), (Leader, False, 0.0), (Follower, False, 30.0), (Follower, True, 0.0)],
)
def test_records_that_came_in_the_role_it_has_count_as_well(
    monkeypatch: pytest.MonkeyPatch, kind: type, leads: bool, has: float
) -> None:
    roles, metrics, times = Roles(), QuorumMetrics(), iter([0.0, WINDOW_S])
    loop = SimpleNamespace(time=lambda: next(times))
    monkeypatch.setattr("penstock.node.quorum.metrics.asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    roles.become(kind, leader=1, end=5)
    assert metrics._rate(cast("Any", roles), leads=leads) == 0
    roles.replica.log.end_offset = 5 + int(30 * WINDOW_S)
    assert metrics._rate(cast("Any", roles), leads=leads) == has
