"""`min.insync.replicas` while eligible leaders are known, and the feature itself: how it begins, what it needs."""

from typing import Any

import pytest
from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, in_sync, track

from penstock.controller import min_isr
from penstock.controller.controller import Controller
from penstock.controller.first_records import first_records
from penstock.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KAFKAS_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from penstock.metadata.image import ResourceType
from penstock.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NodeFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.metadata.topics import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

KEY = "min.insync.replicas"
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE = 0, 1


def change(resource_type: int, name: str, value: str | None, key: str = KEY) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=key, config_operation=SET if value else DELETE, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def code(controller: Controller, command: Any) -> int:
    found: int = carry_out(controller, command).responses[0].error_code
    return found


def eligible(controller: Controller, topic: str) -> tuple[int, ...]:
    return partition(controller, topic).eligible_leader_replicas


def partition(controller: Controller, topic: str) -> PartitionImage:
    return controller.image.topics[topic].partitions[0]


def with_eligible_leaders() -> Controller:
    """Broker 2 is an eligible leader of two topics."""
    controller = track(active_controller(1, 2))
    for topic in ("flights", "trains"):
        carry_out(controller, assigned(topic, [1, 2], min_insync_replicas="2"))
    carry_out(controller, heartbeat(controller, 2, want_fence=True))
    assert (eligible(controller, "flights"), eligible(controller, "trains")) == ((2,), (2,))
    return controller


def test_nobody_is_eligible_by_another_number_of_replicas() -> None:
    controller = with_eligible_leaders()
    assert code(controller, change(TOPIC, "flights", "1")) == ErrorCode.NONE
    assert (eligible(controller, "flights"), eligible(controller, "trains")) == ((), (2,))
    assert code(controller, change(BROKER, "", "3")) == ErrorCode.NONE
    assert eligible(controller, "trains") == ()


def test_a_config_of_another_name_or_without_a_change_makes_nobody_forget() -> None:
    controller = with_eligible_leaders()
    for command in (change(TOPIC, "flights", "9", "retention.ms"), change(TOPIC, "flights", "2")):
        assert code(controller, command) == ErrorCode.NONE
    assert eligible(controller, "flights") == (2,)


def test_where_nobody_leads_who_was_eligible_goes_on_being_so() -> None:
    controller = with_eligible_leaders()
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    before = partition(controller, "flights")
    assert (before.leader, before.eligible_leader_replicas, before.last_known_elr) == (-1, (2, 1), (1,))
    decision = controller.decide(change(BROKER, "", "3"), 0)
    assert sum(isinstance(record, ClearElrRecord) for record in decision.records) == 1
    controller.apply(decision.records)
    for topic in ("flights", "trains"):
        after = partition(controller, topic)
        assert (after.eligible_leader_replicas, after.last_known_elr) == ((2, 1), (1,))
    decision = controller.decide(change(TOPIC, "flights", "1"), 0)
    assert len(decision.records) == 3, "of its own partitions alone"


def test_what_is_remembered_where_nobody_leads_is_who_was_eligible_and_who_led_last() -> None:
    controller = track(active_controller(1, 2))
    known: dict[str, tuple[list[int], list[int]]] = {"a": ([2], []), "b": ([], [1]), "c": ([], [])}
    for topic, (eligible_ones, last) in known.items():
        carry_out(controller, assigned(topic, [1, 2]))
        nobody = PartitionChangeRecord(
            partition_id=0,
            topic_id=controller.image.topics[topic].topic_id,
            leader=-1,
            isr=[],
            eligible_leader_replicas=eligible_ones,
            last_known_elr=last,
        )
        controller.apply([nobody])
    decision = controller.decide(change(BROKER, "", "3"), 0)
    controller.apply(decision.records)
    found = {topic: partition(controller, topic) for topic in known}
    assert {t: ([*p.eligible_leader_replicas], [*p.last_known_elr]) for t, p in found.items()} == known
    assert sum(isinstance(record, PartitionChangeRecord) for record in decision.records) == 2, "c knows nothing"


