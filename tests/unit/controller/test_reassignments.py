"""Partitions on their way to other replicas."""

from collections.abc import Sequence
from typing import Any

from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, in_sync, partition
from tests.unit.controller.test_alter_partition import answer

from penstock.controller.controller import Controller
from penstock.controller.reassignments import list_reassignments
from penstock.metadata.image import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


def move(
    controller: Controller, replicas: Sequence[int] | None, *, name: str = "flights", index: int = 0, **fields: Any
) -> ErrorCode:
    target = None if replicas is None else list(replicas)
    topic = ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=target)])
    reply = carry_out(controller, AlterPartitionReassignmentsRequest(topics=[topic], **fields))
    return ErrorCode(reply.responses[0].partitions[0].error_code)


def flights(controller: Controller) -> PartitionImage:
    return controller.image.topics["flights"].partitions[0]


def cluster(*replicas: int, **configs: str) -> Controller:
    controller = active_controller(1, 2, 3, 4)
    carry_out(controller, assigned("flights", list(replicas), **configs))
    return controller


def listed(controller: Controller, *names: str) -> list[tuple[str, int, list[int], list[int]]]:
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1]) for name in names]
    reply = list_reassignments(controller.image, ListPartitionReassignmentsRequest(topics=topics or None))
    return [
        (topic.name, item.partition_index, item.adding_replicas, item.removing_replicas)
        for topic in reply.topics
        for item in topic.partitions
    ]


def test_a_move_is_over_when_the_new_replicas_are_in_sync() -> None:
    controller = cluster(1, 2)
    assert move(controller, [3, 4]) is ErrorCode.NONE
    assert flights(controller).replicas == (3, 4, 1, 2)
    assert listed(controller) == listed(controller, "flights") == [("flights", 0, [3, 4], [1, 2])]
    assert listed(controller, "nothing") == []
    assert flights(controller).leader_epoch == 0, "nothing has changed for readers yet"
    answer(controller, in_sync(controller, 1, [1, 2, 3]))
    assert listed(controller) != []
    told = answer(controller, in_sync(controller, 1, [1, 2, 3, 4]))
    assert told.error_code == ErrorCode.NEW_LEADER_ELECTED, "its own replica is gone"
    after = flights(controller)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((3, 4), (3, 4), 3, 1)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert len(after.directories) == 2
    assert listed(controller) == []


def test_another_order_is_no_move() -> None:
    controller = cluster(1, 2)
    assert move(controller, [2, 1]) is ErrorCode.NONE
    after = flights(controller)
    assert (after.replicas, after.leader, after.leader_epoch) == ((2, 1), 1, 0)
    assert listed(controller) == []


def test_fewer_replicas_are_no_way_to_go_either() -> None:
    controller = cluster(1, 2, 3)
    assert move(controller, [3]) is ErrorCode.NONE
    assert flights(controller)[:2] == (3, 1)
    assert partition(controller, "flights") == (3, (3,))
    assert move(controller, [1, 2], allow_replication_factor_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_taking_a_replica_away_begins_a_leader_epoch_though_the_leader_stays() -> None:
    controller = cluster(1, 2)
    assert move(controller, [1]) is ErrorCode.NONE
    after = flights(controller)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 1, (1,))


