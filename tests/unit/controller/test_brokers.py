"""What the transcripts do not show of brokers that come and go: sessions, fail-overs, limits, directories."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.brokers import DISK_1, DISK_2, SESSION_MS
from tests.unit.controller.cluster import (
    active_controller,
    assigned,
    carry_out,
    create,
    heartbeat,
    join,
    partition,
    registration,
    successor,
    tick,
)

from penstock.controller.controller import Controller
from penstock.controller.decision import Decision
from penstock.metadata.features import METADATA_VERSION
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NodeFeature,
    PartitionChangeRecord,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_registration import Feature as BrokerFeature
from penstock.protocol.messages.controller_registration import ControllerRegistrationRequest, Feature
from penstock.protocol.messages.controller_registration import Listener as ControllerListener
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.unregister_controller import UnregisterControllerRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.raft.voters import Quorum, ReplicaKey, Voter


def test_the_timer_stands_at_the_end_of_the_longest_silence() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, heartbeat(controller, 1), 5000)
    assert controller.next_deadline_ms == SESSION_MS
    carry_out(controller, heartbeat(controller, 2), 6000)
    assert controller.next_deadline_ms == 5000 + SESSION_MS
    assert controller.tick(5000 + SESSION_MS - 1) is None
    tick(controller, 5000 + SESSION_MS)
    assert (controller.image.brokers[1].fenced, controller.image.brokers[2].fenced) == (True, False)


def test_each_silent_broker_is_fenced_by_a_decision_of_its_own() -> None:
    controller = active_controller(1, 2, 3)
    carry_out(controller, assigned("flights", [1, 2, 3]))
    first = controller.tick(SESSION_MS)
    assert first is not None
    controller.apply(first.records)
    assert partition(controller, "flights") == (2, (2, 3))
    tick(controller, SESSION_MS)
    assert partition(controller, "flights") == (-1, (3,)), "the last one in sync stays there"
    assert controller.next_deadline_ms is None


def test_a_new_controller_gives_every_broker_a_whole_session() -> None:
    old = active_controller(1, 2)
    carry_out(old, heartbeat(old, 2, want_fence=True))
    controller = successor(old)
    assert controller.next_deadline_ms == 0, "it looks for what its predecessor left undone"
    assert tick(controller, 50_000) == []
    assert controller.next_deadline_ms == 50_000 + SESSION_MS
    refused = carry_out(controller, registration(1, 99), 50_001)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert carry_out(controller, registration(2, 99), 50_001).error_code == ErrorCode.NONE


def test_an_earlier_life_of_the_own_process_holds_no_registration() -> None:
    old = active_controller(1, 2)
    controller = successor(old, node_id=1)
    assert carry_out(controller, registration(2, 99)).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert carry_out(controller, registration(1, 99)).error_code == ErrorCode.NONE
    again = carry_out(controller, registration(1, 100))
    assert again.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION, "but its present life does"


def test_who_has_the_directory_and_the_address_of_a_dead_process_need_not_wait_for_its_session() -> None:
    controller = active_controller(1)
    join(controller, 2, [DISK_1])
    elsewhere = registration(2, 99, [DISK_1])
    elsewhere.listeners[0].host = "10.0.0.9"
    assert carry_out(controller, elsewhere).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION, "a copy of the disk"
    assert carry_out(controller, registration(2, 99, [DISK_2])).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    unordered = registration(2, 99, [DISK_1])
    unordered.incarnation_id = UUID(int=99, version=4)
    assert carry_out(controller, unordered).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION, (
        "as Kafka's brokers do"
    )
    assert carry_out(controller, registration(2, 99, [DISK_1])).error_code == ErrorCode.NONE
    carry_out(controller, UnregisterBrokerRequest(broker_id=2))
    assert carry_out(controller, unordered).error_code == ErrorCode.NONE
    assert carry_out(controller, registration(2, 100, [DISK_1])).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_delayed_registration_of_a_dead_process_is_not_believed_after_its_successors() -> None:
    controller = active_controller(1)
    carry_out(controller, registration(2, 99, [DISK_1]))
    epoch = controller.image.brokers[2].epoch
    assert carry_out(controller, registration(2, 98, [DISK_1])).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert controller.image.brokers[2].epoch == epoch


def test_a_broker_that_came_back_after_a_crash_begins_a_new_leader_epoch() -> None:
    old = active_controller(1, node_id=1)
    carry_out(old, create("flights"))
    epoch = old.image.brokers[1].epoch
    clean = successor(old, node_id=1).decide(registration(1, 99, previous_epoch=epoch), 0)
    crashed = successor(old, node_id=1).decide(registration(1, 99), 0)
    assert not any(isinstance(record, PartitionChangeRecord) for record in clean.records)
    assert [r.leader for r in crashed.records if isinstance(r, PartitionChangeRecord)] == [1]


def test_a_controller_that_stood_still_itself_fences_nobody() -> None:
    controller = active_controller(1, 2)
    assert tick(controller, 60_000) == []
    assert controller.next_deadline_ms == 60_000 + SESSION_MS
    tick(controller, 60_000 + SESSION_MS)
    assert all(broker.fenced for broker in controller.image.brokers.values())


def test_many_partitions_follow_in_several_decisions() -> None:
    controller = active_controller(1, 2, max_moves_per_decision=10)
    carry_out(controller, assigned("pair", *[[1, 2]] * 25))
    carry_out(controller, assigned("single", *[[1]] * 25))
    carry_out(controller, heartbeat(controller, 2), 8000)
    first = controller.tick(SESSION_MS)
    assert first is not None
    assert len(first.records) == 11
    assert isinstance(first.records[0], BrokerRegistrationChangeRecord), "it is fenced first of all"
    controller.apply(first.records)
    assert controller.next_deadline_ms == 0
    waiting = carry_out(controller, heartbeat(controller, 1), SESSION_MS)
    assert waiting.is_fenced, "it comes back when all is done"
    assert len(tick(controller, SESSION_MS)) == 30
    assert {p.leader for p in controller.image.topics["pair"].partitions.values()} == {2}
    assert {p.leader for p in controller.image.topics["single"].partitions.values()} == {-1}
    back = controller.decide(heartbeat(controller, 1), SESSION_MS)
    assert not back.reply.is_fenced
    assert len(back.records) == 11
    controller.apply(back.records)
    assert len(tick(controller, SESSION_MS)) == 15
    assert {p.leader for p in controller.image.topics["single"].partitions.values()} == {1}


def test_what_a_controller_left_undone_its_successor_finishes() -> None:
    old = active_controller(1, 2, max_moves_per_decision=10)
    carry_out(old, assigned("pair", *[[1, 2]] * 25))
    carry_out(old, heartbeat(old, 1, want_fence=True))
    controller = successor(old)
    assert len(tick(controller, 0)) == 15
    assert {p.leader for p in controller.image.topics["pair"].partitions.values()} == {2}


def test_fifty_thousand_partitions_move_in_decisions_of_bounded_size() -> None:
    controller = active_controller(1, 2)
    for number in range(10):
        carry_out(controller, assigned(f"topic{number}", *[[1, 2]] * 5_000))
    decision: Decision[Any] | None = controller.decide(heartbeat(controller, 1, want_fence=True), 0)
    while decision is not None:
        assert len(decision.records) <= 2_001
        controller.apply(decision.records)
        decision = controller.tick(0)
    assert not controller.image.index.in_sync(1)
    assert sum(len(topic.partitions) for topic in controller.image.topics.values()) == 50_000


def test_a_broker_stops_when_others_lead_and_know_it() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("pair", [1, 2]))
    read = controller.state.next_offset - 1
    assert not carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down
    assert partition(controller, "pair") == (2, (2,))
    carry_out(controller, heartbeat(controller, 2, current_metadata_offset=read))
    assert not carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down
    carry_out(controller, heartbeat(controller, 2))
    assert carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down
    assert controller.image.brokers[1].fenced
    assert carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down, "the answer was lost"
    assert carry_out(controller, registration(1, 99)).error_code == ErrorCode.NONE


def test_a_broker_that_stops_is_not_fenced_before_it_knows_that_others_lead() -> None:
    """Fenced, it would answer as a leader beside its successor."""
    controller = active_controller(1, 2)
    carry_out(controller, assigned("pair", [1, 2]))
    read = controller.state.next_offset - 1
    carry_out(controller, heartbeat(controller, 1, want_shut_down=True))
    carry_out(controller, heartbeat(controller, 2))
    late = heartbeat(controller, 1, want_shut_down=True, current_metadata_offset=read)
    assert not carry_out(controller, late).should_shut_down
    assert not controller.image.brokers[1].fenced
    assert carry_out(controller, heartbeat(controller, 1, want_shut_down=True)).should_shut_down


def test_where_nobody_else_is_in_sync_an_outdated_replica_leads_only_if_the_topic_allows_it() -> None:
    controller = active_controller(1, 2)
    for name, allowed in (("careful", "false"), ("careless", "TRUE")):
        carry_out(controller, assigned(name, [1, 2], unclean_leader_election_enable=allowed))
    carry_out(controller, heartbeat(controller, 2, want_fence=True))
    carry_out(controller, heartbeat(controller, 2))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    assert partition(controller, "careful") == (-1, (1,))
    assert partition(controller, "careless") == (2, (2,))
    assert controller.image.topics["careless"].partitions[0].leader_recovery_state == 1


def test_who_comes_back_leads_uncleanly_too() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("careless", [1, 2], unclean_leader_election_enable="true"))
    for broker_id in (2, 1):
        carry_out(controller, heartbeat(controller, broker_id, want_fence=True))
    assert partition(controller, "careless") == (-1, (1,))
    carry_out(controller, heartbeat(controller, 2))
    assert partition(controller, "careless") == (2, (2,))


def test_replicas_in_an_offline_directory_get_other_leaders() -> None:
    controller = active_controller()
    join(controller, 2, [DISK_1])
    carry_out(controller, assigned("flights", [2, 1], [1, 2]))
    join(controller, 3, [DISK_2, UUID(int=1003)])
    lost = heartbeat(controller, 3, offline_log_dirs=[DISK_2])
    assert len(controller.decide(lost, 0).records) == 1, "nothing lies there"
    carry_out(controller, lost)
    assert controller.image.brokers[3].directories == (UUID(int=1003),)
    assert controller.decide(heartbeat(controller, 3, offline_log_dirs=[DISK_2]), 0).records == []
    carry_out(controller, heartbeat(controller, 2, offline_log_dirs=[DISK_1]))
    assert controller.image.brokers[2].fenced, "a broker without a directory holds nothing"
    assert [partition(controller, "flights", index) for index in (0, 1)] == [(1, (1,)), (1, (1,))]


def test_a_registration_must_name_directories_of_its_own() -> None:
    controller = active_controller(log_dirs=[DISK_1])
    for named in ([DISK_2, DISK_2], [UUID(int=3)], [DISK_1]):
        refused = carry_out(controller, registration(2, 99, named))
        assert refused.error_code == ErrorCode.INVALID_REGISTRATION
    assert carry_out(controller, registration(2, 99, [DISK_2])).error_code == ErrorCode.NONE


def test_the_same_incarnation_amends_its_registration() -> None:
    controller = active_controller(log_dirs=[DISK_1])
    before = controller.image.brokers[1]
    same = registration(1, 1, [DISK_1])
    same.incarnation_id = before.incarnation_id
    assert controller.decide(same, 0).records == []
    reply = carry_out(controller, same.replace(log_dirs=[DISK_1, DISK_2]))
    after = controller.image.brokers[1]
    assert reply.broker_epoch == after.epoch == before.epoch
    assert after.directories == (DISK_1, DISK_2)
    assert not after.fenced


def test_who_amends_its_registration_is_heard() -> None:
    controller = active_controller(log_dirs=[DISK_1])
    same = registration(1, 1, [DISK_1])
    same.incarnation_id = controller.image.brokers[1].incarnation_id
    carry_out(controller, same, SESSION_MS - 1)
    assert controller.next_deadline_ms == 2 * SESSION_MS - 1


def test_a_broker_says_which_directories_are_to_get_nothing_new() -> None:
    controller = active_controller(log_dirs=[DISK_1, DISK_2])
    cordoning = heartbeat(controller, 1, cordoned_log_dirs=[DISK_2])
    carry_out(controller, cordoning)
    assert controller.image.brokers[1].cordoned_directories == (DISK_2,)
    assert controller.decide(cordoning, 0).records == [], "it has not changed"
    assert controller.decide(heartbeat(controller, 1), 0).records == [], "an older broker does not say"
    carry_out(controller, heartbeat(controller, 1, cordoned_log_dirs=[]))
    assert not controller.image.brokers[1].cordoned_directories
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=29)])
    assert controller.decide(cordoning, 0).records == [], "the level has no such record"


def test_a_broker_is_unregistered_with_all_it_led() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("pair", [1, 2]))
    assert carry_out(controller, UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.NONE
    assert list(controller.image.brokers) == [2]
    assert partition(controller, "pair") == (2, (2,))
    carry_out(controller, UnregisterBrokerRequest(broker_id=2))
    assert partition(controller, "pair") == (-1, (2,))
    assert controller.next_deadline_ms is None, "nobody is waited for"
    assert tick(successor(controller), 0) == []


def test_a_broker_that_leads_within_its_lease_is_not_unregistered() -> None:
    """Its lease is over when its session is, or when it is fenced; one that stops leads until then."""
    controller = active_controller(1, 2, leases=True, broker_session_timeout_ms=SESSION_MS)
    carry_out(controller, assigned("pair", [1, 2]))
    refused = controller.decide(UnregisterBrokerRequest(broker_id=1), SESSION_MS - 1)
    assert (refused.records, refused.reply.error_code) == ([], ErrorCode.INVALID_REQUEST)
    assert refused.reply.error_message == "Broker 1 lives, and leads within its lease: stop it before"
    carry_out(controller, heartbeat(controller, 2, want_fence=True), SESSION_MS)
    for broker_id in (1, 2):
        assert carry_out(controller, UnregisterBrokerRequest(broker_id=broker_id), SESSION_MS).error_code == 0
    assert not controller.image.brokers


def test_a_broker_need_not_know_what_penstock_does_not_have() -> None:
    """A cluster that Kafka founded has such features on."""
    controller = active_controller(1)
    controller.apply([FeatureLevelRecord(name="group.version", feature_level=1)])
    join(controller, 2)
    assert not controller.image.brokers[2].fenced


@pytest.mark.parametrize(("level", "code"), [(14, ErrorCode.UNSUPPORTED_VERSION), (15, ErrorCode.NONE)])
def test_controllers_register_from_a_level_on(level: int, code: ErrorCode) -> None:
    controller = active_controller()
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=level)])
    listener = ControllerListener(name="CONTROLLER", host="localhost", port=9093)
    request = ControllerRegistrationRequest(controller_id=1, listeners=[listener])
    assert controller.decide(request, 0).reply.error_code == code


@pytest.mark.parametrize("controller_id", [0, 3000])
def test_a_controller_registers_once(controller_id: int) -> None:
    controller = active_controller()
    request = ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=UUID(int=5),
        listeners=[ControllerListener(name="CONTROLLER", host="localhost", port=9093)],
        features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=25)],
    )
    decision = controller.decide(request, 0)
    assert isinstance(decision.records[0], RegisterControllerRecord)
    controller.apply(decision.records)
    assert controller.image.controllers[controller_id].features["metadata.version"].newest == 25
    again = controller.decide(request, 0)
    assert (again.records, again.reply.error_code, again.reply.error_message) == ([], ErrorCode.NONE, None)
    moved = request.replace(listeners=[ControllerListener(name="CONTROLLER", host="localhost", port=9094)])
    assert len(controller.decide(moved, 0).records) == 1
    for nobody in (ControllerRegistrationRequest(controller_id=4), request.replace(controller_id=-1)):
        decision = controller.decide(nobody, 0)
        assert (decision.records, decision.reply.error_code) == ([], ErrorCode.INVALID_REGISTRATION)


def with_a_dead_controller() -> Controller:
    """Controller 3 runs at level 32 of metadata.version at most; 1 and 2 vote."""
    controller = active_controller()
    controller.state.quorum = Quorum.of([Voter(ReplicaKey(1)), Voter(ReplicaKey(2))])
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=33)])
    feature = NodeFeature(name="metadata.version", min_supported_version=7, max_supported_version=32)
    for controller_id in (1, 3):
        controller.apply([RegisterControllerRecord(controller_id=controller_id, features=[feature])])
    return controller


def test_a_controller_that_is_gone_blocks_upgrades_until_it_is_unregistered() -> None:
    controller = with_a_dead_controller()
    controller.apply([UnregisterControllerRecord(controller_id=1)])
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=33, upgrade_type=1)
    upgrade = UpdateFeaturesRequest(feature_updates=[update])
    assert "controller 3 runs at levels 7 to 32" in controller.decide(upgrade, 0).reply.error_message
    assert carry_out(controller, UnregisterControllerRequest(controller_id=3)).error_code == ErrorCode.NONE
    assert controller.decide(upgrade, 0).reply.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("controller_id", "level", "code"),
    [
        (3, 32, ErrorCode.UNSUPPORTED_VERSION),
        (1, 33, ErrorCode.INVALID_REQUEST),
        (2, 33, ErrorCode.INVALID_REQUEST),
        (4, 33, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    ],
)
def test_which_controllers_are_not_unregistered(controller_id: int, level: int, code: ErrorCode) -> None:
    controller = with_a_dead_controller()
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=level)])
    decision = controller.decide(UnregisterControllerRequest(controller_id=controller_id), 0)
    assert (decision.records, decision.reply.error_code) == ([], code)
    assert decision.reply.error_message


@pytest.mark.parametrize(
    ("feature", "level", "told", "code"),
    [
        (METADATA_VERSION, 33, (7, 33), ErrorCode.NONE),
        (METADATA_VERSION, 33, (33, 40), ErrorCode.NONE),
        (METADATA_VERSION, 33, (7, 32), ErrorCode.UNSUPPORTED_VERSION),
        (METADATA_VERSION, 33, (34, 40), ErrorCode.UNSUPPORTED_VERSION),
        (METADATA_VERSION, 33, None, ErrorCode.UNSUPPORTED_VERSION),
        ("strange", 2, (0, 1), ErrorCode.UNSUPPORTED_VERSION),
        ("strange", 2, (0, 2), ErrorCode.NONE),
        ("strange", 2, None, ErrorCode.NONE),
    ],
)
def test_a_broker_runs_at_the_levels_of_the_cluster(
    feature: str, level: int, told: tuple[int, int] | None, code: ErrorCode
) -> None:
    controller = active_controller(1)
    controller.apply([FeatureLevelRecord(name=feature, feature_level=level)])
    command = registration(2, 50)
    command.features = [one for one in command.features if one.name != feature]
    if told is not None:
        command.features.append(
            BrokerFeature(name=feature, min_supported_version=told[0], max_supported_version=told[1])
        )
    assert carry_out(controller, command).error_code == code


@pytest.mark.parametrize(
    ("directories", "code"),
    [
        ([DISK_1], ErrorCode.INVALID_REGISTRATION),
        ([DISK_2, DISK_2], ErrorCode.INVALID_REGISTRATION),
        ([UUID(int=99)], ErrorCode.INVALID_REGISTRATION),
        ([DISK_2, DISK_1], ErrorCode.INVALID_REGISTRATION),
        ([UUID(int=100)], ErrorCode.NONE),
        ([DISK_2], ErrorCode.NONE),
        ([], ErrorCode.NONE),
    ],
)
def test_directories_of_a_newcomer(directories: list[UUID], code: ErrorCode) -> None:
    controller = active_controller(1, log_dirs=[DISK_1])
    assert carry_out(controller, registration(2, 50, directories)).error_code == code