def test_a_change_that_would_have_to_remember_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = with_eligible_leaders()
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    monkeypatch.setattr(min_isr, "MAX_RECORDS_PER_DECISION", 2)
    assert code(controller, change(BROKER, "", "3")) == ErrorCode.POLICY_VIOLATION
    assert code(controller, change(TOPIC, "flights", "1")) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("resource_type", "name", "value", "expected"),
    [
        (BROKER, "", "2", ErrorCode.NONE),
        (BROKER, "", None, ErrorCode.INVALID_CONFIG),
        (BROKER, "1", "2", ErrorCode.INVALID_CONFIG),
        (TOPIC, "flights", None, ErrorCode.NONE),
    ],
)
def test_the_cluster_has_a_value_and_no_broker_has_another(
    resource_type: int, name: str, value: str | None, expected: ErrorCode
) -> None:
    controller = track(active_controller(1))
    carry_out(controller, assigned("flights", [1], min_insync_replicas="2"))
    assert code(controller, change(resource_type, name, value)) == expected
    without = active_controller(1)
    carry_out(without, assigned("flights", [1], min_insync_replicas="2"))
    assert code(without, change(resource_type, name, value)) == ErrorCode.NONE


def test_all_configs_of_the_cluster_cannot_be_replaced_without_it() -> None:
    controller = track(active_controller(1))
    resource = ReplacedResource(
        resource_type=BROKER, resource_name="", configs=[ReplacedConfig(name="log.retention.ms", value="1")]
    )
    assert code(controller, AlterConfigsRequest(resources=[resource])) == ErrorCode.INVALID_CONFIG


def update(controller: Controller, *updates: tuple[str, int, int]) -> tuple[int, str]:
    keys = [FeatureUpdateKey(feature=n, max_version_level=level, upgrade_type=kind) for n, level, kind in updates]
    reply = carry_out(controller, UpdateFeaturesRequest(feature_updates=keys))
    return reply.error_code, reply.error_message or ""


def test_the_feature_begins_with_one_value_for_all_brokers() -> None:
    controller = active_controller(1, 2, static={KEY: "2"})
    carry_out(controller, change(BROKER, "2", "3"))
    carry_out(controller, change(BROKER, "2", "7", "log.cleaner.threads"))
    assert update(controller, (ELIGIBLE_LEADER_REPLICAS, 1, 1)) == (ErrorCode.NONE, "")
    assert controller.image.config_of(BROKER, "") == {KEY: "2"}
    assert controller.image.config_of(BROKER, "2") == {"log.cleaner.threads": "7"}
    decision = controller.decide(
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature=ELIGIBLE_LEADER_REPLICAS, max_version_level=1, upgrade_type=1)]
        ),
        0,
    )
    assert decision.records == [], "it has begun"
    assert update(controller, (ELIGIBLE_LEADER_REPLICAS, 0, 2)) == (ErrorCode.NONE, "")
    assert controller.image.config_of(BROKER, "") == {KEY: "2"}
    assert code(controller, change(BROKER, "", None)) == ErrorCode.NONE


def test_the_feature_takes_nothing_away_but_what_single_brokers_have() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1], min_insync_replicas="2"))
    carry_out(controller, change(BROKER, "1", "3"))
    carry_out(controller, change(BROKER, "2", "77", "log.retention.ms"))
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature=ELIGIBLE_LEADER_REPLICAS, max_version_level=1, upgrade_type=1)]
    )
    records = [record for record in controller.decide(request, 0).records if isinstance(record, ConfigRecord)]
    assert [(record.resource_type, record.resource_name, record.value) for record in records] == [
        (BROKER, "", "1"),
        (BROKER, "1", None),
    ]


def test_a_value_that_the_cluster_has_already_stays() -> None:
    controller = active_controller(1)
    carry_out(controller, change(BROKER, "", "3"))
    update(controller, (ELIGIBLE_LEADER_REPLICAS, 1, 1))
    assert controller.image.config_of(BROKER, "") == {KEY: "3"}


def at_level(level: int) -> Controller:
    controller = active_controller(1)
    features = [
        NodeFeature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=33),
        NodeFeature(name=ELIGIBLE_LEADER_REPLICAS, min_supported_version=0, max_supported_version=1),
    ]
    controller.apply(
        [
            FeatureLevelRecord(name=METADATA_VERSION, feature_level=level),
            RegisterBrokerRecord(broker_id=1, features=features),
        ]
    )
    return controller


