"""`penstock acls`: access rules, with the options of kafka-acls.sh."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import product
from typing import Final, TypeVar

import click

from penstock.cli.terminal.lines import confirm, say
from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.protocol.acls import (
    CLUSTER_NAME,
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


@click.command(short_help="show, make and remove access rules (ACLs)")
@declared
def command(
    session: NodeSession,
    about: About,
    who: Who,
    roles: Roles,
    action: str = actions(add="Make rules.", remove="Remove rules.", list_="Show rules."),
    principal: tuple[str, ...] = option("Only rules of this user, for --list."),
    force: bool = option("Remove without asking."),
    as_json: bool = JSON,
) -> None:
    """Show, make and remove access rules: who may do what, on what, from where.

    They hold where nodes have an authorizer (authorizer.class.name). What no rule allows is denied then.
    """
    _check(action, about, who, roles, principal)
    if action == "list":
        _list(session, about, principal, as_json=as_json)
        return
    resources = _resources(about, who, roles)
    entries = list(who.entries())
    if action == "add":
        if about.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise click.UsageError("--resource-pattern-type: rules are made with literal or prefixed")
        if not entries:
            raise click.UsageError("give --allow-principal or --deny-principal: a rule is about somebody")
        made = list(_rules(resources, entries, about.pattern))
        session.run(lambda admin: admin.acls.create(made))
        _show(made, "made", as_json=as_json)
        return
    filters = _filters(resources, entries, about.pattern)
    if not force and as_json:
        raise click.UsageError("--json does not ask: give --force as well")
    if not force:
        found = session.run(lambda admin: _matching(admin, filters))
        if not found:
            print_lines(["no such rule"], {"removed": []}, as_json=as_json)
            return
        print_rows(COLUMNS, [_row(rule) for rule in found], as_json=False)
        confirm("Remove these rules?")
    _show(session.run(lambda admin: admin.acls.delete(filters)), "removed", as_json=as_json)


def _check(action: str, about: About, who: Who, roles: Roles, principal: Sequence[str]) -> None:
    problems = {
        "--principal is for --list; rules are made for --allow-principal": principal and action != "list",
        "--list takes no principals, hosts, operations or roles but --principal": action == "list"
        and (who.is_said or roles.is_given),
        "--producer and --consumer say the operations, and deny nothing": roles.is_given
        and (who.operation or who.deny_principal or who.deny_host),
        "--producer needs a --topic": roles.producer and not about.topic,
        "--idempotent is for --producer": roles.idempotent and not roles.producer,
        "--consumer needs a --topic and a --group": roles.consumer and not (about.topic and about.group),
        "--consumer is not about --cluster or --transactional-id": roles.consumer
        and not roles.producer
        and (about.cluster or about.transactional_id),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise click.UsageError(problem)


def _resources(about: About, who: Who, roles: Roles) -> Resources:
    if roles.is_given:
        return roles.resources(about)
    operations = tuple(OPERATIONS[name] for name in who.operation) or (Operation.ALL,)
    found = dict.fromkeys(about.named(cluster=about.cluster), operations)
    if not found:
        raise click.UsageError("say what the rules are about: --topic, --group, --cluster, --transactional-id, …")
    return found


def _rules(
    resources: Resources, entries: Sequence[tuple[str, str, Permission]], pattern: PatternType
) -> Iterator[AclBinding]:
    for (resource, name), operations in resources.items():
        kind = PatternType.LITERAL if resource is Resource.CLUSTER else pattern
        for operation, (user, host, permission) in product(operations, entries):
            yield AclBinding(resource, name, kind, user, host, operation, permission)


def _filters(
    resources: Resources, entries: Sequence[tuple[str, str, Permission]], pattern: PatternType
) -> list[AclFilter]:
    """Without anybody named, all rules about the resources are meant."""
    if entries:
        return [AclFilter(*rule) for rule in _rules(resources, entries, pattern)]
    return [AclFilter(resource, name, pattern) for resource, name in resources]


async def _matching(admin: Admin, filters: Sequence[AclFilter]) -> list[AclBinding]:
    return sorted({rule for wanted in filters for rule in await admin.acls.describe(wanted)})


def _list(session: NodeSession, about: About, principals: Sequence[str], *, as_json: bool) -> None:
    filters = [AclFilter(*named, about.pattern) for named in about.named(cluster=about.cluster)]
    found = session.run(lambda admin: _matching(admin, filters or [AclFilter()]))
    shown = [rule for rule in found if not principals or rule.principal in principals]
    print_rows(COLUMNS, [_row(rule) for rule in shown], as_json=as_json, empty="no access rules")


def _show(rules: Sequence[AclBinding], done: str, *, as_json: bool) -> None:
    if not as_json:
        say(f"{done}: {len(rules)}")
    print_rows(COLUMNS, [_row(rule) for rule in rules], as_json=as_json, empty="no such rule")


def _row(rule: AclBinding) -> tuple[str, ...]:
    return (
        _word(Resource, rule.resource_type),
        rule.resource_name,
        _word(PatternType, rule.pattern_type),
        rule.principal,
        rule.host,
        _word(Operation, rule.operation),
        _word(Permission, rule.permission_type),
    )


def _word(kind: type[Word], code: int) -> str:
    """A later release may have more of them."""
    return next((it.name for it in kind if it == code), str(code))
