"""Eligible leader replicas as our controller makes them: who is one, for how long, who leads (KIP-966)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    heartbeat,
    in_sync,
    join,
    registration,
    successor,
    tick,
    track,
)

from penstock.controller import moves
from penstock.controller.controller import Controller
from penstock.metadata.features import ELIGIBLE_LEADER_REPLICAS
from penstock.metadata.records import FeatureLevelRecord, PartitionChangeRecord
from penstock.metadata.topics import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest

DISK_1, DISK_2 = UUID(int=1001), UUID(int=1002)
RECOVERING = 1


def three(min_isr: str = "2", **configs: str) -> Controller:
    """Three brokers, and a partition of theirs in which two must be in sync."""
    controller = track(active_controller(1, 2, 3))
    carry_out(controller, assigned("flights", [1, 2, 3], min_insync_replicas=min_isr, **configs))
    return controller


def flights(controller: Controller) -> PartitionImage:
    return controller.image.topics["flights"].partitions[0]


def state(controller: Controller) -> tuple[int, Sequence[int], Sequence[int], Sequence[int]]:
    """Who leads, who is in sync, who is eligible, who led last."""
    partition = flights(controller)
    return partition.leader, partition.isr, partition.eligible_leader_replicas, partition.last_known_elr


def fence(controller: Controller, *brokers: int) -> None:
    for broker_id in brokers:
        carry_out(controller, heartbeat(controller, broker_id, want_fence=True))


def come_back(controller: Controller, broker_id: int, *, clean: bool, log_dirs: Sequence[UUID] = ()) -> Controller:
    """A new process of a broker, as the next controller sees it: it registers, and is let in."""
    controller = successor(controller, node_id=broker_id)
    previous = controller.image.brokers[broker_id].epoch if clean else -1
    reply = carry_out(controller, registration(broker_id, 99_000 + broker_id, log_dirs, previous), 100_000)
    assert reply.error_code == ErrorCode.NONE
    carry_out(controller, heartbeat(controller, broker_id), 100_000)
    return controller


def test_who_leaves_while_enough_are_in_sync_is_not_eligible_and_who_leaves_after_that_is() -> None:
    controller = three()
    fence(controller, 3)
    assert state(controller) == (1, (1, 2), (), ())
    fence(controller, 1)
    assert state(controller) == (2, (2,), (1,), ())
    fence(controller, 2)
    assert state(controller) == (-1, (), (1, 2), (2,))


def test_an_eligible_leader_leads_when_it_is_back_and_the_others_go_on_being_eligible() -> None:
    controller = three()
    fence(controller, 3, 1, 2)
    epoch = flights(controller).leader_epoch
    carry_out(controller, heartbeat(controller, 3))
    assert flights(controller).leader == -1, "it was away while others committed"
    carry_out(controller, heartbeat(controller, 1))
    assert state(controller) == (1, (1,), (2,), ())
    assert (flights(controller).leader_epoch, flights(controller).leader_recovery_state) == (epoch + 1, 0)
    carry_out(controller, heartbeat(controller, 2))
    assert state(controller) == (1, (1,), (2,), ()), "to be in sync again is for the leader to say"


def test_nobody_is_eligible_any_more_when_enough_are_in_sync() -> None:
    controller = three()
    fence(controller, 3, 1)
    carry_out(controller, heartbeat(controller, 1))
    carry_out(controller, in_sync(controller, 2, [2, 1]))
    assert state(controller) == (2, (1, 2) if flights(controller).isr == (1, 2) else (2, 1), (), ())


def test_a_leader_that_lets_a_replica_go_makes_it_eligible_if_too_few_are_left() -> None:
    controller = three()
    carry_out(controller, in_sync(controller, 1, [1, 2]))
    assert state(controller) == (1, (1, 2), (), ())
    carry_out(controller, in_sync(controller, 1, [1]))
    assert state(controller) == (1, (1,), (2,), ())
    carry_out(controller, in_sync(controller, 1, [1, 3]))
    assert state(controller) == (1, (1, 3), (), ())


def test_no_more_replicas_need_be_in_sync_than_there_are() -> None:
    controller = track(active_controller(1))
    carry_out(controller, assigned("flights", [1], min_insync_replicas="5"))
    assert state(controller) == (1, (1,), (), ())
    fence(controller, 1)
    assert state(controller) == (-1, (), (1,), (1,))


@pytest.mark.parametrize("clean", [True, False])
def test_who_comes_back_after_a_crash_is_eligible_no_more(clean: bool) -> None:
    controller = three()
    fence(controller, 3, 1)
    controller = come_back(controller, 1, clean=clean)
    assert state(controller) == (2, (2,), (1,) if clean else (), ())


def test_who_lost_its_power_does_not_lead_though_it_was_the_last_in_sync() -> None:
    """The other one stopped cleanly while the controller still took the first for alive."""
    controller = three()
    fence(controller, 3)
    fence(controller, 2)
    assert state(controller) == (1, (1,), (2,), ())
    controller = come_back(controller, 1, clean=False)
    assert state(controller) == (-1, (), (2,), (1,))
    controller = come_back(controller, 2, clean=True)
    assert state(controller) == (2, (2,), (), ())


def test_the_last_known_leader_leads_again_if_everybody_crashed_and_has_to_recover() -> None:
    controller = three()
    fence(controller, 3, 1, 2)
    controller = come_back(controller, 1, clean=False)
    assert state(controller) == (-1, (), (2,), (2,))
    controller = come_back(controller, 2, clean=False)
    assert state(controller) == (2, (2,), (), ())
    assert flights(controller).leader_recovery_state == RECOVERING


def test_the_only_one_goes_on_leading_after_a_crash_in_a_new_epoch_and_has_to_recover() -> None:
    controller = track(active_controller(1))
    carry_out(controller, assigned("flights", [1]))
    old = flights(controller)
    decision = successor(controller, node_id=1).decide(registration(1, 99), 100_000)
    assert len(decision.records) == 2, "no record is spent on going and coming"
    controller = come_back(controller, 1, clean=False)
    assert state(controller) == (1, (1,), (), ())
    assert flights(controller).leader_epoch == old.leader_epoch + 1
    assert flights(controller).leader_recovery_state == RECOVERING
    again = successor(controller, node_id=1).decide(registration(1, 100), 200_000)
    assert len(again.records) == 2
    assert come_back(controller, 1, clean=True).image.topics["flights"].partitions[0] == flights(controller)


def test_an_active_eligible_leader_takes_over_when_the_last_in_sync_stops_or_comes_back() -> None:
    controller = three()
    carry_out(controller, in_sync(controller, 1, [1, 2]))
    carry_out(controller, in_sync(controller, 1, [1]))
    stopping = successor(controller)
    carry_out(stopping, heartbeat(stopping, 1, want_shut_down=True))
    assert state(stopping) == (2, (2,), (1,), ())
    for clean in (True, False):
        assert state(come_back(controller, 1, clean=clean)) == (2, (2,), (1,) if clean else (), ())


def test_the_last_that_could_lead_does_so_until_it_has_stopped() -> None:
    controller = three()
    fence(controller, 3, 2)
    carry_out(controller, heartbeat(controller, 3))
    carry_out(controller, assigned("others", [1, 3]))
    reply = carry_out(controller, heartbeat(controller, 1, want_shut_down=True))
    assert (reply.should_shut_down, state(controller)) == (False, (1, (1,), (2,), ()))
    carry_out(controller, heartbeat(controller, 3))
    reply = carry_out(controller, heartbeat(controller, 1, want_shut_down=True))
    assert (reply.should_shut_down, state(controller)) == (True, (-1, (), (2, 1), (1,)))


def test_an_unclean_election_makes_everybody_forget() -> None:
    controller = three(unclean_leader_election_enable="true")
    fence(controller, 3, 1)
    carry_out(controller, heartbeat(controller, 3))
    fence(controller, 2)
    assert state(controller) == (3, (3,), (), ())
    assert flights(controller).leader_recovery_state == RECOVERING


def test_an_election_that_finds_nobody_says_so() -> None:
    controller = three()
    fence(controller, 1, 2, 3)
    for election_type, code in (
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        asked = [TopicPartitions(topic="flights", partitions=[0])]
        reply = carry_out(controller, ElectLeadersRequest(election_type=election_type, topic_partitions=asked))
        assert reply.replica_election_results[0].partition_result[0].error_code == code


def test_a_replica_in_a_directory_that_went_offline_is_not_eligible() -> None:
    controller = track(active_controller(2, 3))
    join(controller, 1, [DISK_1, DISK_2])
    carry_out(controller, assigned("flights", [1, 2, 3], [1, 2, 3], min_insync_replicas="3"))
    carry_out(controller, in_sync(controller, 1, [1, 2, 3]))
    topic_id = controller.image.topics["flights"].topic_id
    say_where(controller, topic_id, 0, DISK_1)
    fence(controller, 3)
    assert state(controller) == (1, (1, 2), (3,), ())
    carry_out(controller, heartbeat(controller, 1, offline_log_dirs=[DISK_1]))
    assert state(controller) == (2, (2,), (3,), ())
    carry_out(controller, heartbeat(controller, 3))
    fence(controller, 2)
    assert state(controller) == (3, (3,), (2,), ())


def test_who_is_eligible_is_so_no_more_when_its_directory_goes_offline() -> None:
    controller = track(active_controller(2, 3))
    join(controller, 1, [DISK_1, DISK_2])
    carry_out(controller, assigned("flights", [2, 1], min_insync_replicas="2"))
    say_where(controller, controller.image.topics["flights"].topic_id, 0, DISK_1)
    carry_out(controller, in_sync(controller, 2, [2]))
    assert state(controller) == (2, (2,), (1,), ())
    without_1, with_1 = successor(controller), successor(controller)
    carry_out(without_1, heartbeat(without_1, 1, offline_log_dirs=[DISK_1]))
    assert state(without_1) == (2, (2,), (), ())
    carry_out(with_1, heartbeat(with_1, 1, offline_log_dirs=[DISK_2]))
    assert state(with_1) == (2, (2,), (1,), ())
    assert state(come_back(controller, 1, clean=True, log_dirs=[DISK_2])) == (2, (2,), (), ())


def test_who_is_eligible_stays_so_where_its_directory_is_there() -> None:
    controller = track(active_controller(2, 3))
    join(controller, 1, [DISK_1, DISK_2])
    carry_out(controller, assigned("flights", [2, 1], [2, 1], min_insync_replicas="2"))
    topic_id = controller.image.topics["flights"].topic_id
    say_where(controller, topic_id, 0, DISK_2)
    say_where(controller, topic_id, 1, DISK_1)
    fence(controller, 1)
    carry_out(controller, heartbeat(controller, 1))
    assert [p.eligible_leader_replicas for p in controller.image.topics["flights"].partitions.values()] == [(1,), (1,)]
    carry_out(controller, heartbeat(controller, 1, offline_log_dirs=[DISK_1]))
    assert [p.eligible_leader_replicas for p in controller.image.topics["flights"].partitions.values()] == [(1,), ()]


def say_where(controller: Controller, topic_id: UUID, index: int, directory: UUID) -> None:
    from penstock.protocol.messages import assign_replicas_to_dirs as message

    topic = message.AssignReplicasToDirsRequestTopicData(
        topic_id=topic_id, partitions=[message.AssignReplicasToDirsRequestPartitionData(partition_index=index)]
    )
    asked: dict[str, Any] = {"id": directory, "topics": [topic]}
    request = message.AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=controller.image.brokers[1].epoch,
        directories=[message.AssignReplicasToDirsRequestDirectoryData(**asked)],
    )
    carry_out(controller, request)


def test_a_broker_that_is_unregistered_has_crashed_if_it_comes_back() -> None:
    controller = three()
    fence(controller, 3, 1)
    epoch = controller.image.brokers[1].epoch
    carry_out(controller, UnregisterBrokerRequest(broker_id=1))
    assert state(controller) == (2, (2,), (1,), ())
    carry_out(controller, registration(1, 99, previous_epoch=epoch))
    assert state(controller) == (2, (2,), (), ())


def test_a_broker_that_is_eligible_very_often_is_registered_after_a_crash_when_all_of_them_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moves, "MAX_RECORDS_PER_DECISION", 5)
    controller = track(active_controller(1, 2))
    carry_out(controller, assigned("pairs", *[[2, 1]] * 9, min_insync_replicas="2"))
    fence(controller, 1)
    controller, command = successor(controller, max_moves_per_decision=2, node_id=1), registration(1, 99)
    old = controller.image.brokers[1].epoch
    left = []
    while carry_out(controller, command).error_code == ErrorCode.REQUEST_TIMED_OUT:
        assert controller.image.brokers[1].epoch == old
        left.append(eligible_in(controller, 1))
    assert (left, eligible_in(controller, 1)) == ([4, 0], 0)


def eligible_in(controller: Controller, broker_id: int) -> int:
    partitions = [p for topic in controller.image.topics.values() for p in topic.partitions.values()]
    return sum(broker_id in p.eligible_leader_replicas for p in partitions)


def crashed_in_many() -> Controller:
    """Broker 1 is registered after a crash, and two of its nine partitions follow yet; another one is eligible, too."""
    controller = track(active_controller(1, 2))
    carry_out(controller, assigned("pairs", *[[1, 2]] * 9, min_insync_replicas="2"))
    controller = successor(controller, max_moves_per_decision=2, node_id=1)
    tick(controller, 0)
    carry_out(controller, registration(1, 99))
    assert sum(1 in p.isr for p in controller.image.topics["pairs"].partitions.values()) == 7
    return controller


@pytest.mark.parametrize("most", [2, 100])
def test_what_does_not_follow_a_crash_yet_when_the_controller_changes_is_taken_for_lost(most: int) -> None:
    controller = successor(crashed_in_many(), max_moves_per_decision=most)
    tick(controller, 0)
    assert eligible_in(controller, 1) == 0
    assert {(p.leader, p.isr) for p in controller.image.topics["pairs"].partitions.values()} == {(2, (2,))}


def test_who_became_eligible_before_its_crash_was_known_is_so_no_more() -> None:
    controller = crashed_in_many()
    decision = controller.decide(heartbeat(controller, 2, want_fence=True), 0)
    controller.apply(decision.records)
    tick(controller, 0)
    assert eligible_in(controller, 1) == 0
    carry_out(controller, heartbeat(controller, 1))
    tick(controller, 0)
    assert {p.leader for p in controller.image.topics["pairs"].partitions.values()} == {-1}


def test_a_broker_that_does_not_know_the_feature_is_not_let_in() -> None:
    controller = track(active_controller(1))
    command = registration(2, 99)
    command.features = [item for item in command.features if item.name == "metadata.version"]
    assert carry_out(controller, command).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_who_was_the_last_in_sync_before_the_feature_began_is_eligible_and_the_last_known() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1, 2]))
    fence(controller, 2, 1)
    assert state(controller) == (-1, (1,), (), ())
    track(controller)
    carry_out(controller, heartbeat(controller, 2))
    assert state(controller) == (-1, (), (1,), (1,))
    controller = come_back(controller, 1, clean=False)
    assert (state(controller), flights(controller).leader_recovery_state) == ((1, (1,), (), ()), RECOVERING)


def test_the_last_eligible_leader_is_the_last_known_one_if_nobody_else_is_known() -> None:
    controller = three()
    fence(controller, 3, 1, 2)
    topic_id = controller.image.topics["flights"].topic_id
    forgotten = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, eligible_leader_replicas=[1], last_known_elr=[]
    )
    controller.apply([forgotten])
    controller = come_back(controller, 1, clean=False)
    assert (state(controller), flights(controller).leader_recovery_state) == ((1, (1,), (), ()), RECOVERING)


def test_who_was_eligible_before_the_feature_was_taken_back_is_so_no_more_when_it_is_no_replica() -> None:
    controller = three()
    fence(controller, 3, 1)
    controller.apply([FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=0)])
    fence(controller, 2)
    assert state(controller) == (-1, (2,), (1,), ())
    target = ReassignablePartition(partition_index=0, replicas=[2])
    move = ReassignableTopic(name="flights", partitions=[target])
    carry_out(controller, AlterPartitionReassignmentsRequest(topics=[move]))
    assert (flights(controller).replicas, state(controller)) == ((2,), (-1, (2,), (), ()))


def test_where_all_who_were_in_sync_may_have_crashed_and_nobody_led_one_of_them_is_remembered() -> None:
    first = track(active_controller(1, 2))
    carry_out(first, assigned("pair", [1, 2]))
    for broker_id in (2, 1):
        carry_out(first, heartbeat(first, broker_id, want_fence=True))
    topic_id = first.image.topics["pair"].topic_id
    unknown = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, isr=[1, 2], eligible_leader_replicas=[], last_known_elr=[]
    )
    first.apply([unknown])
    second = successor(first)
    tick(second, 0)
    found = second.image.topics["pair"].partitions[0]
    assert (found.leader, found.isr, found.eligible_leader_replicas) == (-1, (), ())
    assert found.last_known_elr in ((1,), (2,))