def test_a_move_that_is_cancelled_leaves_what_was_before() -> None:
    controller = cluster(1, 2)
    before = flights(controller)
    move(controller, [3, 1])
    answer(controller, in_sync(controller, 1, [1, 2]))
    assert move(controller, None) is ErrorCode.NONE
    after = flights(controller)
    assert sorted(after.replicas) == sorted(before.replicas)
    assert (after.isr, after.leader) == (before.isr, before.leader)
    assert listed(controller) == []
    assert move(controller, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_can_take_another_course() -> None:
    controller = cluster(1, 2)
    move(controller, [3, 4])
    move(controller, [1, 3])
    assert listed(controller) == [("flights", 0, [3, 4], [4, 2])]
    answer(controller, in_sync(controller, 1, [1, 3]))
    assert flights(controller).replicas == (1, 3)


def test_a_move_that_took_another_course_goes_back_to_where_it_began() -> None:
    controller = cluster(1)
    move(controller, [2, 3])
    answer(controller, in_sync(controller, 1, [1, 2]))
    move(controller, [3, 1])
    assert listed(controller) == [("flights", 0, [3, 2], [2])], "2 was not there before, and goes again"
    assert move(controller, None) is ErrorCode.NONE
    after = flights(controller)
    assert (after.replicas, after.isr, after.leader) == ((1,), (1,), 1)


def only_new_ones_in_sync(**configs: str) -> Controller:
    controller = cluster(1, **configs)
    move(controller, [2, 3])
    answer(controller, in_sync(controller, 1, [1, 2]))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    carry_out(controller, heartbeat(controller, 1))
    assert partition(controller, "flights") == (2, (2,))
    return controller


def test_there_is_no_way_back_to_replicas_that_miss_records() -> None:
    assert move(only_new_ones_in_sync(), None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_there_is_one_if_the_topic_allows_loss() -> None:
    controller = only_new_ones_in_sync(unclean_leader_election_enable="true")
    assert move(controller, None) is ErrorCode.NONE
    assert partition(controller, "flights") == (1, (1,))
    assert flights(controller).leader_recovery_state == 1


def stopping(controller: Controller, broker_id: int) -> None:
    """A broker is on its way out, and waits until the others know who leads its other partition."""
    carry_out(controller, assigned("others", [broker_id, 3]))
    reply = carry_out(controller, heartbeat(controller, broker_id, want_shut_down=True))
    assert not reply.should_shut_down


def test_a_leader_that_the_move_added_does_not_go_on_after_it_though_it_is_on_its_way_out() -> None:
    controller = only_new_ones_in_sync(unclean_leader_election_enable="true")
    stopping(controller, 2)
    assert partition(controller, "flights") == (2, (2,)), "it leads while nobody else can"
    assert move(controller, None) is ErrorCode.NONE
    assert flights(controller).replicas == (1,)
    assert partition(controller, "flights") == (1, (1,))


def test_there_is_no_way_back_to_a_leader_that_is_no_replica_then() -> None:
    controller = only_new_ones_in_sync(unclean_leader_election_enable="true")
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    stopping(controller, 2)
    assert move(controller, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert partition(controller, "flights") == (2, (2,))


def test_what_is_refused() -> None:
    controller = cluster(1, 2)
    assert move(controller, [1], name="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(controller, [1], index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for replicas in ([], [1, 1], [1, 9]):
        assert move(controller, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    topic = ReassignableTopic(name="flights", partitions=[ReassignablePartition(replicas=[3])] * 2)
    reply = carry_out(controller, AlterPartitionReassignmentsRequest(topics=[topic]))
    codes = [item.error_code for item in reply.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_a_move_survives_a_broker_that_goes_and_comes() -> None:
    controller = cluster(1, 2)
    move(controller, [3, 4])
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    assert partition(controller, "flights") == (2, (2,))
    assert listed(controller) == [("flights", 0, [3, 4], [1, 2])]
    answer(controller, in_sync(controller, 2, [2, 3, 4]))
    assert flights(controller).replicas == (3, 4)


# a target dies


def dead(controller: Controller, broker_id: int) -> None:
    """A broker is out of service at once."""
    carry_out(controller, heartbeat(controller, broker_id, want_fence=True))


def test_a_move_waits_for_a_target_that_dies_and_comes_back() -> None:
    controller = cluster(1, 2)
    move(controller, [3, 4])
    dead(controller, 3)
    answer(controller, in_sync(controller, 1, [1, 2, 4]))
    assert listed(controller) == [("flights", 0, [3, 4], [1, 2])], "one of the target is not there"
    told = answer(controller, in_sync(controller, 1, [1, 2, 4, 3]))
    assert told.error_code == ErrorCode.INELIGIBLE_REPLICA, "nor may it come in"
    carry_out(controller, heartbeat(controller, 3))
    answer(controller, in_sync(controller, 1, [1, 2, 4, 3]))
    assert (flights(controller).replicas, listed(controller)) == ((3, 4), [])


def test_a_target_that_was_in_sync_and_dies_does_not_end_the_move() -> None:
    controller = cluster(1, 2)
    move(controller, [3, 4])
    answer(controller, in_sync(controller, 1, [1, 2, 3]))
    dead(controller, 3)
    assert 3 not in flights(controller).isr
    answer(controller, in_sync(controller, 1, [1, 2, 4]))
    assert listed(controller) == [("flights", 0, [3, 4], [1, 2])]
    assert partition(controller, "flights") == (1, (1, 2, 4))


def test_a_move_whose_target_is_dead_is_called_back_and_leaves_nothing_of_it() -> None:
    controller = cluster(1, 2)
    move(controller, [3, 4])
    answer(controller, in_sync(controller, 1, [1, 2, 4]))
    dead(controller, 3)
    assert move(controller, None) is ErrorCode.NONE
    after = flights(controller)
    assert (sorted(after.replicas), after.isr, after.leader) == ([1, 2], (1, 2), 1)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())


def test_another_target_takes_the_place_of_a_dead_one() -> None:
    controller = cluster(1, 2)
    move(controller, [1, 3])
    dead(controller, 3)
    assert move(controller, [1, 4]) is ErrorCode.NONE
    assert listed(controller) == [("flights", 0, [4, 3], [3, 2])]
    answer(controller, in_sync(controller, 1, [1, 2, 4]))
    assert (flights(controller).replicas, listed(controller)) == ((1, 4), [])


def test_a_new_leader_goes_on_when_a_target_that_leads_dies() -> None:
    controller = cluster(1, 2)
    move(controller, [3, 4])
    answer(controller, in_sync(controller, 1, [1, 2, 3]))
    dead(controller, 1)
    assert flights(controller).leader == 3
    dead(controller, 3)
    assert flights(controller).leader == 2
    assert listed(controller) == [("flights", 0, [3, 4], [1, 2])]
    assert move(controller, None) is ErrorCode.NONE
    assert partition(controller, "flights") == (2, (2,))
