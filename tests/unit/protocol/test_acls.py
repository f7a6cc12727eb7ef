"""Which rules a filter means: each of its fields counts, and what stands for any."""

from typing import Any

import pytest

from penstock.protocol.acls import WILDCARD, AclBinding, AclFilter, Operation, PatternType, Permission, Resource

RULE = AclBinding(
    Resource.TOPIC, "orders", PatternType.LITERAL, "User:ada", "10.0.0.1", Operation.READ, Permission.ALLOW
)
OTHERS: dict[str, Any] = {
    "resource_type": Resource.GROUP,
    "resource_name": "payments",
    "pattern_type": PatternType.PREFIXED,
    "principal": "User:bob",
    "host": "*",
    "operation": Operation.WRITE,
    "permission_type": Permission.DENY,
}


@pytest.mark.parametrize("field", OTHERS)
def test_each_field_counts(field: str) -> None:
    exact = AclFilter(*RULE)
    assert exact.matches(RULE)
    assert AclFilter().matches(RULE)
    assert AclFilter(**{field: getattr(RULE, field)}).matches(RULE)
    other = {field: OTHERS[field]}
    assert not exact._replace(**other).matches(RULE)
    assert not exact.matches(RULE._replace(**other))
    assert not AclFilter(**other).matches(RULE)


@pytest.mark.parametrize(
    ("pattern", "its_name", "name", "found"),
    [
        (PatternType.LITERAL, "orders", "orders", True),
        (PatternType.LITERAL, "orders", "orders-2", False),
        (PatternType.LITERAL, WILDCARD, "orders", True),
        (PatternType.PREFIXED, "ord", "orders", True),
        (PatternType.PREFIXED, "orders-2", "orders", False),
        (PatternType.PREFIXED, WILDCARD, "orders", False),
    ],
)
def test_a_match_finds_what_is_about_a_name(pattern: PatternType, its_name: str, name: str, found: bool) -> None:
    rule = RULE._replace(pattern_type=pattern, resource_name=its_name)
    assert AclFilter(resource_name=name, pattern_type=PatternType.MATCH).matches(rule) is found
    assert AclFilter(pattern_type=PatternType.MATCH).matches(rule)
    assert AclFilter(resource_name=name).matches(rule) is (name == its_name), "otherwise names are compared"


CODES = ("resource_type", Resource), ("pattern_type", PatternType), ("operation", Operation)


@pytest.mark.parametrize(("field", "kind"), [*CODES, ("permission_type", Permission)])
def test_a_code_that_nobody_knows_is_told(field: str, kind: Any) -> None:
    def is_unknown(code: int) -> bool:
        codes: dict[str, Any] = {field: code}
        return AclFilter(**codes).is_unknown

    assert not AclFilter().is_unknown
    assert all(map(is_unknown, (0, len(kind), -1)))
    assert not any(is_unknown(code) for code in kind if code)
