"""What DescribeConfigs tells: every key of a topic, a node, a group or a client metrics subscription.

Each entry has its value, where that comes from, the values behind it and, if asked for, its documentation. A node
describes itself and its loggers only; with an empty name it describes what was set for all brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.effective import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_entries,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.metadata.topic_names import topic_name_error
from penstock.node.api.broker_loggers import logger_entries
from penstock.node.serving.parts import NAMES_A_STEP
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.protocol.value import Value

Settings = Mapping[str, str]


class Node(Protocol):
    """A broker or a controller."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> ClusterImage: ...


class Kind(Value):
    """A kind of resource: how to find what is set for a name (or KafkaError), and which entries that makes."""

    settings: Callable[[Node, str], Settings]
    entries: Callable[[Node, Settings], Iterable[ConfigEntry]]


Described = dict[tuple[Kind, tuple[tuple[str, str], ...], tuple[str, ...]], list[DescribeConfigsResourceResult]]
"""What a request has had described so far: resources with the same settings, as most topics have, share one list."""

Asked = dict[tuple[int, str], tuple[DescribeConfigsResource, dict[str, None]]]
MOST_KEYS: Final = 1_000
"""Of resources that may share a list."""
RESOURCES_A_STEP: Final = 20
"""Of which nothing new is described."""


def described(node: Node, request: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    """What is wrong with one resource does not touch the others. However often one is named, it is told of once."""
    answer, before, pace = DescribeConfigsResponse(), Described(), Pace(RESOURCES_A_STEP)
    for resource, wanted in (yield from _each_once(request.resources)).values():
        known = len(before)
        answer.results.append(_result(node, request, resource, wanted, before))
        if pace.is_due() or len(before) > known or len(wanted) > MOST_KEYS:
            yield None
    return answer


def _each_once(resources: Iterable[DescribeConfigsResource]) -> Steps[Asked]:
    """With the keys that are asked for; none: all of them."""
    found: Asked = {}
    pace = Pace(NAMES_A_STEP)
    for resource in resources:
        if pace.is_due():
            yield None
        named = resource.resource_type, resource.resource_name
        if named not in found:
            found[named] = resource, {}
        elif not found[named][1]:
            continue
        keys = found[named][1]
        if not resource.configuration_keys:
            keys.clear()
        for key in resource.configuration_keys or ():
            keys[key] = None
            if pace.is_due():
                yield None
    return found


def _result(
    node: Node,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    wanted: Mapping[str, None],
    described: Described,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        kind = _kind(resource)
        settings = kind.settings(node, resource.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    if len(wanted) > MOST_KEYS:
        result.configs = _entries(node, request, kind, settings, wanted)
        return result
    same = kind, tuple(settings.items()), tuple(wanted)
    if same not in described:
        described[same] = _entries(node, request, kind, settings, wanted)
    result.configs = described[same]
    return result


def _entries(
    node: Node, request: DescribeConfigsRequest, kind: Kind, settings: Settings, wanted: Mapping[str, None]
) -> list[DescribeConfigsResourceResult]:
    return [
        _described(entry, request)
        for entry in kind.entries(node, settings)
        if not wanted or entry.definition.name in wanted
    ]


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
        documentation=definition.meaning if request.include_documentation else None,
    )


def _topic_settings(node: Node, name: str) -> Settings:
    problem = topic_name_error(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in node.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
    check_allowed(name, Act.CONFIGURE)
    settings: Settings = node.image.config_of(ResourceType.TOPIC, name)
    return settings


def _own_settings(node: Node, name: str) -> Settings:
    """Nothing: what is set for this broker is in its configuration already."""
    if name != str(node.config.node_id):
        message = f"this node describes itself, {node.config.node_id}, and all with an empty name, but not '{name}'"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return {}


def _named_settings(kind: ResourceType) -> Callable[[Node, str], Settings]:
    def find(node: Node, name: str) -> Settings:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a {kind.name.lower().replace('_', ' ')} needs a name")
        settings: Settings = node.image.config_of(kind, name)
        return settings

    return find


_ALL_BROKERS = Kind(
    lambda node, name: node.image.config_of(ResourceType.BROKER, name),
    lambda node, settings: default_broker_entries(settings),
)

_KINDS: dict[int, Kind] = {
    ResourceType.TOPIC: Kind(_topic_settings, lambda node, settings: topic_entries(settings, node.config.shown)),
    ResourceType.BROKER: Kind(_own_settings, lambda node, settings: broker_entries(node.config.shown)),
    ResourceType.BROKER_LOGGER: Kind(_own_settings, lambda node, settings: logger_entries()),
    ResourceType.CLIENT_METRICS: Kind(
        _named_settings(ResourceType.CLIENT_METRICS), lambda node, settings: client_metrics_entries(settings)
    ),
    ResourceType.GROUP: Kind(
        _named_settings(ResourceType.GROUP),
        lambda node, settings: group_entries(settings, node.config.shown),
    ),
}


def _kind(resource: DescribeConfigsResource) -> Kind:
    if resource.resource_type == ResourceType.BROKER and not resource.resource_name:
        return _ALL_BROKERS
    kind = _KINDS.get(resource.resource_type)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.resource_type} is no type of resource with configs")
    return kind
