"""The simulation finds bugs that a person might write into the coordinator of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.simulation.consumer_groups.simulate import simulate, simulate_both

from penstock.client.consumer.reconciling import Reconciling
from penstock.coordinator.group import epoch_story, historian
from penstock.coordinator.group.consumer import (
    classic_members,
    downgrade,
    embedded,
    fencing,
    groups,
    reconcile,
    timing,
)
from penstock.coordinator.group.consumer.state import ConsumerState
from penstock.coordinator.group.consumer.table import ConsumerTable
from penstock.coordinator.group.consumer.values import Current
from penstock.coordinator.group.parts import DecidedParts
from penstock.coordinator.group.records import GroupRecord
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
    def restore(self: groups.ConsumerGroups, table: Any, group_id: str, state: Any, now_ms: int) -> Iterator[None]:
        table.groups[group_id] = self._house.new_group(group_id)
        yield

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


def answered_as_before_whatever_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member whose heartbeat changed nothing never hears of anything again."""
    monkeypatch.setattr(DecidedParts, "changes", property(lambda self: 0, lambda self, changes: None))


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
    monkeypatch.setattr(epoch_story._UnderWay, "saw", lambda self, *_, **__: self.behind.clear())
    monkeypatch.setattr(epoch_story, "STABLE", "Reconciling")


def why_a_member_goes_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(historian.Historian, "because", lambda self, group_id, member_id, what: None)


def a_client_says_what_it_is_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client acknowledges what it is to give up before it has."""
    asked = Reconciling.request

    def early(self: Reconciling) -> Any:
        owned, coming = self.owned, self._coming
        self.owned, self._coming, self._says_owned = self.target, None, True
        request = asked(self)
        self.owned, self._coming = owned, coming
        return request

    monkeypatch.setattr(Reconciling, "request", early)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    free_by_the_target,
    answered_before_the_commit,
    given_out_before_it_is_given_up,
    nothing_taken_back,
    timers_not_taken_back,
    no_sessions_after_a_load,
    no_epoch_when_a_member_goes,
    owners_of_any_epoch_forgotten,
    answered_as_before_whatever_was_decided,
    told_beside_the_batch,
    told_twice,
    ended_by_the_first_that_comes,
    why_a_member_goes_is_not_noted,
    a_client_says_what_it_is_to_have,
)


# -- where both protocols are in one group ---------------------------------------------------------------------------


def downgrade_in_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer group is taken away by one write, and the classic one comes with the next."""
    write = ConsumerTable.write

    def split(self: ConsumerTable, draft: Any, now_ms: int, **rest: Any) -> None:
        if len(draft.records) > 1 and isinstance(draft.records[-1], GroupRecord):
            first = Draft(draft.image)
            first.records, first.before = draft.records[:-1], draft.before[:-1]
            draft.records, draft.before = draft.records[-1:], draft.before[-1:]
            self.table.append_draft(first, now_ms)
        write(self, draft, now_ms, **rest)

    monkeypatch.setattr(ConsumerTable, "write", split)


def another_epochs_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A classic member is told what it is to have, not what it has."""
    current = ConsumerState.current

    def sync(house: ConsumerTable, token: Any, group: Any, request: Any, now_ms: int) -> None:
        def as_targeted(self: ConsumerState, member_id: str) -> Current:
            target = {topic: dict.fromkeys(indexes, 1) for topic, indexes in self.target(member_id).items()}
            return current(self, member_id).replace(assigned=target)

        with monkeypatch.context() as patched:
            patched.setattr(ConsumerState, "current", as_targeted)
            synced(house, token, group, request, now_ms)

    synced = classic_members.sync
    monkeypatch.setattr(classic_members, "sync", sync)


def whoever_was_put_out_comes_back_with_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JoinGroup of a member that is not known says what it owns, and is let in."""
    admitted = classic_members._admitted

    def as_a_newcomer(draft: Any, group: Any, member_id: str, said: embedded.Said, join: Any) -> Any:
        return admitted(draft, group, member_id, said.replace(owned=()), join)

    monkeypatch.setattr(classic_members, "_admitted", as_a_newcomer)


def the_classic_group_stays_when_the_downgrade_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downgrade, "wrote", lambda house, group_id, error, now_ms: None)


OF_BOTH: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    downgrade_in_two_batches,
    another_epochs_target,
    whoever_was_put_out_comes_back_with_what_it_had,
    the_classic_group_stays_when_the_downgrade_fails,
)

PLANTED = [*((plant, simulate) for plant in BUGS), *((plant, simulate_both) for plant in OF_BOTH)]


@pytest.mark.parametrize(("plant", "run"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], run: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            run(seed)
        except AssertionError:  # a `ViolationError`, or what the machine takes for granted
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find it")
