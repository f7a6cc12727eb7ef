import logging
from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import broker_on

from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.topic import TOPIC_CONFIGS
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import ConfigRecord, RegisterBrokerRecord, TopicRecord
from penstock.metadata.resources import ResourceType
from penstock.node.api.broker.describe_configs import describe_configs
from penstock.node.api.broker.list_config_resources import list_config_resources
from penstock.node.controlling.commands import NoController
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import NAMES_A_STEP
from penstock.node.serving.session import Session
from penstock.node.serving.slices import BEGINS, at_once
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest

OVERRIDES = {
    (ResourceType.TOPIC, "orders", "retention.ms"): "5",
    (ResourceType.BROKER, "", "message.max.bytes"): "7000",
    (ResourceType.GROUP, "readers", "consumer.session.timeout.ms"): "50000",
    (ResourceType.CLIENT_METRICS, "slow", "interval.ms"): "1000",
}


@pytest.fixture
def broker() -> Broker:
    image = ClusterImage("some-cluster")
    image.apply(RegisterBrokerRecord(broker_id=1))
    image.apply(TopicRecord(name="orders", topic_id=UUID(int=1)))
    for (kind, name, key), value in OVERRIDES.items():
        image.apply(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
    config = BrokerConfig.embedded({"log.retention.minutes": "2"})
    config.apply_dynamic(broker={}, default=image.config_of(ResourceType.BROKER, ""))
    return broker_on(broker_context(node_context(config, image), NoController()))


def context(version: int) -> RequestContext:
    return RequestContext(0, version, 1, "tests", Session("127.0.0.1", 1234, "PLAINTEXT", 1))


def describe(
    broker: Broker,
    kind: int,
    name: str,
    keys: Sequence[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsResult:
    wanted = None if keys is None else list(keys)
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=wanted)],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    response = at_once(describe_configs(broker, context(4), request))
    for version in range(1, 5):  # every version can carry the answer
        decode(DescribeConfigsResponse, version, encode(response, version))
    (result,) = response.results
    return result


def test_a_topic_lists_every_key_with_its_source(broker: Broker) -> None:
    result = describe(broker, ResourceType.TOPIC, "orders")
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert [entry.name for entry in result.configs] == list(TOPIC_CONFIGS)
    entries = {entry.name: entry for entry in result.configs}
    assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == ("5", 1)
    assert (entries["max.message.bytes"].value, entries["max.message.bytes"].config_source) == ("7000", 3)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].config_source) == ("1073741824", 5)
    assert entries["segment.bytes"].config_type == 3
    assert all(entry.synonyms == [] and entry.documentation is None for entry in result.configs)


def test_keys_can_be_asked_for_with_synonyms_and_documentation(broker: Broker) -> None:
    result = describe(broker, ResourceType.TOPIC, "orders", ["retention.ms", "x"], synonyms=True, documentation=True)
    (entry,) = result.configs
    assert [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.minutes", "2", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert entry.documentation == TOPIC_CONFIGS["retention.ms"].documentation


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (([], ["retention.ms"]), len(TOPIC_CONFIGS)),
        ((["retention.ms"], None), len(TOPIC_CONFIGS)),
        ((["retention.ms"], ["segment.bytes", "retention.ms"]), 2),
        ((["retention.ms"], [f"no-{number}" for number in range(2_000)]), 1),
    ],
)
def test_a_resource_that_is_named_twice_is_described_once(
    broker: Broker, keys: tuple[list[str] | None, ...], told: int
) -> None:
    asked = [
        DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name="orders", configuration_keys=some)
        for some in keys
    ]
    (result,) = at_once(describe_configs(broker, context(4), DescribeConfigsRequest(resources=asked))).results
    assert len(result.configs) == told


def test_an_empty_list_of_keys_asks_for_all(broker: Broker) -> None:
    assert len(describe(broker, ResourceType.TOPIC, "orders", []).configs) == len(TOPIC_CONFIGS)


def test_a_broker_describes_itself_and_the_default_of_all(broker: Broker) -> None:
    own = describe(broker, ResourceType.BROKER, "1")
    assert [entry.name for entry in own.configs] == list(BROKER_CONFIGS)
    entries = {entry.name: entry for entry in own.configs}
    assert (entries["message.max.bytes"].value, entries["message.max.bytes"].read_only) == ("7000", False)
    assert entries["node.id"].read_only
    (entry,) = describe(broker, ResourceType.BROKER, "").configs
    assert (entry.name, entry.value, entry.config_source) == ("message.max.bytes", "7000", 3)


def test_groups_and_client_metrics_are_described(broker: Broker) -> None:
    group = {entry.name: entry for entry in describe(broker, ResourceType.GROUP, "readers").configs}
    assert (group["consumer.session.timeout.ms"].value, group["consumer.session.timeout.ms"].config_source) == (
        "50000",
        8,
    )
    metrics = {entry.name: entry for entry in describe(broker, ResourceType.CLIENT_METRICS, "slow").configs}
    told = {name: (entry.value, entry.config_source) for name, entry in metrics.items()}
    assert told == {"interval.ms": ("1000", 7), "match": ("", 5), "metrics": ("", 5)}


def test_the_loggers_of_this_broker_have_levels(broker: Broker) -> None:
    logging.getLogger("penstock.tests.noisy").setLevel(logging.DEBUG)
    entries = {entry.name: entry for entry in describe(broker, ResourceType.BROKER_LOGGER, "1").configs}
    assert (entries["penstock.tests.noisy"].value, entries["penstock.tests.noisy"].config_source) == ("DEBUG", 6)
    assert {"root", "penstock", "kafka.request.logger"} <= entries.keys()
    assert {name for name in entries if not name.startswith("penstock")} == {
        "root",
        "kafka.authorizer.logger",
        "kafka.request.logger",
    }


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "no/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_an_error_with_a_message(broker: Broker, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(broker, kind, name)
    assert result.error_code == code
    assert result.error_message
    assert result.configs == []


def test_version_0_lists_client_metrics_only(broker: Broker) -> None:
    response = at_once(list_config_resources(broker, context(0), ListConfigResourcesRequest()))
    assert [resource.resource_name for resource in response.config_resources] == ["slow"]


def test_all_types_are_listed_when_none_is_named(broker: Broker) -> None:
    response = at_once(list_config_resources(broker, context(1), ListConfigResourcesRequest()))
    assert [(resource.resource_type, resource.resource_name) for resource in response.config_resources] == [
        (2, "orders"),
        (4, "1"),
        (8, "1"),
        (16, "slow"),
        (32, "readers"),
    ]


def test_a_type_that_does_not_exist_is_refused(broker: Broker) -> None:
    response = at_once(list_config_resources(broker, context(1), ListConfigResourcesRequest(resource_types=[2, 3])))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_very_many_resources_are_listed_in_steps(broker: Broker) -> None:
    for number in range(3 * NAMES_A_STEP):
        name = f"t-{number}"
        broker.image.apply(TopicRecord(name=name, topic_id=UUID(int=100 + number)))
        record = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name="retention.ms", value="5")
        broker.image.apply(record)
    for kind, first in ((ResourceType.TOPIC, BEGINS), (ResourceType.GROUP, None)):
        steps = list_config_resources(broker, context(1), ListConfigResourcesRequest(resource_types=[kind]))
        assert [next(steps) for _ in range(3)] == [first, None, None]
