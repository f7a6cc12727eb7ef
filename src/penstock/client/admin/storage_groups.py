"""Storage groups from outside: which there are, which topics are in them, and new ones."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from penstock.client.admin.configs import ResourceType
from penstock.client.cluster import ClusterClient
from penstock.client.errors import UnsupportedByBrokerError
from penstock.client.metadata import PartitionMetadata
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.requests.own_apis import CreateStorageGroupRequest, CreateStorageGroupResponse
from penstock.protocol.value import Value

"""The topic whose partitions are the groups."""
REPLICATION_MODE: Final = "replication.mode"
STORAGE_GROUP: Final = "storage.group"
DEFAULT: Final = -1
AT_ONCE: Final = 1_000
"""Topics that one request asks about."""


class StorageGroup(Value):
    """One group: its partition has its voters as replicas, its leader, and the replicas that have caught up."""

    partition: PartitionMetadata
    topics: dict[str, int]
    """How many partitions each of its topics has."""

    @property
    def number(self) -> int:
        return self.partition.partition


class StorageGroupAdmin:
    """Refusals are KafkaErrors with the controller's own words."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self) -> list[StorageGroup]:
        """Sorted by number."""
        topics = (await self._cluster.retrying(self._cluster.refresh)).topics
        known = topics.get(STORAGE_GROUPS)
        if known is None:
            return []
        members = await self.members(name for name, topic in topics.items() if not topic.is_internal)
        groups = [StorageGroup(partition, {}) for _, partition in sorted(known.partitions.items())]
        for name, number in sorted(members.items()):
            groups[number].topics[name] = len(topics[name].partitions)
        return groups

    async def members(self, topics: Iterable[str]) -> dict[str, int]:
        """Groups by topic, without topics that are in none. Costs nothing where there are no groups."""
        if STORAGE_GROUPS not in self._cluster.metadata.topics:
            return {}
        names = list(topics)
        found: dict[str, int] = {}
        for start in range(0, len(names), AT_ONCE):
            found |= await self._cluster.retrying(partial(self._members, names[start : start + AT_ONCE]))
        return found

    async def _members(self, topics: Sequence[str]) -> dict[str, int]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=[STORAGE_GROUP]
                )
                for name in topics
            ]
        )
        response = await self._cluster.to_any(request, DescribeConfigsResponse)
        return {
            result.resource_name: int(config.value)
            for result in response.results
            for config in result.configs
            if config.value is not None
        }

    async def create(self, *, replication_factor: int = DEFAULT, replicas: Sequence[int] = ()) -> tuple[int, list[int]]:
        """With so many replicas, or with these; returns its number and its replicas."""
        request = CreateStorageGroupRequest(
            replication_factor=replication_factor,
            replicas=list(replicas),
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )

        try:
            told = await self._cluster.from_controller(request, CreateStorageGroupResponse)
        except UnsupportedByBrokerError:
            raise UnsupportedByBrokerError("this cluster has no storage groups: only Penstock's have") from None
        return told.group, told.replicas
