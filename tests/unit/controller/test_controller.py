"""What the transcripts do not show: limits, replies in full, directories, features."""

import random
from collections import Counter
from uuid import UUID

import pytest
from tests.unit.controller.cluster import CLUSTER, active_controller, carry_out, create

from penstock.controller import create_topics, decision
from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings
from penstock.metadata.configs.effective import ConfigSource
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, PartitionRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def test_the_reply_tells_all_configs_of_a_new_topic_with_their_sources() -> None:
    controller = active_controller(static={"log.segment.bytes": "2097152"})
    topic = CreatableTopic(
        name="flights",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
    )
    (result,) = controller.decide(CreateTopicsRequest(topics=[topic]), 0).reply.topics
    entries = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert entries["retention.ms"] == ("1000", ConfigSource.DYNAMIC_TOPIC)
    assert entries["segment.bytes"] == ("2097152", ConfigSource.STATIC_BROKER)
    assert entries["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)
    assert list(entries) == sorted(entries)
    assert (result.error_message, result.num_partitions, result.replication_factor) == (None, 1, 1)


def test_a_decision_changes_nothing() -> None:
    controller = active_controller()
    before = list(controller.image.records())
    assert controller.decide(create("flights"), 0).records
    assert list(controller.image.records()) == before


def test_a_broker_with_one_directory_is_told_where_its_replicas_lie() -> None:
    controller = active_controller(log_dirs=[UUID(int=500)])
    record = controller.decide(create("flights", partitions=1), 0).records[-1]
    assert isinstance(record, PartitionRecord)
    assert record.directories == [UUID(int=500)]


def test_one_request_is_bounded() -> None:
    controller = active_controller()
    limit = decision.MAX_RECORDS_PER_DECISION
    (result,) = controller.decide(create("many", partitions=limit + 1), 0).reply.topics
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    topics = [CreatableTopic(name=name, num_partitions=limit // 2, replication_factor=1) for name in ("a", "b")]
    outcome = controller.decide(CreateTopicsRequest(topics=topics), 0)
    assert [topic.error_code for topic in outcome.reply.topics] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert len(outcome.records) <= limit
    carry_out(controller, create("few", partitions=1))
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="few", count=limit + 2)])
    (grown,) = controller.decide(grow, 0).reply.results
    assert grown.error_code == ErrorCode.POLICY_VIOLATION


def test_what_does_not_fit_into_a_request_is_refused_before_it_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = active_controller()
    placed: list[int] = []

    def place(brokers: object, partitions: int, *_: object) -> list[list[int]]:
        placed.append(partitions)
        return [[1]] * partitions

    monkeypatch.setattr(create_topics, "place", place)
    topics = [CreatableTopic(name=f"t{number}", num_partitions=2_000, replication_factor=1) for number in range(50)]
    outcome = controller.decide(CreateTopicsRequest(topics=topics), 0)
    fit = decision.MAX_RECORDS_PER_DECISION // 2_001
    refused = [topic.error_code for topic in outcome.reply.topics[fit:]]
    assert refused == [ErrorCode.POLICY_VIOLATION] * (50 - fit)
    assert placed == [2_000] * fit


def test_a_topic_that_is_refused_uses_up_its_part_of_what_a_request_may_ask_for() -> None:
    controller = active_controller()
    half = decision.MAX_RECORDS_PER_DECISION // 2
    sizes = {"large": (half + 1, 9), "too-large": (half, 1), "fits": (half - 10, 1)}
    topics = [CreatableTopic(name=name, num_partitions=it[0], replication_factor=it[1]) for name, it in sizes.items()]
    outcome = controller.decide(CreateTopicsRequest(topics=topics), 0)
    assert [topic.error_code for topic in outcome.reply.topics] == [
        ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE,
    ]  # fmt: skip


