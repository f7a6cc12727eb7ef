"""Leadership goes to preferred replicas: one partition at a time, the smallest first."""

from typing import Any
from uuid import UUID

from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    heartbeat,
    join,
    partition,
    successor,
    tick,
)

from penstock.controller.controller import Controller
from penstock.leadership.balancer import BalanceSettings
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.requests.own_apis import BalanceAction, BalanceLeadersRequest

DISK = [UUID(int=1000)]
OTHER_DISKS = [UUID(int=2000), UUID(int=2001)]
SETTINGS = BalanceSettings(interval_ms=1000, least_percent=10, timeout_ms=500)


def moved_away(partitions: int = 3, settings: BalanceSettings = SETTINGS, others: int = 0) -> Controller:
    """Broker 2 leads what broker 1 should lead; both are in sync, and know all. `others` stayed with broker 1."""
    controller = active_controller(1, leader_balance=settings, log_dirs=DISK)
    join(controller, 2)
    replicas = [[1, 2]] * partitions
    carry_out(controller, assigned("pairs", *replicas))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    carry_out(controller, heartbeat(controller, 1))
    come_in_sync(controller)
    if others:
        carry_out(controller, assigned("others", *[[1, 2]] * others))
    beat(controller, 1, 2)
    return controller


def come_in_sync(controller: Controller) -> None:
    topic = controller.image.topics["pairs"]
    controller.apply(
        [PartitionChangeRecord(partition_id=i, topic_id=topic.topic_id, isr=[1, 2]) for i in topic.partitions]
    )


def beat(controller: Controller, *brokers: int, now_ms: int = 0, **fields: Any) -> None:
    for broker_id in brokers:
        carry_out(controller, heartbeat(controller, broker_id, **fields), now_ms)


def leaders(controller: Controller) -> list[int]:
    return [it.leader for _, it in sorted(controller.image.topics["pairs"].partitions.items())]


def balance(controller: Controller, action: int, now_ms: int = 0) -> Any:
    return carry_out(controller, BalanceLeadersRequest(action=action), now_ms)


def test_one_partition_moves_at_a_time_and_the_smallest_first() -> None:
    controller = moved_away()
    assert tick(controller, 999) == []
    assert len(tick(controller, 1000)) == 1
    assert leaders(controller) == [1, 2, 2]
    beat(controller, 1, now_ms=1001)
    assert tick(controller, 1001) == [], "broker 2 does not know of it yet"
    beat(controller, 2, now_ms=1002)
    assert controller.next_deadline_ms == 0
    tick(controller, 1002)
    assert leaders(controller) == [1, 1, 2]
    beat(controller, 1, 2, now_ms=1003)
    tick(controller, 1003)
    beat(controller, 1, 2, now_ms=1004)
    assert leaders(controller) == [1, 1, 1]
    assert tick(controller, 1004) == []
    assert controller.next_deadline_ms == 2004, "the next look"


def test_topics_go_by_their_names() -> None:
    controller = moved_away(1)
    carry_out(controller, assigned("a", [1, 2]))
    topic = controller.image.topics["a"]
    controller.apply([PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=2)])
    beat(controller, 1, 2)
    tick(controller, 1000)
    assert (partition(controller, "a")[0], partition(controller, "pairs")[0]) == (1, 2)


def test_nothing_moves_while_any_replica_catches_up() -> None:
    controller = moved_away()
    topic_id = controller.image.topics["pairs"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=2, topic_id=topic_id, isr=[2])])
    assert tick(controller, 1000) == []
    assert balance(controller, BalanceAction.TELL).catching_up == 1
    assert controller.next_deadline_ms == 9000, "it is no matter of time, but for the sessions of brokers"
    controller.apply([PartitionChangeRecord(partition_id=2, topic_id=topic_id, isr=[1, 2])])
    assert controller.next_deadline_ms == 0
    tick(controller, 1001)
    assert leaders(controller) == [1, 2, 2]


