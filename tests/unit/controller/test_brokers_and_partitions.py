"""What partitions do when their brokers come, go and come back."""

from collections.abc import Iterator

import pytest
from tests.unit.controller.brokers import DISK_1, DISK_2, SESSION_MS
from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    create,
    heartbeat,
    partition,
    registration,
    successor,
    tick,
)

from penstock.controller import moves
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerState
from penstock.controller.heartbeats import Going
from penstock.controller.partition_change import Electorate
from penstock.metadata.image import TopicImage
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest

CARELESS = AlterConfigsResource(
    resource_type=2,
    resource_name="pair",
    configs=[AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")],
)


def leaderless_pair() -> Controller:
    """Broker 2 is there and was not in sync when the last one went."""
    controller = active_controller(1, 2, unclean_election_interval_ms=1000)
    carry_out(controller, assigned("pair", [1, 2]))
    for broker_id in (2, 1):
        carry_out(controller, heartbeat(controller, broker_id, want_fence=True))
    carry_out(controller, heartbeat(controller, 2))
    assert tick(controller, 1000) == []
    return controller


def test_partitions_without_a_leader_are_looked_through_when_their_topic_has_changed_its_mind() -> None:
    controller = leaderless_pair()
    carry_out(controller, IncrementalAlterConfigsRequest(resources=[CARELESS]), 1001)
    assert controller.next_deadline_ms == 0
    tick(controller, 1001)
    assert partition(controller, "pair") == (2, (2,))
    assert controller.next_deadline_ms == 2000, "and then from time to time again"


def test_partitions_without_a_leader_are_looked_through_from_time_to_time() -> None:
    controller = leaderless_pair()
    name = "unclean.leader.election.enable"
    controller.apply([ConfigRecord(resource_type=2, resource_name="pair", name=name, value="true")])
    assert tick(controller, 1999) == []
    tick(controller, 2000)
    assert partition(controller, "pair") == (2, (2,))


def test_a_broker_that_comes_back_without_a_directory_does_not_lead_what_lay_there() -> None:
    old = active_controller(log_dirs=[DISK_1], node_id=1)
    carry_out(old, create("flights"))
    controller = successor(old, node_id=1)
    carry_out(controller, registration(1, 99, [DISK_2]))
    assert partition(controller, "flights") == (1, (1,))
    carry_out(controller, heartbeat(controller, 1))
    assert partition(controller, "flights") == (-1, (1,))


class Lookups(dict[str, TopicImage]):
    """The topics of an image, which can be looked up and never gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("somebody goes through all topics")

    values = items = keys = __iter__  # type: ignore[assignment]


def test_what_a_broker_costs_depends_on_its_own_partitions() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("pair", [1, 2]))
    for number in range(50):
        carry_out(controller, assigned(f"other{number}", [2]))
    later = successor(controller)
    for image in (controller.image, later.image):
        image.topics = Lookups(image.topics)
    for command in (
        heartbeat(controller, 1, want_fence=True),
        heartbeat(controller, 1),
        heartbeat(controller, 1, want_shut_down=True),
        UnregisterBrokerRequest(broker_id=1),
    ):
        carry_out(controller, command)
    tick(controller, SESSION_MS)
    assert controller.image.brokers[2].fenced
    assert tick(later, 0) == []


def test_a_decision_that_could_not_be_appended_was_not_made() -> None:
    controller = active_controller(1, 2, max_moves_per_decision=2)
    carry_out(controller, assigned("pair", *[[1, 2]] * 3))
    carry_out(controller, heartbeat(controller, 2), 8000)
    first = controller.tick(SESSION_MS)
    again = controller.tick(SESSION_MS)
    assert first is not None
    assert again is not None
    assert again.records == first.records, "the broker is silent still"
    controller.apply(again.records)
    last = controller.tick(SESSION_MS)
    assert last is not None
    assert controller.tick(SESSION_MS) == last, "the third partition is left"
    controller.decide(registration(1, 99), SESSION_MS)
    controller.decide(heartbeat(controller, 2, want_shut_down=True), SESSION_MS)
    assert tick(controller, SESSION_MS) == last.records
    tick(controller, 2 * SESSION_MS)
    assert controller.image.brokers[2].fenced, "its session was not forgotten"


def test_what_a_broker_keeps_over_a_crash_it_keeps_in_as_many_decisions_as_it_takes() -> None:
    old = active_controller(node_id=1)
    carry_out(old, create("flights", partitions=25))
    controller = successor(old, node_id=1, max_moves_per_decision=10)
    decision = controller.decide(registration(1, 99), 0)
    assert len(decision.records) == 11
    controller.apply(decision.records)
    waiting = carry_out(controller, heartbeat(controller, 1))
    assert waiting.is_fenced, "it comes in when all have a new epoch"
    assert len(tick(controller, 0)) == 5
    back = controller.decide(heartbeat(controller, 1), 0)
    assert len(back.records) == 1, "nothing is led anew"
    controller.apply(back.records)
    leaders = [(p.leader, p.leader_epoch) for p in controller.image.topics["flights"].partitions.values()]
    assert leaders == [(1, 1)] * 25


def test_what_has_gone_meanwhile_follows_nobody() -> None:
    controller = active_controller(1, 2, max_moves_per_decision=1)
    for name in ("first", "second", "third"):
        carry_out(controller, assigned(name, [1, 2]))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    carry_out(controller, DeleteTopicsRequest(topic_names=["second"]))
    tick(controller, 0)
    assert {name: partition(controller, name) for name in ("first", "third")} == {
        "first": (2, (2,)),
        "third": (2, (2,)),
    }


@pytest.mark.parametrize("going", ["fenced", "back"])
def test_no_partition_of_a_broker_is_looked_at_twice(going: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = active_controller(1, node_id=1)
    carry_out(old, create("flights", partitions=100))
    controller = successor(old, node_id=1, max_moves_per_decision=10)
    looked_at, left = [], moves._left

    def watched(state: ControllerState, electorate: Electorate, topic: TopicImage, index: int, why: Going) -> object:
        looked_at.append(index)
        return left(state, electorate, topic, index, why)

    tick(controller, 0)  # what the controller before it may have left
    monkeypatch.setattr(moves, "_left", watched)
    carry_out(controller, registration(1, 99) if going == "back" else heartbeat(controller, 1, want_fence=True))
    tick(controller, 0)
    assert sorted(looked_at) == list(range(100))


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_that_were_away_the_first_that_is_back_leads_alone(first: int) -> None:
    """Also where the other one has registered and kept the leadership: it may never come in."""
    old = active_controller(1, 2, node_id=1)
    carry_out(old, assigned("pair", [1, 2]))
    carry_out(old, heartbeat(old, 2, want_shut_down=True))
    controller = successor(old, node_id=1)
    controller.apply([BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=1)])
    topic_id = controller.image.topics["pair"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1, 2])])
    carry_out(controller, registration(1, 99))
    assert partition(controller, "pair") == (1, (1, 2)), "either may come back first"
    carry_out(controller, registration(2, 98))
    carry_out(controller, heartbeat(controller, first))
    assert partition(controller, "pair") == (first, (first,))
