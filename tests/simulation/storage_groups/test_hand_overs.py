"""The lead of a storage group goes to another voter by each scheme, while hosts die, hang and lose their links."""

from typing import Any

import pytest
from tests.simulation.storage_groups.world import HAND_OVERS, TO_THE_DEAD, simulate

from penstock.leadership.transfer import Limits
from penstock.node.storage_groups import hand_over
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.raft.follower import Follower
from penstock.raft.leader import Leader
from penstock.replication.storage_groups.entries import Scheme

SEEDS = range(20)
SCHEMES = list(Scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(2))
def test_the_rules_hold(seed: int, scheme: Scheme) -> None:
    faults = (*HAND_OVERS, "kill", "cut", "one way", "pause")
    outcome = simulate(seed, faults=faults, seconds=8, scheme=scheme)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.answered > 20


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_hand_over_that_nobody_disturbs_takes_two_proposals(scheme: Scheme) -> None:
    for seed in range(2):
        outcome = simulate(seed, faults=("hand over",), seconds=5, scheme=scheme)
        assert outcome.violations == []
        assert outcome.taken_over > 0
        assert outcome.sent_on > 0
        assert outcome.taken_over_proposals == 2 * outcome.taken_over


@pytest.mark.parametrize("scheme", SCHEMES)
def test_another_one_leads_when_the_successor_dies(scheme: Scheme) -> None:
    outcome = simulate(1, faults=(TO_THE_DEAD,), seconds=12, scheme=scheme)
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])


# Bugs that are planted must be found.


def is_found(what: str, *faults: str, scheme: Scheme) -> bool:
    """Whether one of some seeds finds this."""
    outcomes = (simulate(seed, faults=faults, seconds=6, scheme=scheme) for seed in SEEDS)
    return any(what in violation for outcome in outcomes for violation in outcome.violations)


@pytest.mark.parametrize("scheme", [Scheme.MOVED, Scheme.ENDED])
def test_a_leader_that_serves_after_it_gave_up_its_lease(monkeypatch: pytest.MonkeyPatch, scheme: Scheme) -> None:
    monkeypatch.setattr(Leader, "lay_down", lambda leader, ends_in_ms, now_ms: None)
    assert is_found("hold the lease at once", "hand over and cut", scheme=scheme)


@pytest.mark.parametrize("scheme", [Scheme.RUNS_OUT, Scheme.MOVED])
def test_a_voter_that_votes_before_the_lease_is_over(monkeypatch: pytest.MonkeyPatch, scheme: Scheme) -> None:
    before = Follower.handed_over

    def handed_over(follower: Follower, successor_id: int, now_ms: int) -> None:
        follower.replica.promise.released()
        before(follower, successor_id, now_ms)

    monkeypatch.setattr(Follower, "handed_over", handed_over)
    assert is_found("hold the lease at once", "hand over and cut", scheme=scheme)


def test_voters_that_do_not_give_the_successor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def handed_over(follower: Follower, successor_id: int, now_ms: int) -> None:
        follower.roles.become_candidate(now_ms)

    monkeypatch.setattr(Follower, "handed_over", handed_over)
    outcomes = [simulate(seed, faults=("hand over",), seconds=5, scheme=Scheme.ENDED) for seed in range(4)]
    assert any(outcome.taken_over_proposals > 2 * outcome.taken_over for outcome in outcomes)


def test_a_hand_over_without_time_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    never = Limits(hold_ms=1 << 40, silent_ms=1 << 40, stand_ms=1 << 40)
    monkeypatch.setattr(hand_over, "limits_of", lambda scheme, lease_ms: never)
    outcome = simulate(1, faults=(TO_THE_DEAD,), seconds=12, scheme=Scheme.ENDED)
    assert any("nobody leads" in violation for violation in outcome.violations)


def test_what_is_sent_on_and_appended_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    sent_on = StorageGroupHandOver._outcome

    async def outcome(self: StorageGroupHandOver, one: Any) -> Any:
        self._held[one] = None
        return await sent_on(self, one)

    monkeypatch.setattr(StorageGroupHandOver, "_outcome", outcome)
    assert is_found("failed by our own fault", "hand over", scheme=Scheme.ENDED)