def test_the_feature_needs_a_level_of_metadata_version_which_the_same_request_may_bring() -> None:
    controller = at_level(22)
    refused, message = update(controller, (ELIGIBLE_LEADER_REPLICAS, 1, 1))
    assert refused == ErrorCode.INVALID_UPDATE_VERSION
    assert "needs level 23 of metadata.version, which is at 22" in message
    assert update(controller, (ELIGIBLE_LEADER_REPLICAS, 1, 1), (METADATA_VERSION, 23, 1))[0] == ErrorCode.NONE
    assert controller.image.features == {METADATA_VERSION: 23, ELIGIBLE_LEADER_REPLICAS: 1}
    assert update(controller, (ELIGIBLE_LEADER_REPLICAS, 2, 1))[0] == ErrorCode.INVALID_UPDATE_VERSION


def test_without_the_feature_what_an_earlier_one_left_is_forgotten_as_soon_as_anything_changes() -> None:
    controller = with_eligible_leaders()
    update(controller, (ELIGIBLE_LEADER_REPLICAS, 0, 2))
    carry_out(controller, heartbeat(controller, 2))
    assert eligible(controller, "flights") == (2,)
    carry_out(controller, in_sync(controller, 1, [1, 2]))
    assert eligible(controller, "flights") == ()


def level(number: int, name: str = METADATA_VERSION) -> MetadataRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


OPTIONAL = {
    name: feature.newest
    for name, feature in SUPPORTED_FEATURES.items()
    if name in KAFKAS_FEATURES and name != KRAFT_VERSION
}
"""What a cluster may be without: all of it can be formatted, and begins at its newest level where more is asked for."""


@pytest.mark.parametrize(
    ("formatted", "expected"),
    [
        (
            [],
            {
                METADATA_VERSION: 33,
                ELIGIBLE_LEADER_REPLICAS: 1,
                GROUP_VERSION: 1,
                SHARE_VERSION: 2,
                STREAMS_VERSION: 1,
                TRANSACTION_VERSION: 2,
            },
        ),
        ([level(33)], {METADATA_VERSION: 33}),
        (
            [level(33), level(2, TRANSACTION_VERSION), level(1, ELIGIBLE_LEADER_REPLICAS)],
            {METADATA_VERSION: 33, TRANSACTION_VERSION: 2, ELIGIBLE_LEADER_REPLICAS: 1},
        ),
        ([level(23), level(1, ELIGIBLE_LEADER_REPLICAS)], {METADATA_VERSION: 23, ELIGIBLE_LEADER_REPLICAS: 1}),
        ([level(22), level(1, ELIGIBLE_LEADER_REPLICAS)], {METADATA_VERSION: 22}),
        ([level(21)], {METADATA_VERSION: 21}),
        ([level(1)], {METADATA_VERSION: 7}),
        ([level(1), level(1, TRANSACTION_VERSION)], {METADATA_VERSION: 7, TRANSACTION_VERSION: 1}),
        ([level(33), *(level(0, name) for name in OPTIONAL)], {METADATA_VERSION: 33}),
        ([level(99), *(level(9, name) for name in OPTIONAL)], {METADATA_VERSION: 33, **OPTIONAL}),
    ],
)
def test_what_a_cluster_begins_with(formatted: list[MetadataRecord], expected: dict[str, int]) -> None:
    controller = active_controller(static={KEY: "2"})
    user = UserScramCredentialRecord(name="ann")
    records = first_records(controller.state, [*formatted, user])
    assert records[0] == FeatureLevelRecord(name=METADATA_VERSION, feature_level=expected[METADATA_VERSION])
    levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
    assert levels == expected
    assert records[-1] == user
    configs = [record for record in records if isinstance(record, ConfigRecord)]
    explicit = ConfigRecord(resource_type=BROKER, resource_name="", name=KEY, value="2")
    assert configs == [explicit] * (ELIGIBLE_LEADER_REPLICAS in expected)
