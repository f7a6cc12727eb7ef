"""The controller alone under thousands of events: brokers that come and go, controllers that take over, operators."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.simulation import controller_planted as planted
from tests.simulation.controller_world import SimulationError, simulate
from tests.simulation.every_python import told_in_every_python
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import FOUND, seeds

Bug = Callable[[pytest.MonkeyPatch], None]
ROOT = Path(__file__).resolve().parents[2]
SEEDS = 200
CHUNK = 50
KEPT = [3064367301]
"""Seeds that find a bug of `tests/planted`, which says what it is; `make planted` plants it and looks."""
PLANTED: dict[Bug, Sequence[int]] = {
    planted.fenced_brokers_lead: seeds(20),
    planted.cordoned_brokers_get_replicas: seeds(40),
    planted.limits_end_before_the_moves: seeds(60, first=7),
    planted.unclean_without_leave: seeds(60),
    planted.earlier_lives_change_the_isr: seeds(20),
    planted.anybody_comes_in_sync: seeds(20, first=3),
    planted.every_stop_was_clean: seeds(40),
    planted.everybody_is_eligible_for_ever: seeds(40, first=24),
    planted.producer_ids_given_again: seeds(100),
    planted.moves_forgotten_at_a_takeover: seeds(100),
    planted.sessions_forgotten_at_a_takeover: seeds(60),
    planted.second_incarnation_accepted: seeds(20),
    planted.replica_removed_without_a_new_epoch: seeds(100, first=47),
    planted.two_move_at_once: seeds(60),
    planted.a_move_of_the_controller_before_forgotten: seeds(40),
    planted.moves_whatever_is_in_sync: seeds(20),
    planted.moves_that_are_never_given_up: seeds(20, first=11),
    planted.groups_that_the_controller_elects: seeds(20, first=12),
    planted.late_claims_believed: seeds(20),
    planted.groups_that_arrive_at_once: seeds(20),
    planted.moves_ended_by_who_does_not_know_them: seeds(200, first=75),
    planted.moves_that_forget_where_they_began: seeds(40, first=35),
}
"""In one of these seeds the bug must be found."""


def search(tried: Sequence[int]) -> None:
    for seed in tried:
        simulate(seed)


@pytest.mark.parametrize("first", soaked_after(1, range(0, SEEDS, CHUNK)))
def test_seeds(first: int) -> None:
    outcomes = [simulate(seed) for seed in range(first, first + CHUNK)]
    assert sum(outcome.takeovers for outcome in outcomes) > CHUNK, "controllers hardly ever change"
    assert sum(outcome.fenced for outcome in outcomes) > CHUNK // 3, "hardly any broker is fenced"
    assert sum(outcome.topics for outcome in outcomes) > CHUNK, "there are hardly any topics"


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_failed_once(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=FOUND):
        search(PLANTED[bug])


def test_a_seed_is_the_same_in_every_python() -> None:
    """The order of sets of strings changes with each start of Python; nothing may depend on it."""
    script = "from tests.simulation.controller_world import simulate; print([simulate(seed) for seed in range(5)])"
    assert told_in_every_python(script).count(b"trace_hash") == 5
