"""What is remembered to be told of groups, within limits: why members went, the oldest epochs, and what has ended."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.coordinator.group import historian as module
from penstock.coordinator.group.group_log import GroupLog, change, encoded, of_instance
from penstock.coordinator.group.historian import Historian
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import HistoryRecord
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.machine import Draft
from penstock.protocol.requests.own_apis import GroupEpoch, What


def historian(most_bytes: int = 1_000, length: int = 5) -> tuple[Historian, GroupImage]:
    image = GroupImage()
    return Historian(image, {}, length, most_bytes), image


@pytest.mark.parametrize(
    ("most_bytes", "at_once", "bytes_at_once", "gone"),
    [
        (40, 9, 99, 0), (39, 9, 99, 1), (30, 9, 99, 1), (29, 9, 99, 2), (0, 9, 99, 4),
        (0, 3, 99, 3), (0, 9, 0, 1), (0, 9, 9, 1), (0, 9, 10, 2), (0, 9, 19, 2), (0, 9, 20, 3),
    ],
)  # fmt: skip
def test_the_oldest_make_room_and_not_too_many_at_once(
    most_bytes: int, at_once: int, bytes_at_once: int, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of ten bytes each, with the names of their groups."""
    monkeypatch.setattr(module, "EVICTED_AT_ONCE", at_once)
    monkeypatch.setattr(module, "EVICTED_BYTES", bytes_at_once)
    it, image = historian(most_bytes)
    places = [("g", 2), ("h", 0), ("g", 0), ("h", 1)]
    for place in places:
        image.apply(HistoryRecord(*place, b"123456789"))
    draft: Draft[Any] = Draft(image)
    it._make_room(draft)
    assert [(one.group_id, one.slot, one.value) for one in draft.records] == [(*place, None) for place in places[:gone]]
    assert image.histories.bytes == 40 - 10 * gone


def test_why_members_went_is_known_by_their_ids_and_instances_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTES", 3)
    it, _ = historian()
    it.because("g", "ann", What.LEFT)
    it.because("g", "ben", What.PUT_OUT, "i")
    assert it._notes == {"g": {"ann": What.LEFT, "ben": What.PUT_OUT, of_instance("i"): What.PUT_OUT}}
    it.because("g", "ann", What.SESSION_TIMEOUT)
    assert list(it._notes["g"].values()) == [What.SESSION_TIMEOUT, What.PUT_OUT, What.PUT_OUT]
    it.because("g", "cid", What.LEFT)
    assert list(it._notes["g"]) == ["ben", of_instance("i"), "cid"]
    it.because("h", "dan", What.LEFT)
    it.forget("g")
    it.forget("g")
    assert list(it._notes) == ["h"]


def test_only_notes_of_what_may_be_told_again_are_kept() -> None:
    it, _ = historian()
    for name, instance in (("ann", None), ("ben", "i"), ("cid", None)):
        it.because("g", name, What.LEFT, instance)
    log = GroupLog("g", {}, 5)
    log.notes = it._notes["g"]
    begun = GroupEpoch(changes=[change(What.LEFT, "ann"), change(What.LEFT, "other", "i")])
    it._keep_notes(begun, log)
    assert list(it._notes["g"]) == ["ann", of_instance("i")]
    it._keep_notes(GroupEpoch(changes=[change(What.LEFT, "nobody")]), log)
    assert it._notes == {}


def test_what_has_ended_is_counted_by_kind() -> None:
    it, _ = historian()
    it.count([("consumer", 5), ("share", 7)])
    it.count([])
    it.count([("consumer", 10), ("consumer", 1)])
    assert it.rebalances == {"consumer": (3, 16), "share": (1, 7)}


def test_an_epoch_is_found_since_the_group_is_of_its_kind_and_its_numbers_grow() -> None:
    epochs = [("consumer", 1), ("consumer", 2), ("classic", 3), ("consumer", 1), ("consumer", 2), ("consumer", 4)]
    slots = {
        number % 9: encoded(GroupEpoch(number=number, kind=kind, epoch=epoch))
        for number, (kind, epoch) in enumerate(epochs, 1)
    }
    log = GroupLog("g", slots, 9)
    found = {epoch: log.find("consumer", epoch) for epoch in (1, 2, 3, 4)}
    assert {epoch: one and one.number for epoch, one in found.items()} == {1: 4, 2: 5, 3: None, 4: 6}
    assert log.find("classic", 3) is None
    last = log.last()
    assert last is not None
    assert last.number == 6
    anew = GroupLog("g", {number: value for number, value in slots.items() if number in (1, 2, 4)}, 9)
    assert [(one and one.number) for one in (anew.find("consumer", 1), anew.find("consumer", 2))] == [4, None]
    assert [one.number for one in GroupLog("g", slots, 2).newest()] == [6, 5]
    begun = log.begin("share", 1, 70)
    assert (begun.number, begun.started_ms, log.begun) == (7, 70, begun)
    assert [one.slot for one in log.records()] == [7]
    assert log.find("consumer", 4) is None
    assert GroupLog("g", {}, 5).begin("share", 1, 0).number == 1


@pytest.mark.parametrize("value", [b"\0\0\0\0\0\1", b"", b"\0\1\0\0\0\1"])
def test_what_nobody_can_read_is_passed_over(value: bytes) -> None:
    log = GroupLog("g", {0: value, 1: encoded(GroupEpoch(number=5, kind="share", epoch=3))}, 9)
    assert [one.number for one in log.newest()] == [5]
    assert log.begin("share", 4, 0).number == 6


@pytest.mark.parametrize(("timeout_ms", "passes_ms"), [(0, 0), (1, 0), (2, 1), (3, 2), (1_000, 666), (45_000, 30_000)])
def test_two_thirds_of_a_time_out_pass_before_a_member_is_named(timeout_ms: int, passes_ms: int) -> None:
    assert patience_ms(timeout_ms) == passes_ms
