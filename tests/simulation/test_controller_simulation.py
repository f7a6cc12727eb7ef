"""The controller alone under thousands of events: brokers that come and go, controllers that take over, operators."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.simulation import controller_planted as planted
from tests.simulation.controller_world import SimulationError, simulate
from tests.simulation.every_python import told_in_every_python
from tests.simulation.soaked import soaked_after

Bug = Callable[[pytest.MonkeyPatch], None]
ROOT = Path(__file__).resolve().parents[2]
SEEDS = 200
CHUNK = 50
KEPT = [3064367301]
"""Seeds that find a bug of `tests/planted`, which says what it is; `make planted` plants it and looks."""
PLANTED: dict[Bug, int] = {
    planted.fenced_brokers_lead: 20,
    planted.cordoned_brokers_get_replicas: 40,
    planted.limits_end_before_the_moves: 60,
    planted.unclean_without_leave: 60,
    planted.earlier_lives_change_the_isr: 20,
    planted.anybody_comes_in_sync: 20,
    planted.every_stop_was_clean: 40,
    planted.everybody_is_eligible_for_ever: 40,
    planted.producer_ids_given_again: 100,
    planted.moves_forgotten_at_a_takeover: 100,
    planted.sessions_forgotten_at_a_takeover: 60,
    planted.second_incarnation_accepted: 20,
    planted.replica_removed_without_a_new_epoch: 100,
    planted.two_move_at_once: 60,
    planted.a_move_of_the_controller_before_forgotten: 40,
    planted.moves_whatever_is_in_sync: 20,
    planted.moves_that_are_never_given_up: 20,
    planted.groups_that_the_controller_elects: 20,
    planted.late_claims_believed: 20,
    planted.groups_that_arrive_at_once: 20,
    planted.moves_ended_by_who_does_not_know_them: 200,
    planted.moves_that_forget_where_they_began: 40,
}
"""At most so many seeds until the bug is found."""


def search(seeds: int) -> None:
    for seed in range(seeds):
        simulate(seed)


@pytest.mark.parametrize("first", soaked_after(2, range(0, SEEDS, CHUNK)))
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
    with pytest.raises(SimulationError, match=r"seed \d+: \w+"):
        search(PLANTED[bug])


def test_a_seed_is_the_same_in_every_python() -> None:
    """The order of sets of strings changes with each start of Python; nothing may depend on it."""
    script = "from tests.simulation.controller_world import simulate; print([simulate(seed) for seed in range(5)])"
    assert told_in_every_python(script).count(b"trace_hash") == 5
