"""Rights, in the words of Kafka's authorisation: who may do what, on what.

An `Authorizer` says it; `RequestContext` is the only place that asks one. Without `authorizer.class.name` it is
one that allows everything; the other one is in `standard_authorizer`.

| question | asked for                                                          | if the client has not the right |
| -------- | ------------------------------------------------------------------ | ------------------------------- |
| `allows` | what the client wants                                              | refused, and in the audit log   |
| `has`    | another right that will do as well, or what the client is told of  | something else is asked         |
| `shows`  | what would be in an answer about everything                        | left out                        |
"""

import logging
from collections.abc import Generator, Iterable
from typing import Final, Protocol

from penstock.node.serving.session import Session
from penstock.protocol.acls import OPERATIONS_ON, Operation, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

_O, _R = Operation, Resource

audit_log: Final = logging.getLogger("kafka.authorizer.logger")
"""Has Kafka's name. At INFO it says what was refused, and who changed configs, users and rules; at DEBUG also what was
allowed.
"""
audit_log.setLevel(logging.INFO)
NOT_ASKED: Final = -(2**31)
"""Stands in the place of operations that a client did not ask for."""


def bits(operations: Iterable[Operation]) -> int:
    """Operations as answers tell them (KIP-430): a bit for each."""
    return sum(1 << operation for operation in operations)


ALL_ON: Final = {resource: bits(operations) for resource, operations in OPERATIONS_ON.items()}
"""The answer for a client that may do everything."""

_REFUSED: Final = {
    _R.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    _R.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    _R.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    _R.TRANSACTIONAL_ID: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."),
    _R.DELEGATION_TOKEN: (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "Delegation Token authorization failed."),
    _R.USER: (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "Delegation Token authorization failed."),
}
"""The errors for a right that is missing. Rights on users are about their tokens."""


class Right(Value):
    operation: Operation
    resource: Resource

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource.name}"

    def refused(self) -> KafkaError:
        return KafkaError(*_REFUSED[self.resource])


RIGHTS_ON: Final = {
    resource: tuple(Right(operation, resource) for operation in some) for resource, some in OPERATIONS_ON.items()
}

READ_TOPIC: Final = Right(_O.READ, _R.TOPIC)
WRITE_TOPIC: Final = Right(_O.WRITE, _R.TOPIC)
CREATE_TOPIC: Final = Right(_O.CREATE, _R.TOPIC)
DELETE_TOPIC: Final = Right(_O.DELETE, _R.TOPIC)
ALTER_TOPIC: Final = Right(_O.ALTER, _R.TOPIC)
DESCRIBE_TOPIC: Final = Right(_O.DESCRIBE, _R.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Right(_O.DESCRIBE_CONFIGS, _R.TOPIC)

READ_GROUP: Final = Right(_O.READ, _R.GROUP)
DELETE_GROUP: Final = Right(_O.DELETE, _R.GROUP)
DESCRIBE_GROUP: Final = Right(_O.DESCRIBE, _R.GROUP)

CREATE_IN_CLUSTER: Final = Right(_O.CREATE, _R.CLUSTER)
DELETE_IN_CLUSTER: Final = Right(_O.DELETE, _R.CLUSTER)
ALTER_CLUSTER: Final = Right(_O.ALTER, _R.CLUSTER)
DESCRIBE_CLUSTER: Final = Right(_O.DESCRIBE, _R.CLUSTER)
CLUSTER_ACTION: Final = Right(_O.CLUSTER_ACTION, _R.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = Right(_O.DESCRIBE_CONFIGS, _R.CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = Right(_O.ALTER_CONFIGS, _R.CLUSTER)
IDEMPOTENT_WRITE: Final = Right(_O.IDEMPOTENT_WRITE, _R.CLUSTER)

CREATE_TOKENS: Final = Right(_O.CREATE_TOKENS, _R.USER)
DESCRIBE_TOKENS: Final = Right(_O.DESCRIBE_TOKENS, _R.USER)
DESCRIBE_TOKEN: Final = Right(_O.DESCRIBE, _R.DELEGATION_TOKEN)

WRITE_TRANSACTION: Final = Right(_O.WRITE, _R.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTION: Final = Right(_O.DESCRIBE, _R.TRANSACTIONAL_ID)
TWO_PHASE_COMMIT: Final = Right(_O.TWO_PHASE_COMMIT, _R.TRANSACTIONAL_ID)


class Authorizer(Protocol):
    def has(self, session: Session, right: Right, name: str) -> bool:
        """Whether the client has that right on the resource of that name."""

    def has_any(self, session: Session, right: Right) -> Generator[None, None, bool]:
        """As `has`, on any one resource of its kind: in steps, as many rules may have to be looked at."""
        yield from ()
        return False

    def allows(self, session: Session, right: Right, name: str, api_key: int) -> bool:
        """Whether a request of that API, which needs the right, is not refused."""
        return self.has(session, right, name)

    def shows(self, session: Session, right: Right, name: str) -> bool:
        """Whether what the right is about is not left out of an answer."""
        return self.has(session, right, name)


class AllowAll(Authorizer):
    """The authorizer of a cluster without rules: every client may do everything."""

    def has(self, session: Session, right: Right, name: str) -> bool:
        return True

    def has_any(self, session: Session, right: Right) -> Generator[None, None, bool]:
        yield from ()
        return True


ALLOW_ALL: Final = AllowAll()
"""Where it decides, requests are not even looked through."""
