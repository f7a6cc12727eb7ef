"""Partitions that a controller of Apache Kafka left without anybody in sync: eligible leaders are elected (KIP-966)."""

from collections.abc import Sequence

import pytest
from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, registration, successor

from penstock.controller.controller import Controller
from penstock.controller.eligible_leaders import left_over, tracked
from penstock.controller.heartbeats import Going, Left
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.topics import PartitionImage


def left(eligible: Sequence[int], last_known: Sequence[int] = ()) -> Controller:
    """Three brokers that are fenced, and a partition of theirs that nobody leads, with nobody in sync."""
    controller = active_controller(1, 2, 3)
    carry_out(controller, assigned("flights", [1, 2, 3]))
    for broker_id in (1, 2, 3):
        carry_out(controller, heartbeat(controller, broker_id, want_fence=True))
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=controller.image.topics["flights"].topic_id,
        isr=[],
        leader=-1,
        eligible_leader_replicas=list(eligible),
        last_known_elr=list(last_known),
    )
    controller.apply([change])
    return controller


def flights(controller: Controller) -> PartitionImage:
    return controller.image.topics["flights"].partitions[0]


def test_an_eligible_leader_leads_when_it_comes_and_is_in_sync_alone() -> None:
    controller = left(eligible=[2], last_known=[2])
    before = flights(controller)
    carry_out(controller, heartbeat(controller, 1))
    assert flights(controller) == before, "it is not eligible"
    carry_out(controller, heartbeat(controller, 2))
    after = flights(controller)
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), before.leader_epoch + 1)
    assert (after.eligible_leader_replicas, after.last_known_elr, after.leader_recovery_state) == ((), (), 0)


def test_the_last_known_leader_leads_where_nobody_is_eligible_and_has_to_recover() -> None:
    controller = left(eligible=[], last_known=[3])
    carry_out(controller, heartbeat(controller, 2))
    assert flights(controller).leader == -1
    carry_out(controller, heartbeat(controller, 3))
    after = flights(controller)
    assert (after.leader, after.isr, after.leader_recovery_state, after.last_known_elr) == (3, (3,), 1, ())


def test_of_several_last_known_replicas_none_is_the_last_known_leader() -> None:
    controller = left(eligible=[], last_known=[1, 3])
    carry_out(controller, heartbeat(controller, 3))
    assert flights(controller).leader == -1


def test_who_comes_back_after_a_crash_is_eligible_only_where_nobody_else_is() -> None:
    for eligible, leader in (([2, 3], -1), ([2], 2)):
        controller = successor(left(eligible))
        carry_out(controller, registration(2, 99))
        carry_out(controller, heartbeat(controller, 2))
        assert flights(controller).leader == leader, eligible
    assert flights(controller).eligible_leader_replicas == ()


def test_whoever_leads_no_other_is_eligible_any_more() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1, 2]))
    topic_id = controller.image.topics["flights"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], eligible_leader_replicas=[2])])
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    assert (flights(controller).leader, flights(controller).isr) == (-1, (1,)), "who is in sync goes before"
    carry_out(controller, heartbeat(controller, 1))
    assert (flights(controller).leader, flights(controller).eligible_leader_replicas) == (1, ())


UNFINISHED: dict[str, bool | Left] = {
    "left and lost": Left(Going.WITHOUT_DATA, {}, {}),
    "left": Left(Going.FENCED, {}, {}),
    "back": True,
}


