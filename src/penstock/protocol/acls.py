"""The words of access rules (ACLs), with Kafka's codes, the rules that they make, and filters that find rules.

`ANY` stands in filters alone, `UNKNOWN` for a code of a later release; neither makes a rule.
"""

from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple


class Operation(IntEnum):
    """What may be granted or refused; `ALL` in a rule stands for each of them."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """On what; there is one cluster, the others have names."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule names what it is about. `MATCH`, in filters alone: whatever pattern matches the name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_ON: Final[dict[Resource, tuple[Operation, ...]]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that rules are made of, by the resource they are about."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster in rules."""
WILDCARD: Final = "*"
"""Every host, or with a literal pattern every name."""
EVERY_USER: Final = "User:*"


class AclBinding(NamedTuple):
    """A rule: what it is about, and who may or may not do what there. Equal ones are the same rule."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


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

    @property
    def is_exact(self) -> bool:
        """It leaves nothing open, so it matches no rule but the one that says the same."""
        return (
            None not in (self.resource_name, self.principal, self.host)
            and self.resource_type != Resource.ANY
            and self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            and self.operation != Operation.ANY
            and self.permission_type != Permission.ANY
        )

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
