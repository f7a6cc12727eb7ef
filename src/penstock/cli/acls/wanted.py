"""What `penstock acls` is asked about, in the options of kafka-acls.sh, and the rules and filters made of that."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import product
from typing import Final, TypeVar

import click

from penstock.cli.terminal.options import option
from penstock.client.admin import Admin
from penstock.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
)
from penstock.protocol.value import Value

Word = TypeVar("Word", bound=IntEnum)
Resources = dict[tuple[Resource, str], tuple[Operation, ...]]
"""By a resource, the operations that rules about it name."""
TYPES: Final = {name.name.lower(): name for name in PatternType if name is not PatternType.UNKNOWN}
OPERATIONS: Final = {
    "".join(part.capitalize() for part in it.name.split("_")): it for it in Operation if it > Operation.ANY
}
ROLES_OPERATIONS: Final = {
    "producer": {
        Resource.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
        Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    },
    "consumer": {Resource.TOPIC: (Operation.READ, Operation.DESCRIBE), Resource.GROUP: (Operation.READ,)},
}
COLUMNS: Final = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"]


class About(Value):
    """What rules are about."""

    topic: tuple[str, ...] = option("Rules about this topic; * for all. May be given several times.")
    cluster: bool = option("Rules about the cluster.")
    group: tuple[str, ...] = option("Rules about this group; * for all.")
    transactional_id: tuple[str, ...] = option("Rules about this transactional id; * for all.")
    delegation_token: tuple[str, ...] = option("Rules about this delegation token; * for all.")
    user_principal: tuple[str, ...] = option("Rules about the tokens of this user.")
    resource_pattern_type: str = option(
        "How the names are meant. To list and remove, any takes all patterns of that name, match all that match it.",
        type=click.Choice(list(TYPES), case_sensitive=False),
        default="literal",
        show_default=True,
    )

    @property
    def pattern(self) -> PatternType:
        return TYPES[self.resource_pattern_type.lower()]

    def named(self, *, cluster: bool) -> Iterator[tuple[Resource, str]]:
        names = {
            Resource.TOPIC: self.topic,
            Resource.GROUP: self.group,
            Resource.TRANSACTIONAL_ID: self.transactional_id,
            Resource.DELEGATION_TOKEN: self.delegation_token,
            Resource.USER: self.user_principal,
        }
        for resource, given in names.items():
            yield from ((resource, name.strip()) for name in given)
        if cluster and self.pattern is PatternType.LITERAL:
            yield Resource.CLUSTER, CLUSTER_NAME


class Who(Value):
    """Whom rules allow or deny what."""

    allow_principal: tuple[str, ...] = option("Allow it to this user, as User:ada; User:* for all.")
    deny_principal: tuple[str, ...] = option("Deny it to this user; what is denied goes before what is allowed.")
    allow_host: tuple[str, ...] = option("Allow it from this host: an address, a network as 10.0.0.0/8; default all.")
    deny_host: tuple[str, ...] = option("Deny it from this host; default all.")
    operation: tuple[str, ...] = option(
        "Allow or deny this, for one; default All.", type=click.Choice(list(OPERATIONS), case_sensitive=False)
    )

    @property
    def is_said(self) -> bool:
        return any(getattr(self, name) for name in self.__fields__)

    def entries(self) -> Iterator[tuple[str, str, Permission]]:
        for users, hosts, permission in (
            (self.allow_principal, self.allow_host, Permission.ALLOW),
            (self.deny_principal, self.deny_host, Permission.DENY),
        ):
            if hosts and not users:
                raise click.UsageError(f"a host to {permission.name.lower()} needs a principal")
            for user, host in product(users, hosts or (WILDCARD,)):
                if ":" not in user:
                    raise click.UsageError(f"{user!r} is no principal: give its type too, as in User:{user}")
                yield user.strip(), host.strip(), permission


class Roles(Value):
    producer: bool = option("The rules that a producer needs: write, describe and create --topic.")
    consumer: bool = option("The rules that a consumer needs: read and describe --topic, read --group.")
    idempotent: bool = option("With --producer: it may produce with idempotence.")

    @property
    def is_given(self) -> bool:
        return self.producer or self.consumer

    def resources(self, about: About) -> Resources:
        found: Resources = {}
        for role in ("producer", "consumer"):
            if getattr(self, role):
                for resource, name in about.named(cluster=False):
                    there = found.get((resource, name), ())
                    found[resource, name] = (*there, *ROLES_OPERATIONS[role].get(resource, ()))
        if self.idempotent:
            found[Resource.CLUSTER, CLUSTER_NAME] = (Operation.IDEMPOTENT_WRITE,)
        return {named: tuple(dict.fromkeys(operations)) for named, operations in found.items() if operations}


def resources_of(about: About, who: Who, roles: Roles) -> Resources:
    if roles.is_given:
        return roles.resources(about)
    operations = tuple(map(operation_of, who.operation)) or (Operation.ALL,)
    found = dict.fromkeys(about.named(cluster=about.cluster), operations)
    if not found:
        raise click.UsageError("say what the rules are about: --topic, --group, --cluster, --transactional-id, …")
    for resource, _ in found:
        for operation in operations:
            check_goes(operation, resource)
    return found


def check_goes(operation: Operation, resource: Resource) -> None:
    """Raises click.UsageError for an operation that is never asked for on such a resource."""
    if operation is not Operation.ALL and operation not in OPERATIONS_ON[resource]:
        known = ", ".join(name for name, it in OPERATIONS.items() if it in (*OPERATIONS_ON[resource], Operation.ALL))
        raise click.UsageError(
            f"{word(Operation, operation)} is nothing that is done with a {resource.name}: {known} are"
        )


def rules_of(
    resources: Resources, entries: Sequence[tuple[str, str, Permission]], pattern: PatternType
) -> Iterator[AclBinding]:
    for (resource, name), operations in resources.items():
        kind = PatternType.LITERAL if resource is Resource.CLUSTER else pattern
        for operation, (user, host, permission) in product(operations, entries):
            yield AclBinding(resource, name, kind, user, host, operation, permission)


def filters_of(
    resources: Resources, entries: Sequence[tuple[str, str, Permission]], pattern: PatternType
) -> list[AclFilter]:
    """Without anybody named, all rules about the resources are meant."""
    if entries:
        return [AclFilter(*rule) for rule in rules_of(resources, entries, pattern)]
    return [AclFilter(resource, name, pattern) for resource, name in resources]


def operation_of(text: str) -> Operation:
    return next(it for name, it in OPERATIONS.items() if name.lower() == text.lower())


async def matching(admin: Admin, filters: Sequence[AclFilter]) -> list[AclBinding]:
    """Sorted, each once."""
    return sorted({rule for wanted in filters for rule in await admin.acls.describe(wanted)})


def row(rule: AclBinding) -> tuple[str, ...]:
    return (
        word(Resource, rule.resource_type),
        rule.resource_name,
        word(PatternType, rule.pattern_type),
        rule.principal,
        rule.host,
        word(Operation, rule.operation),
        word(Permission, rule.permission_type),
    )


def word(kind: type[Word], code: int) -> str:
    """A later release may have more of them."""
    return next((it.name for it in kind if it == code), str(code))
