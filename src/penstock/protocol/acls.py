"""The words of access rules (ACLs), with Kafka's codes: what may be done, on what, by which pattern, allowed or denied.

`ANY` stands in filters alone, `UNKNOWN` for a code of a later release; neither makes a rule.
"""

from enum import IntEnum
from typing import Final


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


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster in rules."""
WILDCARD: Final = "*"
"""Every host, or with a literal pattern every name."""
EVERY_USER: Final = "User:*"
