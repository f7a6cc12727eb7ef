"""The simulation finds bugs that a person might write into the coordinator of share groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.share_groups.simulate import simulate
from tests.simulation.share_groups.test_share_groups_simulation import KEPT

from penstock.coordinator.group.share import assigning, offsets, states, timing
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.state import ShareGroupState, ShareGroupView
from penstock.coordinator.group.share.table import ShareGroupTable
from penstock.coordinator.group.share.values import StatePartitions
from penstock.coordinator.machine import Agenda, Draft
from penstock.coordinator.share import decisions
from penstock.coordinator.share.records import ShareState, Snapshot
from penstock.coordinator.timers import Timer
from penstock.protocol.errors import ErrorCode

MOST_SEEDS = 60


def assigned_before_it_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is about to begin is given out."""
    both = property(
        lambda self: {topic: one.partitions for topic, one in {**self.initialized, **self.initializing}.items()}
    )
    monkeypatch.setattr(StatePartitions, "assignable", both)


def begun_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as initialized from the moment at which it is asked for."""
    monkeypatch.setattr(StatePartitions, "begun", lambda self, topics: self.replace(initialized=dict(topics)))


def not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "later", lambda *_: None)


def the_next_coordinator_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.coordinator.group.share.groups.states.go_on", lambda *_: None)


def asked_for_two_things_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion that is under way takes away what has begun again."""
    monkeypatch.setattr(ShareGroup, "asked", property(lambda self: set(), lambda self, asked: None))


def the_next_group_of_that_name_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came to the share coordinator after the deletion of a group stays there."""
    monkeypatch.setattr(states, "_newest_epoch", lambda *_: None)


def what_was_deleted_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka has it: the next group of that name is where the one before was to begin."""
    initialize = decisions.decide_initialize

    def late(*asked: Any, **named: Any) -> Any:
        return initialize(*asked, **{**named, "heeds_deletions": False})

    monkeypatch.setattr("penstock.coordinator.shards.shares.decide_initialize", late)


def who_waits_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a handover: only those are answered for whom something is written or asked."""

    def pause(agenda: Any, then: Any, until_ms: int) -> None:
        agenda.timers.set(Timer(lambda now_ms: then(ErrorCode.NONE, now_ms)), until_ms)

    monkeypatch.setattr(Agenda, "pause", pause)
    monkeypatch.setattr(offsets, "_may_still_begin", lambda *_: True)


def new_partitions_wait_for_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun is given out with the next change of members."""
    monkeypatch.setattr(assigning, "is_pending", lambda house, group: False)


def answered_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    write = ShareGroupTable.write

    def early(self: ShareGroupTable, draft: Any, now_ms: int, **rest: Any) -> None:
        token, answer = rest.pop("token", None), rest.pop("answer", None)
        write(self, draft, now_ms, **rest)
        if token is not None:
            self.table.reply(token, answer(ErrorCode.NONE))

    monkeypatch.setattr(ShareGroupTable, "write", early)


def nothing_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "take_back", lambda self: None)


def no_sessions_after_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "settle", lambda *_: None)


def no_epoch_when_a_member_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = timing.remove

    def quietly(house: ShareGroupTable, *rest: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ShareGroupTable, "next_epoch", lambda *_: None)
            remove(house, *rest)

    monkeypatch.setattr(timing, "remove", quietly)


def begun_anew_in_the_same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share coordinator takes an initialization that comes twice for a new one."""

    def anew(key: Any, known: Any, state_epoch: int, start_offset: int, now_ms: int, **_: Any) -> Any:
        return Snapshot(key, ShareState(0, state_epoch, 0, start_offset, -1, created_ms=now_ms, written_ms=now_ms))

    monkeypatch.setattr("penstock.coordinator.shards.shares.decide_initialize", anew)


def members_are_forgotten_by_committed_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's subscription is not counted when it changes."""
    monkeypatch.setattr(ShareGroupState, "put", ShareGroupView.put)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    assigned_before_it_is_initialized,
    begun_before_it_is_written,
    not_tried_again,
    the_next_coordinator_does_not_go_on,
    asked_for_two_things_at_once,
    the_next_group_of_that_name_waits_for_ever,
    what_was_deleted_begins_late,
    who_waits_is_left,
    new_partitions_wait_for_a_join,
    answered_before_the_commit,
    nothing_taken_back,
    no_sessions_after_a_load,
    no_epoch_when_a_member_goes,
    begun_anew_in_the_same_epoch,
    members_are_forgotten_by_committed_views,
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in (*KEPT, *range(MOST_SEEDS)):
        try:
            simulate(seed)
        except AssertionError:
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find it")
