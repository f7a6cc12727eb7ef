"""Records may wait from when on all nodes know how."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.cluster import carry_out, registration
from tests.unit.controller.storage_groups import cluster, created, topic

from penstock.controller.controller import Controller
from penstock.metadata.brokers import Feature
from penstock.metadata.features import DELAY_VERSION
from penstock.metadata.image import ResourceType
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    NodeFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import incremental_alter_configs
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

DONE = (ErrorCode.NONE, None)
MODES = ("isr", "consensus")
WAITS: Any = {"penstock_delay_enable": "true"}
KAFKAS = NodeFeature(name="metadata.version", min_supported_version=7, max_supported_version=33)
OLDER: list[MetadataRecord] = [
    RegisterBrokerRecord(broker_id=9, incarnation_id=UUID(int=9), features=[KAFKAS]),
    RegisterControllerRecord(controller_id=9, features=[KAFKAS]),
]


def turn_on(controller: Controller, name: str, key: str = "penstock.delay.enable", value: str = "true") -> Any:
    config = incremental_alter_configs.AlterableConfig(name=key, value=value)
    asked = incremental_alter_configs.AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=name, configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[asked])
    answer = carry_out(controller, request).responses[0]
    return ErrorCode(answer.error_code), answer.error_message


def lower(controller: Controller) -> Any:
    update = FeatureUpdateKey(feature=DELAY_VERSION, max_version_level=0, upgrade_type=2)
    reply = carry_out(controller, UpdateFeaturesRequest(feature_updates=[update]))
    return ErrorCode(reply.error_code), reply.error_message


def level(controller: Controller) -> int:
    return controller.image.features.get(DELAY_VERSION, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("older", OLDER)
def test_while_a_node_is_older_no_record_waits(older: MetadataRecord, mode: str) -> None:
    controller = cluster()
    controller.apply([older])
    code, message = created(controller, topic("reminders", mode=mode, **WAITS))[0]
    assert code == ErrorCode.UNSUPPORTED_VERSION
    assert message is not None
    assert "9 does not know how records wait. Start a newer release there" in message
    assert created(controller, topic("orders", mode=mode)) == [DONE]
    assert turn_on(controller, "orders") == (code, message)
    assert level(controller) == 0


@pytest.mark.parametrize("mode", MODES)
def test_with_the_first_such_topic_the_level_goes_up(mode: str) -> None:
    controller = cluster()
    assert created(controller, topic("orders", mode=mode)) == [DONE]
    assert level(controller) == 0
    assert turn_on(controller, "orders") == DONE
    assert level(controller) == 1
    other = cluster()
    assert created(other, topic("reminders", mode=mode, **WAITS)) == [DONE]
    assert level(other) == 1


def test_who_was_older_and_is_gone_is_not_asked() -> None:
    controller = cluster()
    controller.apply([OLDER[0], UnregisterBrokerRecord(broker_id=9, broker_epoch=-1)])
    assert created(controller, topic("reminders", **WAITS)) == [DONE]


def test_from_then_on_no_older_node_registers_and_the_level_stays() -> None:
    controller = cluster()
    created(controller, topic("reminders", **WAITS))
    request = registration(4, 4)
    request.features = [feature for feature in request.features if feature.name != DELAY_VERSION]
    assert carry_out(controller, request).error_code == ErrorCode.UNSUPPORTED_VERSION
    code, message = lower(controller)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert "in the topic reminders" in message
    assert level(controller) == 1


def test_where_nothing_waits_the_level_may_go_down() -> None:
    controller = cluster()
    update = FeatureUpdateKey(feature=DELAY_VERSION, max_version_level=1, upgrade_type=1)
    assert carry_out(controller, UpdateFeaturesRequest(feature_updates=[update])).error_code == ErrorCode.NONE
    assert controller.image.brokers[1].features[DELAY_VERSION] == Feature(0, 1)
    assert lower(controller)[0] == ErrorCode.NONE
    assert level(controller) == 0


def test_a_topic_from_before_there_was_the_level_can_be_changed_and_raises_it_when_all_are_newer() -> None:
    controller = cluster()
    created(controller, topic("reminders", **WAITS))
    controller.apply([FeatureLevelRecord(name=DELAY_VERSION, feature_level=0), OLDER[0]])
    assert turn_on(controller, "reminders", "retention.ms", "1000") == DONE
    assert level(controller) == 0
    controller.apply([UnregisterBrokerRecord(broker_id=9, broker_epoch=-1)])
    assert turn_on(controller, "reminders", "retention.ms", "2000") == DONE
    assert level(controller) == 1
