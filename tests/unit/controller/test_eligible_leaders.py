"""Partitions that a controller of Apache Kafka left without anybody in sync: eligible leaders are elected (KIP-966)."""

from collections.abc import Sequence

from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, registration, successor

from penstock.controller.controller import Controller
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