def track(
    before: tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    after: tuple[int, tuple[int, ...], tuple[int, ...]],
    lost: int,
    untrusted: Sequence[int],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """In sync, eligible, last known: `before` is leader, ISR, eligible, last known; `after` leader, ISR, replicas."""
    controller = active_controller(1, 2, 3, static={"min.insync.replicas": "2"})
    for broker_id in untrusted:
        controller.state.heartbeats.unfinished[broker_id] = UNFINISHED["left and lost"]
    old = PartitionImage(
        before[0], 0, 0, (1, 2, 3), before[1], eligible_leader_replicas=before[2], last_known_elr=before[3]
    )
    new = old._replace(leader=after[0], isr=after[1], replicas=after[2])
    found = tracked(controller.state, "flights", old, new, lost)
    return found.isr, found.eligible_leader_replicas, found.last_known_elr


ALL, NONE = (1, 2, 3), ()


@pytest.mark.parametrize(
    ("before", "after", "lost", "untrusted", "expected"),
    [
        ((1, ALL, NONE, (3,)), (1, (1, 2), ALL), 0, NONE, ((1, 2), NONE, NONE)),
        ((1, ALL, NONE, (3,)), (1, (1,), ALL), 0, NONE, ((1,), (2, 3), NONE)),
        ((1, (1, 2), (3,), NONE), (1, (1,), ALL), 0, NONE, ((1,), (3, 2), NONE)),
        ((1, (1, 2), (3,), NONE), (1, (1,), (1, 3)), 0, NONE, ((1,), (3,), NONE)),
        ((1, ALL, NONE, NONE), (1, (1,), ALL), 2, NONE, ((1,), (3,), NONE)),
        ((1, ALL, NONE, NONE), (1, (1,), ALL), 0, (3,), ((1,), (2,), NONE)),
        ((1, (1,), (2,), NONE), (-1, NONE, ALL), 0, NONE, (NONE, (2, 1), (1,))),
        ((1, (1,), NONE, NONE), (-1, NONE, ALL), 1, NONE, (NONE, NONE, (1,))),
        ((1, (2, 1), NONE, NONE), (-1, NONE, ALL), 0, (1, 2), (NONE, NONE, (1,))),
        ((1, (2, 1), NONE, NONE), (-1, NONE, (2, 3)), 0, (1, 2), (NONE, NONE, (2,))),
        ((1, (1,), (3,), NONE), (-1, NONE, (2, 3)), 3, (1,), (NONE, NONE, (3,))),
        ((-1, (3,), NONE, (1,)), (-1, NONE, ALL), 3, NONE, (NONE, NONE, (3,))),
        ((-1, (2, 3), NONE, (1,)), (-1, NONE, ALL), 0, (2, 3), (NONE, NONE, (2,))),
        ((-1, NONE, (2,), (1,)), (-1, NONE, ALL), 2, NONE, (NONE, NONE, (1,))),
        ((-1, NONE, (2,), (1,)), (-1, NONE, (2, 3)), 2, NONE, (NONE, NONE, (2,))),
        ((-1, NONE, NONE, NONE), (-1, (3,), ALL), 0, NONE, (NONE, (3,), NONE)),
    ],
)
def test_who_is_eligible_and_who_led_last(
    before: tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    after: tuple[int, tuple[int, ...], tuple[int, ...]],
    lost: int,
    untrusted: tuple[int, ...],
    expected: object,
) -> None:
    assert track(before, after, lost, untrusted) == expected


@pytest.mark.parametrize(
    ("note", "fenced", "is_eligible"),
    [
        ("left and lost", False, False),
        ("left", False, True),
        ("left", True, True),
        ("back", False, True),
        ("back", True, False),
    ],
)
def test_who_may_have_crashed_and_whose_partitions_do_not_follow_yet_is_not_trusted(
    note: str, fenced: bool, is_eligible: bool
) -> None:
    controller = active_controller(1, 2, static={"min.insync.replicas": "2"})
    if fenced:
        carry_out(controller, heartbeat(controller, 2, want_fence=True))
    controller.state.heartbeats.unfinished[2] = UNFINISHED[note]
    before = PartitionImage(1, 0, 0, (1, 2), (1, 2))
    found = tracked(controller.state, "flights", before, before._replace(isr=(1,)), 0)
    assert found.eligible_leader_replicas == ((2,) if is_eligible else ())


@pytest.mark.parametrize(("needed", "eligible"), [(1, ()), (2, (3, 2)), (7, (3, 2))])
def test_no_more_are_needed_than_there_are(needed: int, eligible: tuple[int, ...]) -> None:
    controller = active_controller(1, 2, 3, static={"min.insync.replicas": str(needed)})
    before = PartitionImage(1, 0, 0, (1, 2, 3), (1, 2), eligible_leader_replicas=(3,))
    found = tracked(controller.state, "flights", before, before._replace(isr=(1,)), 0)
    assert found.eligible_leader_replicas == eligible
    whole = before._replace(replicas=(1, 2), isr=(1, 2))
    assert tracked(controller.state, "flights", before, whole, 0).eligible_leader_replicas == ()


def test_of_what_is_left_over_only_replicas_stay() -> None:
    partition = PartitionImage(1, 0, 0, (1, 2), (1,), eligible_leader_replicas=(2, 3), last_known_elr=(3, 1))
    found = left_over(partition)
    assert (found.eligible_leader_replicas, found.last_known_elr) == ((2,), (1,))
