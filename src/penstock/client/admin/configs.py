"""Configurations of topics, brokers and groups from outside: read them with their sources, change single keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum

from penstock.client.cluster import ClusterClient
from penstock.client.connection import Answer
from penstock.client.errors import raise_for
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message
from penstock.protocol.value import Value


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


DYNAMIC_SOURCES = frozenset(
    {
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        ConfigSource.CLIENT_METRICS_CONFIG,
        ConfigSource.GROUP_CONFIG,
    }
)


class ConfigSynonym(Value):
    """A value that would hold if the ones before it were not there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(Value):
    """One key of a resource. A sensitive value is never shown: None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: list[ConfigSynonym]
    documentation: str | None = None


class ConfigChange(Value):
    """One key to change; the value is None for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None = None


class ConfigAdmin:
    """A node's own configuration is asked of that node, everything else of any. Of controllers the active one changes
    it.
    """

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(
        self, kind: ResourceType, name: str, *, keys: Collection[str] | None = None, documentation: bool = False
    ) -> list[ConfigEntry]:
        """All keys, or those asked for, sorted by name."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
                )
            ],
            include_synonyms=True,
            include_documentation=documentation,
        )

        async def attempt() -> list[ConfigEntry]:
            response = await self._ask(kind, name, request, DescribeConfigsResponse)
            result = response.results[0]
            raise_for(result.error_code, result.error_message, f"{kind.name} {name!r}")
            return sorted((_entry(row) for row in result.configs), key=lambda entry: entry.name)

        return await self._cluster.retrying(attempt)

    async def alter(
        self, kind: ResourceType, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Other keys stay as they are (KIP-339)."""
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[
                        AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                        for change in changes
                    ],
                )
            ],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            if self._cluster.of_controllers:
                response = await self._cluster.to_controller(request, IncrementalAlterConfigsResponse)
            else:
                response = await self._ask(kind, name, request, IncrementalAlterConfigsResponse)
            result = response.responses[0]
            raise_for(result.error_code, result.error_message, f"{kind.name} {name!r}")

        await self._cluster.retrying(attempt)

    async def resources(self, kind: ResourceType) -> list[str]:
        """Those that have a configuration; empty where the broker cannot say."""
        connection = await self._cluster.any_connection()
        if not connection.serves(ApiKey.LIST_CONFIG_RESOURCES):
            return []
        request = ListConfigResourcesRequest(resource_types=[kind])
        response = await self._cluster.to_any(request, ListConfigResourcesResponse)
        raise_for(response.error_code)
        return sorted(row.resource_name for row in response.config_resources)

    async def _ask(self, kind: ResourceType, name: str, request: Message, answer: type[Answer]) -> Answer:
        of_one_broker = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name.isdigit()
        if of_one_broker and int(name) in self._cluster.metadata.brokers:
            return await self._cluster.to_node(int(name), request, answer)
        return await self._cluster.to_any(request, answer)


def _entry(row: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=row.name,
        value=row.value,
        source=_source(row.config_source),
        read_only=row.read_only,
        sensitive=row.is_sensitive,
        synonyms=[ConfigSynonym(item.name, item.value, _source(item.source)) for item in row.synonyms],
        documentation=row.documentation,
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
