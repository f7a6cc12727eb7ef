"""DescribeConfigs, versions 1 to 4: every key of a topic, a broker, a group or a client metrics subscription.

Each entry has its value, where that comes from, the values behind it and, if asked for, its documentation. A broker
describes itself only; with an empty name it describes what was set for all brokers. Levels of loggers (type 8) are not
served: the answer for this broker's loggers is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.metadata.configs.effective import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_entries,
)
from penstock.metadata.resources import ResourceType
from penstock.metadata.topic_names import topic_name_error
from penstock.node.broker import Broker
from penstock.node.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


@handles(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4))
def describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource by itself; what is wrong with one does not touch the others."""
    return DescribeConfigsResponse(results=[_result(broker, request, resource) for resource in request.resources])


def _result(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    describe = _DESCRIBE.get(resource.resource_type)
    try:
        if describe is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.resource_type} is no type of resource with configs")
        entries = describe(broker, resource.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    wanted = resource.configuration_keys
    result.configs = [_described(entry, request) for entry in entries if not wanted or entry.definition.name in wanted]
    return result


def _described(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    definition = entry.definition
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=definition.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=definition.sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=definition.type,
        documentation=definition.documentation if request.include_documentation else None,
    )


def _topic(broker: Broker, name: str) -> Iterable[ConfigEntry]:
    problem = topic_name_error(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in broker.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
    return topic_entries(broker.image.config_of(ResourceType.TOPIC, name), broker.config.layers)


def _broker(broker: Broker, name: str) -> Iterable[ConfigEntry]:
    if not name:
        return default_broker_entries(broker.image.config_of(ResourceType.BROKER, ""))
    _check_own_id(broker, name)
    return broker_entries(broker.config.layers)


def _loggers(broker: Broker, name: str) -> Iterable[ConfigEntry]:
    _check_own_id(broker, name)
    return ()


def _check_own_id(broker: Broker, name: str) -> None:
    if name != str(broker.node_id):
        message = f"this broker describes itself, {broker.node_id}, and all with an empty name, but not '{name}'"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _group(broker: Broker, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a group has a name")
    return group_entries(broker.image.config_of(ResourceType.GROUP, name), broker.config.layers)


def _client_metrics(broker: Broker, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a client metrics subscription has a name")
    return client_metrics_entries(broker.image.config_of(ResourceType.CLIENT_METRICS, name))


_DESCRIBE: dict[int, Callable[[Broker, str], Iterable[ConfigEntry]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.BROKER_LOGGER: _loggers,
    ResourceType.CLIENT_METRICS: _client_metrics,
    ResourceType.GROUP: _group,
}