def with_a_replica_that_is_out() -> Controller:
    """The one of broker 3 in `wide`, as it stops; the balancer may go on to move `pairs`."""
    controller = moved_away()
    join(controller, 3, OTHER_DISKS)
    carry_out(controller, assigned("wide", [1, 3], [1, 3]))
    carry_out(controller, heartbeat(controller, 3, want_fence=True))
    return controller


def test_a_replica_whose_broker_is_out_holds_nothing_up() -> None:
    controller = with_a_replica_that_is_out()
    assert partition(controller, "wide")[1] == (1,), "broker 3 is not in sync"
    beat(controller, 1, 2)
    assert balance(controller, BalanceAction.BEGIN).catching_up == 0
    assert len(tick(controller, 0)) == 1
    assert leaders(controller) == [1, 2, 2]


def test_a_replica_whose_broker_is_back_holds_all_up_until_it_is_in_sync() -> None:
    controller = with_a_replica_that_is_out()
    beat(controller, 3)
    beat(controller, 1, 2, 3)
    told = balance(controller, BalanceAction.BEGIN)
    assert told.catching_up == 2, "each partition counts once"
    assert tick(controller, 0) == []
    topic_id = controller.image.topics["wide"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=it, topic_id=topic_id, isr=[1, 3]) for it in (0, 1)])
    assert len(tick(controller, 0)) == 1


def test_a_replica_whose_disk_is_out_holds_nothing_up() -> None:
    controller = moved_away()
    join(controller, 3, OTHER_DISKS)
    carry_out(controller, assigned("wide", [1, 3]))
    topic_id = controller.image.topics["wide"].topic_id
    lies_there = [DISK[0], OTHER_DISKS[0]]
    controller.apply([PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], directories=lies_there)])
    beat(controller, 1, 2, 3)
    assert balance(controller, BalanceAction.BEGIN).catching_up == 1
    beat(controller, 3, offline_log_dirs=OTHER_DISKS[:1])
    assert balance(controller, BalanceAction.TELL).catching_up == 0
    assert len(tick(controller, 0)) == 1


def test_a_little_may_be_led_by_others() -> None:
    controller = moved_away(1, others=9)
    assert tick(controller, 1000) == [], "one of ten is no more than ten percent"
    assert tick(moved_away(1, others=8), 1000) != []
    assert tick(moved_away(1, SETTINGS.replace(least_percent=0), others=99), 1000) != []


def test_without_an_interval_it_begins_when_somebody_asks() -> None:
    controller = moved_away(1, SETTINGS.replace(interval_ms=None), others=99)
    assert tick(controller, 8000) == []
    assert not balance(controller, BalanceAction.TELL).is_balancing
    assert balance(controller, BalanceAction.BEGIN).is_balancing
    tick(controller, 8000)
    told = balance(controller, BalanceAction.TELL)
    assert (told.topic, told.partition, told.giver, told.taker, told.moved) == ("pairs", 0, 2, 1, 0)
    beat(controller, 1, 2, now_ms=8001)
    tick(controller, 8001)
    told = balance(controller, BalanceAction.TELL, 8001)
    assert (told.is_balancing, told.topic, told.moved) == (False, None, 1)
    assert balance(controller, 3).error_code == ErrorCode.INVALID_REQUEST


def test_somebody_stops_it_and_the_move_that_is_under_way_comes_to_its_end() -> None:
    controller = moved_away()
    tick(controller, 1000)
    assert not balance(controller, BalanceAction.STOP, 1000).is_balancing
    assert controller.state.balancer.move is not None
    beat(controller, 1, 2, now_ms=1001)
    assert tick(controller, 1001) == []
    assert leaders(controller) == [1, 2, 2]
    assert len(tick(controller, 2000)) == 1, "after the interval it goes on by itself"


