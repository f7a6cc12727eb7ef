"""Access rules from outside: which there are, new ones, and those that shall go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import raise_for
from penstock.protocol.acls import AclBinding, AclFilter
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

EVERY: Final = AclFilter()


class AclAdmin:
    """Refusals are KafkaErrors with the cluster's own words; SECURITY_DISABLED where it has no authorizer."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, wanted: AclFilter = EVERY) -> list[AclBinding]:
        """The rules that a filter matches, sorted."""
        request = DescribeAclsRequest(**_fields(wanted))

        async def attempt() -> DescribeAclsResponse:
            answer = await self._cluster.to_any(request, DescribeAclsResponse)
            raise_for(answer.error_code, answer.error_message)
            return answer

        return sorted(
            AclBinding(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission_type,
            )
            for resource in (await self._cluster.retrying(attempt)).resources
            for rule in resource.acls
        )

    async def create(self, rules: Sequence[AclBinding]) -> None:
        """Each is made or refused by itself: where one is refused, others may have been made."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=rule.resource_type,
                    resource_name=rule.resource_name,
                    resource_pattern_type=rule.pattern_type,
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission_type,
                )
                for rule in rules
            ]
        )

        async def attempt() -> None:
            for result in (await self._cluster.to_controller(request, CreateAclsResponse)).results:
                raise_for(result.error_code, result.error_message)

        await self._cluster.retrying(attempt)

    async def delete(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        """The rules that are gone now, sorted. Each filter is obeyed or refused by itself."""
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(wanted)) for wanted in filters])

        async def attempt() -> set[AclBinding]:
            results = (await self._cluster.to_controller(request, DeleteAclsResponse)).filter_results
            gone = [rule for result in results for rule in result.matching_acls]
            for result in results:
                raise_for(result.error_code, result.error_message)
            for rule in gone:
                raise_for(rule.error_code, rule.error_message)
            return {AclBinding(*(getattr(rule, name) for name in AclBinding._fields)) for rule in gone}

        return sorted(await self._cluster.retrying(attempt))


def _fields(wanted: AclFilter) -> dict[str, Any]:
    """As both requests name them."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }
