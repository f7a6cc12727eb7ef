"""Filters that find access rules."""

from functools import lru_cache
from typing import Any, NamedTuple

from penstock.metadata.security import AclBinding
from penstock.protocol.acls import WILDCARD, Operation, PatternType, Permission, Resource


class AclFilter(NamedTuple):
    """Which rules are meant: ANY, or None, is each. A name with the pattern type MATCH finds what is about it."""

    resource_type: int = Resource.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission_type: int = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether it has a code that Kafka has no word for."""
        codes = (self.resource_type, Resource), (self.pattern_type, PatternType)
        more = (self.operation, Operation), (self.permission_type, Permission)
        return any(code not in members(kind) or not code for code, kind in (*codes, *more))

    def matches(self, rule: AclBinding) -> bool:
        return (
            self.resource_type in (Resource.ANY, rule.resource_type)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission_type in (Permission.ANY, rule.permission_type)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.resource_name == rule.resource_name
        if rule.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(rule.resource_name)
        return rule.resource_name in (self.resource_name, WILDCARD)


def filter_of(request: Any) -> AclFilter:
    """A DescribeAcls request, or one of the filters of a DeleteAcls request."""
    return AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )


@lru_cache
def members(kind: Any) -> frozenset[int]:
    return frozenset(map(int, kind))
