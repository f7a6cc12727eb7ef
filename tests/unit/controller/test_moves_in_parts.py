"""Moves that take several decisions: how much each of them holds, and what happens to the broker in between."""

import pytest
from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    heartbeat,
    registration,
    successor,
    tick,
    track,
)

from penstock.controller import moves
from penstock.controller.controller import Controller
from penstock.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from penstock.metadata.topics import PartitionImage


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
    decision = controller.decide(heartbeat(controller, 1), 0)
    sizes = []
    while decision is not None and decision.records:
        sizes.append(len(decision.records))
        controller.apply(decision.records)
        decision = controller.tick(0)
    assert sizes == [1 + 2, 2, 2], "it is let in by the first"
    assert [(p.leader, p.isr) for p in partitions(controller, "kept")] == [(1, (1,))] * 3
    assert [p.leader for p in partitions(controller, "left")] == [1] * 3


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
    assert (kept.leader, kept.isr) == (1, (1,))


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
