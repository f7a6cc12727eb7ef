import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.simulation import planted
from tests.simulation.every_python import told_in_every_python
from tests.simulation.simulate import SimulationError, simulate
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import FOUND, seeds
from tests.simulation.world import World

from penstock.raft.settings import RaftSettings

Bug = Callable[[pytest.MonkeyPatch], None]
ROOT = Path(__file__).resolve().parents[2]
SEEDS = 1000
CHUNK = 100
KEPT: dict[int, dict[str, Any]] = {460719675: {"voter_changes": 0.0}}
"""Seeds that find a bug of `tests/planted`, which says what it is; `make planted` plants it and looks. And what of
their plan is given."""

STORMY = {
    "crashes": 0.01,
    "partitions": 0.005,
    "longest_down_ms": 300,
    "snapshots": 0.0,
    "kraft_version": 0,
    "voter_changes": 0.0,
}
FORGETFUL = {
    **STORMY,
    "crashes": 0.0,
    "partitions": 0.0,
    "crash_after_persist": 0.5,
    "crash_between_effects": 0.0,
    "same_lots": True,
    "longest_down_ms": 5,
    "longest_delay_ms": 50,
    "trouble_ms": 10_000,
}
LEASED: dict[str, Any] = {
    "leases": True,
    "voters": 3,
    "observers": 0,
    "settings": RaftSettings(
        election_timeout_ms=100,
        election_backoff_max_ms=50,
        fetch_timeout_ms=100,
        request_timeout_ms=100,
        fetch_max_wait_ms=25,
    ),
    "clocks": (0.97, 1.03, 1.03),
    "trouble_ms": 4000,
    "longest_delay_ms": 2,
    "late": 0.1,
    "loss": 0.0,
    "duplication": 0.3,
    "partitions": 0.01,
    "crashes": 0.0,
    "crash_after_persist": 0.0,
    "crash_between_effects": 0.0,
    "restart_before_vote": 0.1,
    "resignations": 0.0,
    "slow_disks": (False, False, False),
}
"""Messages that come late, and leaders that are cut off: whoever counts wrongly is found soon."""
UPGRADED: dict[str, Any] = {"kraft_version": 0, "voter_changes": 0.003, "snapshots": 0.005, "crashes": 0.003}
"""Voters that are fixed, until a leader knows them all and is asked to name them."""
UPGRADED_IN_VAIN: dict[str, Any] = {
    "kraft_version": 0,
    "voter_changes": 0.0007,
    "snapshots": 0.03,
    "partitions": 0.0015,
    "appends": 0.03,
    "crashes": 0.0,
    "crash_between_effects": 0.0,
    "crash_after_persist": 0.0,
    "restart_before_vote": 0.0,
    "resignations": 0.0,
    "loss": 0.0,
    "duplication": 0.0,
    "late": 0.0,
    "trouble_ms": 8000,
}
"""Leaders that are cut off name the voters; what the others go on with is far ahead when they come back."""
PLANTED: dict[Bug, tuple[Sequence[int], dict[str, Any]]] = {
    planted.vote_not_persisted: (seeds(100, first=51), FORGETFUL),
    planted.high_watermark_of_a_minority: (seeds(50), {}),
    planted.divergence_not_found: (seeds(50), {}),
    planted.divergence_not_cut: (seeds(50), {}),
    planted.fetch_before_flush: (seeds(200, first=24), STORMY),
    planted.removed_voters_never_stand: (
        seeds(200, first=78),
        {"kraft_version": 1, "voter_changes": 0.005, "crashes": 0.005},
    ),
    planted.lone_voter_leads_at_once: (seeds(200, first=143), {}),
    planted.lease_counted_from_the_promise: (seeds(20), LEASED),
    planted.promise_of_any_answer: (seeds(60), LEASED),
    planted.promise_not_kept: (seeds(20, first=5), LEASED),
    planted.promise_forgotten: (seeds(40, first=5), LEASED),
    planted.leader_acts_before_it_has_committed: (seeds(20, first=2), LEASED),
    planted.clocks_that_drift_more: (seeds(40, first=5), LEASED),
    planted.voters_stay_where_a_snapshot_names_none: (seeds(60, first=7), UPGRADED_IN_VAIN),
    planted.upgrade_in_two_batches: (seeds(20), UPGRADED),
    planted.upgrade_without_silent_voters: (seeds(20, first=3), UPGRADED),
    planted.voters_tell_one_leader_only: (seeds(20, first=4), UPGRADED),
    planted.leader_keeps_what_the_log_says_of_itself: (seeds(20, first=13), UPGRADED),
    planted.voters_of_snapshots_ignored: (seeds(200), {"kraft_version": 1, "snapshots": 0.005, "voter_changes": 0.005}),
}
"""In one of these seeds the bug must be found; and what of their plan is given."""


def search(bug: Bug) -> None:
    tried, given = PLANTED[bug]
    for seed in tried:
        simulate(seed, partial(World, **given))


@pytest.mark.parametrize("first", soaked_after(2, range(0, SEEDS, CHUNK)))
def test_seeds(first: int) -> None:
    outcomes = [simulate(seed) for seed in range(first, first + CHUNK)]
    assert sum(outcome.committed for outcome in outcomes) > 10 * CHUNK, "the clusters do hardly anything"
    assert sum(outcome.epochs for outcome in outcomes) > CHUNK, "there are hardly any elections"


def test_leases_are_held_alone_and_most_of_the_time() -> None:
    outcomes = [simulate(seed, partial(World, **LEASED)) for seed in range(20)]
    assert sum(outcome.leases for outcome in outcomes) > sum(outcome.events for outcome in outcomes) // 2
    assert sum(outcome.epochs for outcome in outcomes) > 3 * len(outcomes), "leaders hardly change"


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_failed_once(seed: int) -> None:
    simulate(seed, partial(World, **KEPT[seed]))


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=FOUND):
        search(bug)


def test_a_failure_tells_its_seed_and_how_it_came_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.divergence_not_found(monkeypatch)
    with pytest.raises(SimulationError) as failure:
        search(planted.divergence_not_found)
    *trace, verdict = str(failure.value).splitlines()
    assert re.match(r"seed \d+: InvariantError: ", verdict)
    assert any(re.match(r"\d+ n\d .*: (Leader|Follower) e\d+ \d+\.\.\d+\.\.\d+\.\.\d+$", line) for line in trace)


def test_a_seed_is_the_same_in_every_python() -> None:
    """The order of sets of strings changes with each start of Python; nothing may depend on it."""
    script = "from tests.simulation.simulate import simulate; print([simulate(seed) for seed in range(40, 50)])"
    assert told_in_every_python(script).count(b"trace_hash") == 10
