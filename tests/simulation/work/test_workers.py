"""Workers on virtual time, killed, paused, cut off and told of other tasks: the rules hold, and bugs are noticed."""

from collections.abc import Sequence

import pytest
from tests.simulation.work.world import simulate

from penstock.work import incremental
from penstock.work.effects import Effect
from penstock.work.plan import Member, Task
from penstock.work.worker import Worker

SEEDS = range(60)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_the_rules_hold(first: int) -> None:
    for seed in range(first, first + 10):
        assert simulate(seed) == [], f"seed {seed}"


def test_an_assignment_is_not_obeyed_when_its_session_is_over() -> None:
    """A worker was stopped while the answer to its SyncGroup was on its way; others had its tasks when it went on."""
    assert simulate(3009) == []


def found() -> str:
    """What the first of the seeds finds that finds anything."""
    return next((violations[0] for seed in SEEDS if (violations := simulate(seed))), "")


def test_a_task_that_moves_is_given_before_it_has_ended_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(tasks: Sequence[Task], members: Sequence[Member]) -> dict[str, str]:
        return {}

    monkeypatch.setattr(incremental, "_owners", nobody)
    assert "runs at" in found()


def test_what_was_given_up_is_not_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Worker.joined

    def join_without_claims(self: Worker, *answer: object) -> list[Effect]:
        self._claimed = ()
        return joined(self, *answer)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "joined", join_without_claims)
    assert "after healing" in found()


def test_an_eager_worker_that_joins_while_its_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "_rejoin", Worker._join)
    assert " runs " in found()


@pytest.mark.parametrize(("part", "said"), [("bounded", "after healing"), ("beside_what_ends", "cores")])
def test_a_plan_forgets_what_a_worker_has_room_for(monkeypatch: pytest.MonkeyPatch, part: str, said: str) -> None:
    """Without the one nobody else gets what is too much, without the other it begins beside what still has to end."""
    monkeypatch.setattr(incremental, part, lambda plan, tasks, members: plan)
    assert said in found()


def test_a_worker_that_believes_in_its_session_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    tick = Worker.tick

    def never_fenced(self: Worker, now_ms: int) -> list[Effect]:
        self._alive_ms = now_ms
        return tick(self, now_ms)

    monkeypatch.setattr(Worker, "tick", never_fenced)
    assert "runs at" in found()
