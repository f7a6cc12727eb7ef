"""How hosts in access rules are read, and which rules a filter finds."""

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock.metadata import access_rules
from penstock.metadata.access_rules import AccessRules
from penstock.metadata.acl_hosts import network_of
from penstock.protocol.acls import AclBinding, AclFilter, Operation, PatternType, Permission, Resource


def rule(
    host: str = "*", permission: int = Permission.ALLOW, operation: int = Operation.READ, **fields: Any
) -> AclBinding:
    made = AclBinding(Resource.TOPIC, "flights", PatternType.LITERAL, "User:ada", host, operation, permission)
    return made._replace(**fields)


def may_read(host: str, *there: AclBinding) -> bool:
    rules = AccessRules()
    for number, each in enumerate(there):
        rules.add(UUID(int=number), each)
    return rules.allows("User:ada", host, Operation.READ, Resource.TOPIC, "flights")


WRITES = rule(operation=Operation.WRITE)
DENIED = WRITES._replace(permission_type=Permission.DENY)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([rule(operation=Operation.DESCRIBE)], False),
        ([WRITES], True),
        ([WRITES, DENIED], False),
        ([WRITES, rule(permission=Permission.DENY), DENIED._replace(resource_name="gates")], True),
        ([WRITES, DENIED._replace(principal="User:bob"), DENIED._replace(resource_type=Resource.GROUP)], True),
        ([WRITES, WRITES._replace(resource_name="f", pattern_type=PatternType.PREFIXED)], True),
        ([WRITES, DENIED._replace(resource_name="*")], False),
        (
            [WRITES._replace(resource_name="f", pattern_type=PatternType.PREFIXED), DENIED._replace(resource_name="*")],
            False,
        ),
        ([WRITES, DENIED._replace(resource_name="f", pattern_type=PatternType.PREFIXED)], False),
        ([WRITES, DENIED._replace(host="10.0.0.2")], True),
        ([WRITES._replace(host="10.0.0.2")], False),
        ([rule(operation=Operation.ALL)], True),
    ],
)
def test_any_one_topic_will_do_that_is_not_denied_as_a_whole(there: list[AclBinding], expected: bool) -> None:
    rules = AccessRules()
    for number, each in enumerate(there):
        rules.add(UUID(int=number), each)
    assert rules.allows_any("User:ada", "10.0.0.1", Operation.WRITE, Resource.TOPIC) is expected


@pytest.mark.parametrize(
    ("network", "host", "expected"),
    [
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("010.000.0.0/8", "10.1.2.3", True),
        ("10.1.2.3/+24", "10.1.2.200", True),
        ("0.0.0.0/0", "8.8.8.8", True),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("2001:DB8:0:0::/32", "2001:db8::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("::/0", "10.1.2.3", False),
    ],
)
def test_a_denied_network_is_never_compared_as_a_text(network: str, host: str, expected: bool) -> None:
    assert may_read(host, rule(network)) is expected
    assert may_read(host, rule(), rule(network, Permission.DENY)) is not expected


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0/33",
        "10.0.0.0/255.0.0.0",
        "10.0.0/8",
        "x/8",
        "10.0.0.0/",
        "::ffff:10.0.0.0/104",
        "::/129",
        "1.2.3.999/8",
    ],
)
def test_what_is_no_network(text: str) -> None:
    assert network_of(text) is None
    assert not may_read("10.0.0.1", rule(text))


def test_addresses_are_compared_as_addresses() -> None:
    assert may_read("::1", rule("0:0:0:0:0:0:0:1"))
    assert may_read("::ffff:10.0.0.1", rule("10.0.0.1"))
    assert may_read("fe80::1%eth0", rule("fe80::1"))
    assert not may_read("10.0.0.1", rule("example.org"))


def test_what_has_no_word_in_kafka_allows_nothing_and_denies_by_everything() -> None:
    assert not may_read("10.0.0.1", rule(operation=77))
    assert not may_read("10.0.0.1", rule(operation=-1))
    assert may_read("10.0.0.1", rule(), rule(operation=45, permission=Permission.DENY))
    assert not may_read("10.0.0.1", rule(), rule(permission=9)), "what does not allow denies"


