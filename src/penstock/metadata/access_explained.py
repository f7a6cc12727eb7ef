"""Why somebody may do something or not: what decides, and the rules that nearly would have.

A rule is compared with the question in four parts: who, from where, what, and on what. Whether one of them fits is
asked of `AccessRules` itself, by the same rule with the other parts made to fit.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final
from uuid import UUID

from penstock.metadata.access_rules import AccessRules
from penstock.metadata.acl_hosts import host_key
from penstock.protocol.acls import WILDCARD, AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.value import Value

NEAREST: Final = 5
NOWHERE: Final = ""
"""A host that only rules for all hosts are about."""


class Question(Value):
    principal: str
    operation: Operation
    resource: Resource
    name: str
    host: str = NOWHERE


class Miss(Value):
    """A rule that allows, and would if it were not for the parts that differ, in words."""

    rule: AclBinding
    differs: tuple[str, ...]


class Explanation(Value):
    """`reason`: the rule that decides, or Kafka's word for what does. A denial by default may have misses."""

    allowed: bool
    reason: AclBinding | str
    misses: tuple[Miss, ...] = ()


def explain(
    question: Question, rules: Collection[AclBinding], super_users: Collection[str] = (), *, allows_without_rules: bool
) -> Explanation:
    """Its cost grows with the number of rules."""
    decided = AccessRules(super_users, allows_without_rules=allows_without_rules)
    for number, rule in enumerate(rules):
        decided.add(UUID(int=number), rule)
    asked = question.principal, question.host, question.operation, question.resource, question.name
    reason = decided.reason(*asked)
    if isinstance(reason, AclBinding):
        reason = next((rule for rule in rules if _is_same(rule, reason)), reason)
    if decided.allows(*asked) or not isinstance(reason, str):
        return Explanation(decided.allows(*asked), reason)
    return Explanation(False, reason, tuple(_misses(question, rules)))


def _is_same(rule: AclBinding, other: AclBinding) -> bool:
    """But for how the host is written."""
    return rule._replace(host=other.host) == other and host_key(rule.host) == host_key(other.host)


def _misses(question: Question, rules: Collection[AclBinding]) -> Sequence[Miss]:
    found = [
        Miss(rule, differs)
        for rule in rules
        if rule.permission_type == Permission.ALLOW
        and rule.resource_type == question.resource
        and len(differs := tuple(_differs(rule, question))) < len(_PARTS)
    ]
    return sorted(found, key=lambda miss: (len(miss.differs), miss.rule))[:NEAREST]


def _differs(rule: AclBinding, question: Question) -> Sequence[str]:
    fitting = rule._replace(
        principal=question.principal,
        host=WILDCARD,
        operation=question.operation,
        resource_name=question.name,
        pattern_type=PatternType.LITERAL,
    )
    return [words(rule) for words, part in _PARTS if not _allows(fitting._replace(**part(rule)), question)]


def _allows(rule: AclBinding, question: Question) -> bool:
    only = AccessRules()
    only.add(UUID(int=0), rule)
    return only.allows(question.principal, question.host, question.operation, question.resource, question.name)


def _on(rule: AclBinding) -> str:
    if rule.pattern_type == PatternType.PREFIXED:
        return f"it is about names that begin with {rule.resource_name}"
    return f"it is about {rule.resource_name} alone"


_PARTS: Final[tuple[tuple[Callable[[AclBinding], str], Callable[[AclBinding], dict[str, Any]]], ...]] = (
    (lambda rule: f"it is for {rule.principal}", lambda rule: {"principal": rule.principal}),
    (_on, lambda rule: {"resource_name": rule.resource_name, "pattern_type": rule.pattern_type}),
    (
        lambda rule: f"it allows {next((it.name for it in Operation if it == rule.operation), rule.operation)}",
        lambda rule: {"operation": rule.operation},
    ),
    (lambda rule: f"it holds from {rule.host}", lambda rule: {"host": rule.host}),
)
"""The parts of a rule: how one that does not fit is told, and its fields."""
