"""A file of access rules: all that a cluster shall have.

    [[rule]]
    allow = "User:ada"                # or deny
    operation = ["Read", "Describe"]  # All if nothing is said
    topic = "flights"                 # or group, transactional_id, delegation_token, user; cluster = true
    pattern = "prefixed"              # literal if nothing is said
    host = "10.0.0.0/8"               # every host if nothing is said

Each value but that of pattern may be a list; a table stands for all rules that can be made of its lists.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.cli.acls.wanted import OPERATIONS
from penstock.metadata.acl_hosts import network_of
from penstock.metadata.rule_tables import rule_tables
from penstock.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Resource,
)

Code = TypeVar("Code", Operation, PatternType)
MAX_BYTES: Final = 64 * 1024 * 1024
NAMED: Final = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional_id": Resource.TRANSACTIONAL_ID,
    "delegation_token": Resource.DELEGATION_TOKEN,
    "user": Resource.USER,
}
PERMISSIONS: Final = {"allow": Permission.ALLOW, "deny": Permission.DENY}
PATTERNS: Final = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
KEYS: Final = ("description", *PERMISSIONS, "operation", *NAMED, "cluster", "pattern", "host")
_OPERATIONS: Final = {name.lower(): operation for name, operation in OPERATIONS.items()}


def read_rules(path: Path) -> list[AclBinding]:
    """Sorted, each once. Raises OSError, and ValueError that names the rule and what is allowed."""
    with path.open("rb") as file:
        tables = rule_tables(file.read(MAX_BYTES + 1), KEYS, most_bytes=MAX_BYTES)
    return sorted({rule for where, table in tables for rule in _of_table(where, table)})


def _of_table(where: str, table: Mapping[str, Any]) -> Iterator[AclBinding]:
    pattern = _one_of(where, "pattern", table.get("pattern", "literal"), PATTERNS)
    hosts = _texts(where, table, "host") or (WILDCARD,)
    for host in hosts:
        if "/" in host and network_of(host) is None:
            raise ValueError(f"{where}: {host} is no network in CIDR notation, as 10.0.0.0/8 is")
    names = _texts(where, table, "operation") or ("All",)
    operations = [_one_of(where, "operation", name, _OPERATIONS) for name in names]
    for (who, permission), (resource, name), operation, host in product(
        _principals(where, table), _resources(where, table), operations, hosts
    ):
        if operation is not Operation.ALL and operation not in OPERATIONS_ON[resource]:
            raise ValueError(f"{where}: {operation.name} is nothing that is done with a {resource.name}")
        kind = PatternType.LITERAL if resource is Resource.CLUSTER else pattern
        yield AclBinding(resource, name, kind, who, host, operation, permission)


def _principals(where: str, table: Mapping[str, Any]) -> Sequence[tuple[str, Permission]]:
    found = [(who, it) for key, it in PERMISSIONS.items() for who in _texts(where, table, key) or ()]
    if not found:
        raise ValueError(f"{where} is about nobody: it has neither allow nor deny")
    for who, _ in found:
        if ":" not in who:
            raise ValueError(f"{where}: {who!r} is no principal: give its type too, as in User:{who}")
    return found


def _resources(where: str, table: Mapping[str, Any]) -> Sequence[tuple[Resource, str]]:
    found = [(resource, name) for key, resource in NAMED.items() for name in _texts(where, table, key) or ()]
    if not isinstance(table.get("cluster", False), bool):
        raise ValueError(f"{where}: cluster is true or false")
    found += [(Resource.CLUSTER, CLUSTER_NAME)] * table.get("cluster", False)
    if not found:
        raise ValueError(f"{where} is about nothing: it has none of {', '.join(NAMED)}, and cluster is not true")
    return found


def _texts(where: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = table.get(key, [])
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"{where}: {key} is a text, or a list of some")
    return tuple(texts)


def _one_of(where: str, key: str, text: object, known: Mapping[str, Code]) -> Code:
    found = known.get(text.lower()) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{where}: {key} is {text!r}, and may be {', '.join(known)}")
    return found


# -- writing ----------------------------------------------------------------------------------------------------------

_KEYS_OF: Final = {resource: key for key, resource in NAMED.items()}
_WORDS: Final = {operation: name for name, operation in OPERATIONS.items()}


def written(rules: Iterable[AclBinding]) -> str:
    """The text of a file, with a table for each principal and resource. ValueError for a rule with an unknown code."""
    ordered = sorted(
        rules, key=lambda rule: (rule.principal, *rule[:3], rule.host, rule.permission_type, rule.operation)
    )
    tables = groupby(ordered, lambda rule: rule._replace(operation=0))
    return "\n".join(_table(about, [_WORDS[Operation(rule.operation)] for rule in some]) for about, some in tables)


def _table(about: AclBinding, operations: Sequence[str]) -> str:
    resource = Resource(about.resource_type)
    if resource not in _KEYS_OF and resource is not Resource.CLUSTER:
        raise ValueError(f"a rule of the cluster is about {resource.name}, which this release does not know")
    lines = {
        "allow" if about.permission_type == Permission.ALLOW else "deny": about.principal,
        "operation": operations[0] if len(operations) == 1 else operations,
        _KEYS_OF.get(resource, "cluster"): resource is Resource.CLUSTER or about.resource_name,
    }
    if about.pattern_type == PatternType.PREFIXED:
        lines["pattern"] = "prefixed"
    if about.host != WILDCARD:
        lines["host"] = about.host
    return "\n".join(["[[rule]]", *(f"{key} = {_toml(value)}" for key, value in lines.items())]) + "\n"


def _toml(value: object) -> str:
    """Texts, lists of them and truth values are written as in JSON, but for what is not printable."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(it if it.isprintable() else _escaped(ord(it)) for it in text)


def _escaped(code: int) -> str:
    """JSON has two escapes for what is beyond four digits, which TOML does not take."""
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
