"""Moves that take several decisions: how much each of them holds, and what happens to the broker in between."""

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
from penstock.controller.decision import Decision
from penstock.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from penstock.metadata.topics import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

DISK_1, DISK_2 = UUID(int=1001), UUID(int=1002)


def partitions(controller: Controller, topic: str) -> list[PartitionImage]:
    return list(controller.image.topics[topic].partitions.values())


def test_what_a_broker_comes_back_to_it_gets_in_decisions_of_bounded_size() -> None:
    """First what it was in sync with while another one kept the leadership, then what nobody leads."""
    controller = active_controller(1, 2, max_moves_per_decision=2)
    carry_out(controller, assigned("kept", *[[2, 1]] * 3))
    carry_out(controller, assigned("left", *[[1]] * 3))
    brokers = controller.image.brokers
    controller.apply(
        [BrokerRegistrationChangeRecord(broker_id=n, broker_epoch=brokers[n].epoch, fenced=1) for n in (1, 2)]
    )
    topic_id = controller.image.topics["left"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=-1) for index in range(3)])
    decision: Decision[Any] | None = controller.decide(heartbeat(controller, 1), 0)
    sizes = []
    while decision is not None:
        sizes.append(len(decision.records))
        controller.apply(decision.records)
        decision = controller.tick(0)
    assert sizes == [1 + 2, 2, 2], "it is let in by the first"
    assert [(p.leader, p.isr) for p in partitions(controller, "kept")] == [(1, (1,))] * 3
    assert [p.leader for p in partitions(controller, "left")] == [1] * 3


def test_what_a_broker_led_gets_other_leaders_before_it_leaves_what_it_followed() -> None:
    controller = active_controller(1, 2, max_moves_per_decision=2)
    carry_out(controller, assigned("mixed", *[[2, 1]] * 3, *[[1, 2]] * 3))
    decision: Decision[Any] | None = controller.decide(heartbeat(controller, 1, want_fence=True), 0)
    leaders = []
    while decision is not None:
        controller.apply(decision.records)
        leaders.append([p.leader for p in partitions(controller, "mixed")].count(2))
        decision = controller.tick(0)
    assert leaders == [5, 6, 6]
    assert [p.isr for p in partitions(controller, "mixed")] == [(2,)] * 6


@pytest.mark.parametrize("is_tracked", [True, False])
def test_a_leader_on_its_way_out_goes_on_without_a_replica_that_goes_as_well(is_tracked: bool) -> None:
    controller = active_controller(1, 2, max_moves_per_decision=1)
    if is_tracked:
        track(controller)
    carry_out(controller, assigned("pair", [1, 2], [1, 2]))
    carry_out(controller, heartbeat(controller, 1, want_shut_down=True))
    assert [(p.leader, p.isr) for p in partitions(controller, "pair")] == [(2, (2,)), (1, (1, 2))]
    carry_out(controller, heartbeat(controller, 2, want_fence=True))
    tick(controller, 0)
    gone, kept = partitions(controller, "pair")
    assert gone.leader == -1
    assert (kept.leader, kept.isr, kept.leader_recovery_state) == (1, (1,), 0)


@pytest.mark.parametrize("other", [0, 2])
def test_after_a_crash_another_one_leads_uncleanly_whatever_its_number(other: int) -> None:
    controller = track(active_controller(1, other))
    careless = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    carry_out(controller, assigned("pair", [1, other], **careless))
    carry_out(controller, heartbeat(controller, other, want_fence=True))
    carry_out(controller, heartbeat(controller, other))
    assert [(p.leader, p.isr) for p in partitions(controller, "pair")] == [(1, (1,))]
    controller = successor(controller, node_id=1)
    carry_out(controller, registration(1, 99), 100_000)
    assert [(p.leader, p.isr) for p in partitions(controller, "pair")] == [(other, (other,))]