def test_who_does_not_take_over_in_time_gives_it_back_and_gets_nothing_more() -> None:
    controller = moved_away()
    before = controller.state.next_offset - 1
    tick(controller, 1000)
    assert leaders(controller) == [1, 2, 2]
    beat(controller, 1, now_ms=1400, current_metadata_offset=before)
    assert tick(controller, 1499) == []
    assert len(tick(controller, 1500)) == 1
    assert leaders(controller) == [2, 2, 2]
    assert balance(controller, BalanceAction.TELL, 1500).late == [1]
    beat(controller, 2, now_ms=1501)
    assert tick(controller, 5000) == [], "it still does not know of the move"
    assert balance(controller, BalanceAction.BEGIN, 5000).late == []
    assert len(tick(controller, 5000)) == 1
    assert leaders(controller) == [1, 2, 2]


def test_a_late_broker_that_hears_of_what_it_missed_is_as_good_as_any_in_the_next_round() -> None:
    controller = moved_away()
    before = controller.state.next_offset - 1
    tick(controller, 1000)
    beat(controller, 1, now_ms=1400, current_metadata_offset=before)
    tick(controller, 1500)
    beat(controller, 1, 2, now_ms=1501)
    assert tick(controller, 1502) == [], "not in the same round"
    assert len(tick(controller, 5000)) == 1
    assert leaders(controller) == [1, 2, 2]
    assert balance(controller, BalanceAction.TELL, 5000).late == []


def test_a_late_broker_that_registers_anew_is_as_good_as_any() -> None:
    controller = moved_away()
    before = controller.state.next_offset - 1
    tick(controller, 1000)
    beat(controller, 1, now_ms=1400, current_metadata_offset=before)
    tick(controller, 1500)
    join(controller, 1, DISK, now_ms=1501)
    come_in_sync(controller)
    beat(controller, 1, 2, now_ms=1502)
    assert len(tick(controller, 3000)) == 1
    assert leaders(controller) == [1, 2, 2]


def test_who_takes_over_and_only_the_giver_does_not_say_so_keeps_it() -> None:
    controller = moved_away()
    tick(controller, 1000)
    beat(controller, 1, now_ms=1400)
    assert tick(controller, 1500) == []
    assert leaders(controller) == [1, 2, 2]
    assert balance(controller, BalanceAction.TELL, 1500).late == []


def test_a_move_ends_with_the_topic_or_with_the_next_leader() -> None:
    controller = moved_away()
    tick(controller, 1000)
    carry_out(controller, heartbeat(controller, 1, want_fence=True), 1001)
    assert controller.state.balancer.move is not None
    assert controller.next_deadline_ms == 0
    tick(controller, 1001)
    assert controller.state.balancer.move is None
    controller = moved_away()
    tick(controller, 1000)
    carry_out(controller, DeleteTopicsRequest(topic_names=["pairs"]), 1001)
    assert tick(controller, 1001) == []
    assert controller.state.balancer.move is None


def test_a_move_that_could_not_be_appended_was_not_made() -> None:
    controller = moved_away()
    assert controller.tick(1000) is not None
    assert controller.next_deadline_ms == 0
    assert len(tick(controller, 1001)) == 1
    assert leaders(controller) == [1, 2, 2]


def test_who_takes_over_as_the_controller_waits_until_all_know_what_was_decided() -> None:
    first = moved_away()
    tick(first, 1000)
    second = successor(first, leader_balance=SETTINGS)
    balance(second, BalanceAction.BEGIN, 1000)
    assert tick(second, 1000) == [], "a move may be under way"
    beat(second, 1, now_ms=1001)
    assert tick(second, 1001) == []
    beat(second, 2, now_ms=1002)
    assert len(tick(second, 1002)) == 1
    third = successor(first, leader_balance=SETTINGS)
    balance(third, BalanceAction.BEGIN, 1000)
    assert len(tick(third, 1500)) == 1, "it does not wait for ever"


def test_another_order_of_replicas_is_another_plan() -> None:
    controller = moved_away(1)
    asked = ReassignablePartition(partition_index=0, replicas=[2, 1])
    topics = [ReassignableTopic(name="pairs", partitions=[asked])]
    carry_out(controller, AlterPartitionReassignmentsRequest(topics=topics))
    beat(controller, 1, 2)
    assert tick(controller, 1000) == []
    assert leaders(controller) == [2]
