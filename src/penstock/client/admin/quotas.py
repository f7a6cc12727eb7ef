"""Quotas from outside: what users, client ids and addresses may take, and changes of that.

An entity is a mapping of types to names: `{"user": "ada", "client-id": None}` are all client ids of ada that have no
quota of their own.
"""

from collections.abc import Mapping
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import raise_for
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from penstock.protocol.value import Value

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)
EXACT, DEFAULT, ANY = 0, 1, 2

Entity = Mapping[str, str | None]
"""No name stands for the default."""


class EntityQuotas(Value):
    """`quotas` are values by key: bytes and connections per second, percents, mutations per second."""

    entity: dict[str, str | None]
    quotas: dict[str, float]


class AnyName(Value):
    """In a filter: every name of a type, and its default."""


class QuotaAdmin:
    """Refusals are KafkaErrors with the cluster's own words."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(
        self, wanted: Mapping[str, str | AnyName | None] | None = None, *, strict: bool = False
    ) -> list[EntityQuotas]:
        """Those of entities that have all types wanted, and no others if `strict`; by default all, sorted by entity."""
        components = [
            ComponentData(
                entity_type=kind,
                match_type=ANY if isinstance(name, AnyName) else DEFAULT if name is None else EXACT,
                match=None if isinstance(name, AnyName) else name,
            )
            for kind, name in (wanted or {}).items()
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict)

        async def attempt() -> DescribeClientQuotasResponse:
            answer = await self._cluster.to_any(request, DescribeClientQuotasResponse)
            raise_for(answer.error_code, answer.error_message)
            return answer

        found = [
            EntityQuotas(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
            )
            for entry in (await self._cluster.retrying(attempt)).entries or ()
        ]
        return sorted(found, key=lambda one: sorted((kind, name or "") for kind, name in one.entity.items()))

    async def alter(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False) -> None:
        """Set quotas, or remove those with None; others stay. Removing one that there is not changes nothing."""
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    entity=[
                        AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    ops=[
                        OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            for entry in (await self._cluster.to_controller(request, AlterClientQuotasResponse)).entries:
                raise_for(entry.error_code, entry.error_message)

        await self._cluster.retrying(attempt)
