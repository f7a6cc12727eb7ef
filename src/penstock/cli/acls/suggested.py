"""The fewest rules by which nothing would have been refused that an audit log says was, or would have been.

Logs in Kafka's words are read, of Kafka's nodes as well, and in JSON. A name comes from whoever asked: look at what is
suggested before it is made.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from uuid import UUID

from penstock.metadata.access_rules import AccessRules
from penstock.protocol.acls import WILDCARD, AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.value import Value

_LINE: Final = re.compile(
    r"Principal = (?P<principal>.+?) is Denied operation = (?P<operation>\w+) from host = (?P<host>\S+)"
    r" on resource = (?P<resource>\w+):LITERAL:(?P<name>.*) for request = \w+ with resourceRefCount = \d+ based on "
)
_JSON: Final = '{"event": "access", '
_LEVEL: Final = r"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) "
_BEFORE: Final = re.compile(rf"\s*|(?!\| )(?:(?!{_LEVEL}).)*{_LEVEL}(?:kafka\.authorizer\.logger: )?")
"""What stands before the words of an audit log, here and in Kafka: nothing, or a time and a level. Other loggers say
what strangers sent, which may look like such words.
"""
_IMPLIED: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.IDEMPOTENT_WRITE)
"""What other rights bring along, so that a rule for it may be more than is needed."""
_RESOURCES: Final = {it.name.replace("_", "").lower(): it for it in Resource if it > Resource.ANY}


class Denial(Value):
    principal: str
    host: str
    operation: Operation
    resource: Resource
    name: str

    @property
    def allowing(self) -> AclBinding:
        return AclBinding(
            *(self.resource, self.name, PatternType.LITERAL, self.principal, WILDCARD),
            *(self.operation, Permission.ALLOW),
        )


class Suggestion(Value):
    """Rules that are missing, and what a rule denies that is there, so that no other rule helps."""

    rules: tuple[AclBinding, ...]
    denied: tuple[tuple[Denial, AclBinding], ...]


def denials(lines: Iterable[str]) -> Iterator[Denial]:
    """Those that the lines of a log tell of. What is none is passed over."""
    for line in lines:
        fields = _in_json(line) or _in_words(line)
        if fields is None:
            continue
        principal, host, operation, resource, name = fields
        kind = _RESOURCES.get(resource.replace("_", "").lower())
        if operation in Operation.__members__ and kind is not None and name and ":" in principal:
            yield Denial(principal, host, Operation[operation], kind, name)


def suggest(found: Iterable[Denial], there: Collection[AclBinding], *, super_users: Collection[str] = ()) -> Suggestion:
    """`there` are the rules that hold. Hosts are not told apart: what is suggested holds from all of them."""
    rules = AccessRules(super_users)
    for number, rule in enumerate(there):
        rules.add(UUID(int=number), rule)
    missing: dict[UUID, Denial] = {}
    denied: dict[Denial, AclBinding] = {}
    for number, denial in enumerate(dict.fromkeys(found), len(there)):
        reason = rules.reason(denial.principal, denial.host, denial.operation, denial.resource, denial.name)
        if isinstance(reason, AclBinding) and reason.permission_type == Permission.DENY:
            denied[denial] = reason
        elif not _is_allowed(rules, denial):
            missing[UUID(int=number)] = denial
    for rule_id, denial in missing.items():
        rules.add(rule_id, denial.allowing)
    needed = dict(missing)
    for rule_id, denial in missing.items():
        if denial.operation in _IMPLIED:
            rules.remove(rule_id)
            if _is_allowed(rules, denial):
                del needed[rule_id]
            else:
                rules.add(rule_id, denial.allowing)
    return Suggestion(tuple(sorted({it.allowing for it in needed.values()})), tuple(denied.items()))


def _is_allowed(rules: AccessRules, denial: Denial) -> bool:
    """Whoever may write to any topic may do so with idempotence."""
    who = denial.principal, denial.host
    if denial.operation is Operation.IDEMPOTENT_WRITE and rules.allows_any(*who, Operation.WRITE, Resource.TOPIC):
        return True
    return rules.allows(*who, denial.operation, denial.resource, denial.name)


def _in_words(line: str) -> tuple[str, ...] | None:
    match = _LINE.search(line)
    if match is None or _BEFORE.fullmatch(line, 0, match.start()) is None:
        return None
    return match.group("principal", "host", "operation", "resource", "name")


def _in_json(line: str) -> tuple[str, ...] | None:
    start = line.find(_JSON)
    if start < 0 or _BEFORE.fullmatch(line, 0, start) is None:
        return None
    try:
        told = json.loads(line[start:])
        fields = tuple(told[key] for key in ("principal", "host", "operation", "resourceType", "resourceName"))
        is_denial = told["verdict"] == "Denied" and all(isinstance(field, str) for field in fields)
    except (ValueError, LookupError, TypeError):
        return None
    return fields if is_denial else None