@pytest.mark.parametrize("permission", [Permission.ALLOW, Permission.DENY])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (rule(), rule()),
        (rule("10.1.2.3/8"), rule("10.0.0.0/8")),
        (rule("::1"), rule("0:0:0:0:0:0:0:1")),
        (rule("10.0.0.1"), rule("::ffff:10.0.0.1")),
        (rule(operation=45), rule(operation=-1)),
    ],
)
def test_of_two_that_mean_the_same_one_may_go(one: AclBinding, other: AclBinding, permission: Permission) -> None:
    """The masks of what is left are those of rules of which there never was another."""
    for first, last in ((1, 2), (2, 1)):
        rules, alone, empty = AccessRules(), AccessRules(), AccessRules()
        by_id = {UUID(int=number): each._replace(permission_type=permission) for number, each in ((1, one), (2, other))}
        for rule_id, each in by_id.items():
            rules.add(rule_id, each)
        rules.remove(UUID(int=first))
        alone.add(UUID(int=last), by_id[UUID(int=last)])
        assert vars(rules) == vars(alone)
        rules.replace({})
        assert vars(rules) == vars(empty)


@pytest.mark.parametrize("denied", ["gates", "other-7", "*"])
def test_whether_any_may_be_read_does_not_go_through_all_rules(denied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, looked_at = AccessRules(), 0
    by_name = [rule(resource_name=f"other-{number}", operation=Operation.WRITE) for number in range(300)]
    elsewhere = [each._replace(operation=Operation.READ, host="10.9.0.0/16") for each in by_name]
    denials = [each._replace(operation=Operation.READ, permission_type=Permission.DENY) for each in by_name]
    there = [*by_name, *elsewhere, *denials, rule(), rule(resource_name=denied, permission=Permission.DENY)]
    rules.replace({UUID(int=number): each for number, each in enumerate(there)})
    around = access_rules._around

    def counted(*asked: Any) -> Iterator[access_rules.Pattern]:
        nonlocal looked_at
        looked_at += 1
        return around(*asked)

    monkeypatch.setattr(access_rules, "_around", counted)
    assert rules.allows_any("User:ada", "10.1.2.3", Operation.READ, Resource.TOPIC) is (denied != "*")
    assert looked_at <= 1


PREFIXED = rule(resource_name="fl", pattern_type=PatternType.PREFIXED)
EVERY = rule(resource_name="*")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), [rule(), PREFIXED, EVERY]),
        (AclFilter(resource_name="flights", pattern_type=PatternType.MATCH), [rule(), PREFIXED, EVERY]),
        (AclFilter(resource_name="gates", pattern_type=PatternType.MATCH), [EVERY]),
        (AclFilter(resource_name="fl"), [PREFIXED]),
        (AclFilter(resource_name="fl", pattern_type=PatternType.LITERAL), []),
        (AclFilter(pattern_type=PatternType.PREFIXED), [PREFIXED]),
        (AclFilter(resource_type=Resource.GROUP), []),
        (AclFilter(principal="User:bob"), []),
        (AclFilter(principal="User:ada", host="*", operation=Operation.READ), [rule(), PREFIXED, EVERY]),
        (AclFilter(permission_type=Permission.DENY), []),
        (AclFilter(host="10.0.0.1"), []),
    ],
)
def test_filters_find_what_kafkas_find(wanted: AclFilter, found: list[AclBinding]) -> None:
    assert [one for one in (rule(), PREFIXED, EVERY) if wanted.matches(one)] == found


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
def test_a_filter_of_a_later_release_is_unknown(field: str) -> None:
    assert not AclFilter().is_unknown
    for code in (0, 99):
        changed: dict[str, Any] = {field: code}
        assert AclFilter()._replace(**changed).is_unknown


ALIKE = [
    rule(resource_name=name, pattern_type=pattern, permission=permission, host=host)
    for name in ("flights", "gates")
    for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
    for permission in (Permission.ALLOW, Permission.DENY)
    for host in ("*", "10.0.0.0/8")
]


@pytest.mark.parametrize("seed", range(10))
def test_rules_that_are_gone_leave_what_there_is_without_them(seed: int) -> None:
    """Among such as differ in one thing, some of them twice."""
    random = Random(seed)
    there = {UUID(int=number): random.choice(ALIKE) for number in range(8)}
    decided, others = AccessRules(), AccessRules()
    for rule_id, one in there.items():
        decided.add(rule_id, one)
    for rule_id in random.sample(sorted(there), 5):
        decided.remove(rule_id)
        del there[rule_id]
    others.replace(there)
    assert vars(decided) == vars(others)
