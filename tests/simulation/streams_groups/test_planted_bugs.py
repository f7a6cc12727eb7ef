"""The simulation finds bugs that a person might write into the coordinator of streams groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.simulation.streams_groups.simulate import simulate

from penstock.coordinator.group.streams import current as current_rules
from penstock.coordinator.group.streams import groups, heartbeat, timing
from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.coordinator.group.streams.current import Wanted
from penstock.coordinator.group.streams.state import StreamsState
from penstock.coordinator.group.streams.table import StreamsTable, take_out
from penstock.coordinator.group.streams.values import Current, Held
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode

MOST_SEEDS = 40


def free_by_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task counts as free when it is in no other target, though somebody still runs it."""
    monkeypatch.setattr(StreamsState, "active_process", lambda self, subtopology, partition: None)


def free_in_ones_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member of the process has it on disk."""
    monkeypatch.setattr(StreamsState, "standby_processes", lambda self, subtopology, partition: frozenset())


def given_out_before_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    index = StreamsState._index_tasks

    def without_revoking(self: StreamsState, member_id: str, before: Current | None, now: Current | None) -> None:
        past = None if before is None else before.replace(revoking=Held())
        index(self, member_id, past, None if now is None else now.replace(revoking=Held()))

    monkeypatch.setattr(StreamsState, "_index_tasks", without_revoking)


def silence_counts_as_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not say what it has is taken for having nothing."""

    def hasty(current: Current, process_id: str, wanted: Wanted, said: Roles | None) -> Current:
        return current_rules.reconciled(current, process_id, wanted, said or Roles())

    monkeypatch.setattr(heartbeat, "reconciled", hasty)


def answered_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    write = StreamsTable.write

    def early(self: StreamsTable, draft: Any, now_ms: int, **rest: Any) -> None:
        token, answer = rest.pop("token", None), rest.pop("answer", None)
        write(self, draft, now_ms, **rest)
        if token is not None:
            self.table.reply(token, answer(ErrorCode.NONE))

    monkeypatch.setattr(StreamsTable, "write", early)


def nothing_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "take_back", lambda self: None)


def timers_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member whose removal could not be written is back without a session."""
    monkeypatch.setattr(timing, "wrote", lambda house, group, error, now_ms: None)


def no_sessions_after_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def restore(self: groups.StreamsGroups, table: Any, group_id: str, state: Any, now_ms: int) -> Iterator[None]:
        table.groups[group_id] = self._house.new_group(group_id)
        yield

    monkeypatch.setattr(groups.StreamsGroups, "_restore", restore)


def no_epoch_when_a_member_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it ran is assigned to nobody."""

    def remove(self: StreamsTable, draft: Any, group: Any, member_id: str) -> None:
        take_out(draft, group.group_id, member_id)
        group.forget(member_id)

    monkeypatch.setattr(StreamsTable, "remove", remove)


def tasks_while_topics_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found of topics is believed, though they have come or gone since."""
    configured = heartbeat._configured

    def as_known(house: Any, group: Any) -> Any:
        return configured(house, group) if group.configured is None else group.configured

    monkeypatch.setattr(heartbeat, "_configured", as_known)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    free_by_the_target,
    free_in_ones_own_process,
    given_out_before_it_is_given_up,
    silence_counts_as_given_up,
    answered_before_the_commit,
    nothing_taken_back,
    timers_not_taken_back,
    no_sessions_after_a_load,
    no_epoch_when_a_member_goes,
    tasks_while_topics_are_missing,
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
