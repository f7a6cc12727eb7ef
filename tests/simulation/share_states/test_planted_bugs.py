"""The simulation finds bugs that a person might write into a share coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.share_states.world import simulate

from penstock.coordinator.machine import Draft
from penstock.coordinator.share import decisions, records
from penstock.coordinator.share.batches import merged
from penstock.coordinator.share.image import Needed
from penstock.coordinator.share.records import ShareState, Snapshot, Update
from penstock.coordinator.share.table import ShareTable
from penstock.protocol.errors import ErrorCode

MOST_SEEDS = 20


def update_after_a_snapshot_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first update after a snapshot is taken for a part of it."""
    after = Update.after

    def skipping(self: Update, before: ShareState | None) -> ShareState:
        found = after(self, before)
        return found if before is None or before.updates else before.replace(updates=1)

    monkeypatch.setattr(Update, "after", skipping)


def merged_batches_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new takes the place of what was there."""
    monkeypatch.setattr(records, "merged", lambda so_far, new, start_offset: merged((), new or so_far, start_offset))


def snapshot_without_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot has the batches of the write that made it due."""
    monkeypatch.setattr(decisions, "merged", lambda so_far, new, start_offset: merged((), new, start_offset))


def pruned_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log begins at the newest snapshot."""
    monkeypatch.setattr(Needed, "offset", property(lambda self: max(self._snapshots.values(), default=self._end)))


def pruned_for_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot counts where the end of the log is, as soon as it is decided."""
    noting = ShareTable.noting

    def at_once(self: ShareTable, decided: Any) -> Any:
        for record in decided:
            self.needed.note(record, self.written_at + 1)
        return noting(self, decided)

    monkeypatch.setattr(ShareTable, "noting", at_once)


def answered_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    append_draft = ShareTable.append_draft

    def early(self: ShareTable, draft: Any, now_ms: int, **rest: Any) -> None:
        token, answer = rest.pop("token", None), rest.pop("answer", None)
        append_draft(self, draft, now_ms, **rest)
        if token is not None:
            self.reply(token, answer(ErrorCode.NONE))

    monkeypatch.setattr(ShareTable, "append_draft", early)


def told_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader is told what may be lost."""

    def early(self: ShareTable, token: Any, answer: Any, now_ms: int) -> None:
        self.reply(token, answer(ErrorCode.NONE))

    monkeypatch.setattr(ShareTable, "answer_when_committed", early)


def nothing_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draft, "take_back", lambda self: None)


def fences_forgotten_where_a_state_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka has it: once the log before is cut, a deposed leader is let in."""
    initialize = decisions.decide_initialize

    def forgetting(*asked: Any, **named: Any) -> Any:
        record = initialize(*asked, **named)
        if isinstance(record, Snapshot) and record.state is not None:
            return record.replace(state=record.state.replace(leader_epoch=0))
        return record

    monkeypatch.setattr("penstock.coordinator.shards.shares.decide_initialize", forgetting)


def begun_anew_in_the_same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An initialization that comes twice takes away what was delivered in between."""
    initialize = decisions.decide_initialize

    def again(key: Any, known: Any, state_epoch: int, *rest: Any, **named: Any) -> Any:
        is_same = known is not None and known.state_epoch == state_epoch
        known = known.replace(state_epoch=state_epoch - 1) if is_same else known
        return initialize(key, known, state_epoch, *rest, **named)

    monkeypatch.setattr("penstock.coordinator.shards.shares.decide_initialize", again)


def no_leader_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_check_leader", lambda leader_epoch, known: None)


def the_start_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = decisions._changed

    def back(key: Any, known: Any, said: Any, *rest: Any) -> Any:
        found = changed(key, known, said, *rest)
        return found.replace(start_offset=said.start_offset) if isinstance(found, Update) else found

    monkeypatch.setattr(decisions, "_changed", back)


BUGS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    update_after_a_snapshot_skipped,
    merged_batches_dropped,
    snapshot_without_what_was_there,
    pruned_too_far,
    pruned_for_what_is_not_committed,
    answered_before_the_commit,
    told_before_the_commit,
    nothing_taken_back,
    fences_forgotten_where_a_state_begins_anew,
    begun_anew_in_the_same_epoch,
    no_leader_is_fenced,
    the_start_goes_back,
)


FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {told_before_the_commit: 40}
"""The seed with which the search begins, if not with 0."""


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    first = FIRST.get(plant, 0)
    for seed in range(first, first + MOST_SEEDS):
        try:
            simulate(seed)
        except AssertionError:
            return
    pytest.fail(f"{MOST_SEEDS} seeds do not find it")
