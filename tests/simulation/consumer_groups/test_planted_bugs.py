"""The simulation finds bugs that a person might write into the coordinator of consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.simulation.consumer_groups.simulate import simulate

from penstock.coordinator.group import historian
from penstock.coordinator.group.consumer import fencing, groups, reconcile, story, timing
from penstock.coordinator.group.consumer.state import ConsumerState
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.values import Current
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode

MOST_SEEDS = 30


def free_by_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition counts as free when it is in no other target, though somebody still has it."""
    reconciled = reconcile.reconciled

    def by_target(member: Current, wanted: reconcile.Wanted, *rest: Any, **named: Any) -> Current:
        return reconciled(member, wanted.replace(is_taken=lambda topic, partition: False), *rest, **named)

    monkeypatch.setattr(reconcile, "reconciled", by_target)


def answered_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member is told of an assignment that may be lost."""
    write = ConsumerTable.write

    def early(self: ConsumerTable, draft: Any, now_ms: int, **rest: Any) -> None:
        token, answer = rest.pop("token", None), rest.pop("answer", None)
        write(self, draft, now_ms, **rest)
        if token is not None:
            self.table.reply(token, answer(ErrorCode.NONE))

    monkeypatch.setattr(ConsumerTable, "write", early)


def given_out_before_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a member is to give up is free from the moment at which it is told so."""
    index = ConsumerState._index_owned

    def without_revoking(self: ConsumerState, member_id: str, before: Current | None, now: Current | None) -> None:
        index(self, member_id, before, None if now is None else now.replace(revoking={}))

    monkeypatch.setattr(ConsumerState, "_index_owned", without_revoking)


def nothing_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails leaves what was decided."""
    monkeypatch.setattr(Draft, "take_back", lambda self: None)


def timers_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member whose removal could not be written is back without a session."""
    monkeypatch.setattr(timing, "wrote", lambda house, group, error, now_ms: None)


def no_sessions_after_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def restore(self: groups.ConsumerGroups, table: Any, group_id: str, state: Any, now_ms: int) -> None:
        table.groups[group_id] = self._house.new_group(group_id)

    monkeypatch.setattr(groups.ConsumerGroups, "_restore", restore)


def no_epoch_when_a_member_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a member had that went is assigned to nobody."""

    def remove(house: ConsumerTable, draft: Any, group: Any, member_ids: list[str]) -> None:
        for member_id in member_ids:
            fencing.take_out(draft, group, member_id)

    monkeypatch.setattr(fencing, "remove", remove)


def owners_of_any_epoch_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is put out takes its partitions with it."""
    take_out = fencing.take_out

    def keep(draft: Any, group: Any, member_id: str) -> None:
        owned = dict(group.state.owners)
        take_out(draft, group, member_id)
        group.state.owners.update({place: one for place, one in owned.items() if isinstance(place[0], UUID)})

    monkeypatch.setattr(fencing, "take_out", keep)


def told_beside_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history knows of an epoch, and the log does not."""
    tell = historian.Historian.tell

    def beside(self: Any, draft: Draft[Any], now_ms: int, **rest: Any) -> None:
        known = len(draft.records)
        tell(self, draft, now_ms, **rest)
        del draft.records[known:], draft.before[known:]

    monkeypatch.setattr(historian.Historian, "tell", beside)


def told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = historian.Historian.tell

    def twice(self: Any, *arguments: Any, **rest: Any) -> None:
        tell(self, *arguments, **rest)
        tell(self, *arguments, **rest)

    monkeypatch.setattr(historian.Historian, "tell", twice)


def ended_by_the_first_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch is told to have ended when one member has come to its target."""
    monkeypatch.setattr(story._UnderWay, "saw", lambda self, member_id, current, now_ms: self.behind.clear())
    monkeypatch.setattr(story, "STABLE", "Reconciling")


def why_a_member_goes_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(historian.Historian, "because", lambda self, group_id, member_id, what: None)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    free_by_the_target,
    answered_before_the_commit,
    given_out_before_it_is_given_up,
    nothing_taken_back,
    timers_not_taken_back,
    no_sessions_after_a_load,
    no_epoch_when_a_member_goes,
    owners_of_any_epoch_forgotten,
    told_beside_the_batch,
    told_twice,
    ended_by_the_first_that_comes,
    why_a_member_goes_is_not_noted,
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            simulate(seed)
        except AssertionError:  # a `ViolationError`, or what the machine takes for granted
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find it")
