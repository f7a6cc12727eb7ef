"""What follows from the epochs of a group: how long the next assignment waits, and the state in which the group is."""

import pytest

from penstock.coordinator.group.consumer import records as consumer_records
from penstock.coordinator.group.consumer.state import ConsumerState, GroupView
from penstock.coordinator.group.consumer.values import Current, GroupEpoch, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.parts import ONE


@pytest.mark.parametrize(
    ("assigned_ms", "interval_ms", "now_ms", "waits_ms"),
    [
        (0, 10, 0, 0), (0, 10, 5, 0), (1, 10, 1, 10), (1, 10, 4, 7), (5, 10, 4, 0), (5, 10, 5, 10), (5, 10, 14, 1),
        (5, 10, 15, 0), (5, 10, 16, 0), (5, 0, 5, 0), (-1, 10, 5, 0),
    ],
)  # fmt: skip
def test_an_assignment_waits_for_an_interval_behind_the_one_before(
    assigned_ms: int, interval_ms: int, now_ms: int, waits_ms: int
) -> None:
    """Not behind one of the future, nor of no time."""
    assert AssignmentEpoch(3, assigned_ms).wait_ms(interval_ms, now_ms) == waits_ms


@pytest.mark.parametrize(
    ("epoch", "assigned", "members", "state"),
    [
        (3, 3, {}, "Empty"),
        (3, 2, {}, "Empty"),
        (3, 2, {"m": (3, 0)}, "Assigning"),
        (3, 3, {"m": (2, 0)}, "Reconciling"),
        (3, 3, {"m": (3, 1)}, "Reconciling"),
        (3, 3, {"m": (3, 0)}, "Stable"),
        (3, 3, {"m": (3, 0), "n": None}, "Reconciling"),
        (3, 3, {"m": (3, 0), "n": (2, 0)}, "Reconciling"),
        (3, 3, {"m": (3, 0), "n": (3, 0)}, "Stable"),
        (3, 4, {"m": (4, 0)}, "Stable"),
    ],
)
def test_a_group_is_in_the_state_that_its_records_say(
    epoch: int, assigned: int, members: dict[str, tuple[int, int] | None], state: str
) -> None:
    view = GroupView()
    view.put(consumer_records.GROUP, ONE, GroupEpoch(epoch, 0))
    view.put(consumer_records.ASSIGNMENT, ONE, AssignmentEpoch(assigned, 0))
    for name, current in members.items():
        view.put(consumer_records.MEMBER, name, Subscription())
        if current is not None:
            view.put(consumer_records.CURRENT, name, Current(epoch=current[0], state=current[1]))
    assert view.state == state


def test_a_group_without_records_is_at_the_first_epoch_and_has_no_assignment() -> None:
    view = GroupView()
    assert (view.epoch, view.group, view.assignment, view.state) == (
        1, GroupEpoch(1, 0), AssignmentEpoch(0, 0), "Empty",
    )  # fmt: skip


def test_an_instance_is_the_one_who_came_last_with_it_whoever_goes_first() -> None:
    """In one batch the one who comes may be written before the one who goes."""
    state = ConsumerState()
    state.put(consumer_records.MEMBER, "old", Subscription(instance_id="i"))
    state.put(consumer_records.MEMBER, "new", Subscription(instance_id="i"))
    state.put(consumer_records.MEMBER, "old", None)
    assert state.static_ids == {"i": "new"}
    state.put(consumer_records.MEMBER, "other", Subscription())
    state.put(consumer_records.MEMBER, "other", None)
    assert state.static_ids == {"i": "new"}
    state.put(consumer_records.MEMBER, "new", Subscription(instance_id="j"))
    assert state.static_ids == {"j": "new"}
    state.put(consumer_records.MEMBER, "new", None)
    assert state.static_ids == {}