@pytest.mark.parametrize(("count", "most", "is_registered"), [(2, 5, True), (3, 5, False), (2, 4, False)])
def test_a_registration_leaves_room_for_all_that_is_lost(
    count: int, most: int, is_registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for the registration itself, and for what the broker leaves where it is in sync."""
    monkeypatch.setattr(moves, "MAX_RECORDS_PER_DECISION", most)
    controller = track(active_controller(1, 2))
    carry_out(controller, assigned("eligible", *[[2, 1]] * count, min_insync_replicas="2"))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    join_again = successor(controller, max_moves_per_decision=2, node_id=1)
    decision = join_again.decide(registration(1, 99), 0)
    assert (decision.reply.error_code == 0) is is_registered
    assert len(decision.records) == count + is_registered


@pytest.mark.parametrize("takes_over", [False, True])
def test_what_lies_in_a_lost_directory_follows_in_as_many_decisions_as_it_takes(takes_over: bool) -> None:
    """Also those of a controller that takes over in between: it hears again of the directory."""
    controller = active_controller(2, max_moves_per_decision=2)
    join(controller, 1, [DISK_1, DISK_2])
    carry_out(controller, assigned("pair", *[[1, 2]] * 5))
    topic_id = controller.image.topics["pair"].topic_id
    controller.apply(
        [PartitionChangeRecord(partition_id=n, topic_id=topic_id, directories=[DISK_1, UUID(int=0)]) for n in range(5)]
    )
    first = controller.decide(heartbeat(controller, 1, offline_log_dirs=[DISK_1]), 0)
    assert len(first.records) == 1 + 2
    controller.apply(first.records)
    if takes_over:
        controller = successor(controller, max_moves_per_decision=2)
        carry_out(controller, heartbeat(controller, 1, offline_log_dirs=[DISK_1]))
    assert len(tick(controller, 0)) == 3
    assert [(p.leader, p.isr) for p in partitions(controller, "pair")] == [(2, (2,))] * 5


def test_a_topic_that_is_made_anew_has_nothing_left_to_follow() -> None:
    controller = active_controller(1, 2, max_moves_per_decision=1)
    carry_out(controller, assigned("pair", *[[1, 2]] * 3))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    carry_out(controller, DeleteTopicsRequest(topic_names=["pair"]))
    carry_out(controller, assigned("pair", [2], [2]))
    assert tick(controller, 0) == []
    assert controller.state.heartbeats.is_finished


def test_who_led_last_leads_again_as_soon_as_nobody_is_eligible() -> None:
    controller = track(active_controller(1, 2, 3))
    carry_out(controller, assigned("pair", [1, 2], min_insync_replicas="1"))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    topic_id = controller.image.topics["pair"].topic_id
    nobody = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[2]
    )
    controller.apply([nobody])
    controller = successor(controller, node_id=1)
    carry_out(controller, registration(1, 99), 100_000)
    (pair,) = partitions(controller, "pair")
    assert (pair.leader, pair.isr, pair.eligible_leader_replicas) == (2, (2,), ())


def test_a_replica_that_a_move_adds_is_there_when_it_is_in_sync() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1]))
    target = ReassignablePartition(partition_index=0, replicas=[1, 2])
    move = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="flights", partitions=[target])])
    carry_out(controller, move)
    assert partitions(controller, "flights")[0].adding_replicas == (2,)
    carry_out(controller, in_sync(controller, 1, [1, 2]))
    (flights,) = partitions(controller, "flights")
    assert (flights.replicas, flights.isr, flights.adding_replicas) == ((1, 2), (1, 2), ())


def test_a_leader_stays_where_the_preferred_one_cannot_lead() -> None:
    controller = active_controller(1, 2, 3)
    carry_out(controller, assigned("flights", [1, 3, 2]))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    carry_out(controller, heartbeat(controller, 3, want_fence=True))
    carry_out(controller, heartbeat(controller, 3))
    carry_out(controller, in_sync(controller, 2, [2, 3]))
    asked = [TopicPartitions(topic="flights", partitions=[0])]
    reply = carry_out(controller, ElectLeadersRequest(election_type=0, topic_partitions=asked))
    code = reply.replica_election_results[0].partition_result[0].error_code
    assert (code, partitions(controller, "flights")[0].leader) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2)
