"""Nothing goes that a group has not consumed, whoever coordinates, and what all have consumed goes in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.simulation.consumed import world as worlds
from tests.simulation.consumed.simulate import simulate

from penstock.coordinator.group.table import GroupTable
from penstock.protocol.errors import KafkaError
from penstock.replication import consumed
from penstock.replication.consumed import Consumption, Positions, Question, Shard

SEEDS = 20
MORE_SEEDS = 2_000
MOST_SEEDS = 40


def test_nothing_goes_that_somebody_needs() -> None:
    outcomes = [simulate(seed) for seed in range(SEEDS)]
    assert sum(outcome.moves for outcome in outcomes) > SEEDS
    assert sum(outcome.deletions for outcome in outcomes) > SEEDS
    assert sum(outcome.failed_rounds for outcome in outcomes) > SEEDS


@pytest.mark.soak
def test_so_it_is_from_many_seeds() -> None:
    for seed in range(SEEDS, MORE_SEEDS):
        simulate(seed)


def a_coordinator_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What those say who have answered is all."""
    positions = Question.positions

    def of_those_that_answered(self: Question, epochs: Mapping[Shard, int]) -> Positions:
        self._answers |= {
            shard: consumed.Answer(epoch, worlds.SHARDS, {})
            for shard, epoch in epochs.items()
            if shard not in self._answers
        }
        return positions(self, epochs)

    monkeypatch.setattr(Question, "positions", of_those_that_answered)


def an_old_coordinator_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = Question.positions
    monkeypatch.setattr(Question, "positions", lambda self, epochs: positions(self, dict.fromkeys(epochs, -1)))


def an_answer_kept_for_the_next_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that does not answer now has answered before."""
    before: dict[Any, Any] = {}

    def answered(self: Question, shard: Shard, answer: consumed.Answer) -> None:
        before[shard] = answer
        self._answers = before

    monkeypatch.setattr(Question, "answered", answered)


def past_what_is_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(consumed_to: int, log_start_offset: int, high_watermark: int, last_stable_offset: int) -> int:
        return max(log_start_offset, min(consumed_to, high_watermark))

    monkeypatch.setattr(worlds, "new_start", start)


def what_is_only_decided_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupTable, "uncommitted", lambda *_, **__: iter(()))


def one_partition_s_fastest_group_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fastest(self: Consumption, positions: Positions, grace_ms: int, now_ms: int) -> int:
        return max((offsets.get(0, 0) for offsets in positions.values()), default=0)

    monkeypatch.setattr(Consumption, "consumed_to", fastest)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    a_coordinator_forgotten,
    an_old_coordinator_believed,
    an_answer_kept_for_the_next_question,
    past_what_is_stable,
    what_is_only_decided_counts,
    one_partition_s_fastest_group_counts,
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            simulate(seed)
        except (AssertionError, KafkaError):
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find it")