def test_deleting_can_be_switched_off() -> None:
    controller = active_controller(delete_topic_enable=False)
    carry_out(controller, create("flights"))
    outcome = controller.decide(DeleteTopicsRequest(topic_names=["flights"]), 0)
    assert outcome.records == []
    assert outcome.reply.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_a_topic_is_named_by_name_or_by_id() -> None:
    controller = active_controller()
    carry_out(controller, create("flights"))
    topic_id = controller.image.topics["flights"].topic_id
    asked = [DeleteTopicState(name="flights", topic_id=topic_id), DeleteTopicState()]
    outcome = controller.decide(DeleteTopicsRequest(topics=asked), 0)
    assert [result.error_code for result in outcome.reply.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert outcome.records == []


def test_a_topic_that_is_named_twice_is_refused_once_and_stays() -> None:
    controller = active_controller()
    for name in ("flights", "delays", "fares"):
        carry_out(controller, create(name))
    flights, delays = (controller.image.topics[name].topic_id for name in ("flights", "delays"))
    by_name = controller.decide(DeleteTopicsRequest(topic_names=["flights", "fares", "flights"]), 0)
    assert [(result.name, result.error_code) for result in by_name.reply.responses] == [
        ("fares", ErrorCode.NONE), ("flights", ErrorCode.INVALID_REQUEST),
    ]  # fmt: skip
    asked = [DeleteTopicState(topic_id=flights), DeleteTopicState(name="flights")]
    asked += [DeleteTopicState(topic_id=delays), DeleteTopicState(topic_id=delays)]
    both = controller.decide(DeleteTopicsRequest(topics=asked), 0)
    assert [(result.name, result.error_code) for result in both.reply.responses] == [
        ("flights", ErrorCode.INVALID_REQUEST), (None, ErrorCode.INVALID_REQUEST),
    ]  # fmt: skip
    assert both.records == []


def test_names_that_metrics_cannot_tell_apart_are_held_against_what_is_there() -> None:
    controller = active_controller()
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("ok.name", "ok_name")]
    reply = carry_out(controller, CreateTopicsRequest(topics=topics))
    assert [topic.error_code for topic in reply.topics] == [ErrorCode.NONE] * 2, "within a request Kafka does not look"
    carry_out(controller, DeleteTopicsRequest(topic_names=["ok.name"]))
    again = carry_out(controller, create("ok.name")).topics[0]
    assert again.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "ok_name" in again.error_message


@pytest.mark.parametrize(
    ("features", "code"),
    [
        ([Feature(name="metadata.version", min_supported_version=7, max_supported_version=25)], ErrorCode.NONE),
        (
            [Feature(name="metadata.version", min_supported_version=7, max_supported_version=24)],
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ([], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_broker_must_run_at_the_level_of_the_cluster(features: list[Feature], code: ErrorCode) -> None:
    controller = Controller(ClusterImage(CLUSTER), ControllerSettings(rules=DefinedConfigs({})), random.Random(1))
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=25)])
    request = BrokerRegistrationRequest(
        broker_id=1, cluster_id=CLUSTER, incarnation_id=UUID(int=1), listeners=[Listener()], features=features
    )
    outcome = controller.decide(request, 0)
    assert outcome.reply.error_code == code
    assert bool(outcome.records) is (code == ErrorCode.NONE)


def test_a_broker_without_a_listener_or_an_id_is_refused() -> None:
    controller = active_controller()
    for broker_id, listeners in ((2, []), (-1, [Listener()])):
        request = BrokerRegistrationRequest(broker_id=broker_id, cluster_id=CLUSTER, listeners=listeners)
        assert controller.decide(request, 0).reply.error_code == ErrorCode.INVALID_REGISTRATION


def test_producer_ids_end_before_they_overflow() -> None:
    controller = active_controller()
    controller.image.next_producer_id = 2**63 - 500
    epoch = controller.image.brokers[1].epoch
    reply = controller.decide(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), 0).reply
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_thirty_partitions_of_three_replicas_are_spread_evenly_over_three_brokers() -> None:
    controller = active_controller(1, 2, 3)
    topic = CreatableTopic(name="flights", num_partitions=30, replication_factor=3)
    carry_out(controller, CreateTopicsRequest(topics=[topic]))
    partitions = controller.image.topics["flights"].partitions.values()
    assert Counter(partition.leader for partition in partitions) == {1: 10, 2: 10, 3: 10}
    assert all(sorted(partition.isr) == [1, 2, 3] for partition in partitions)
    assert controller.image.index.moved == {}, "everywhere the first replica leads"
