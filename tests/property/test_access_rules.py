"""Verdicts on random rules and questions, against a plain reading of StandardAuthorizer and Authorizer in Kafka 4.4.

The reference looks at every rule for every question, and compares hosts as their networks and addresses are written.
"""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from random import Random, SystemRandom
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.access_rules import DEFAULT_ALLOW, DEFAULT_DENY, AccessRules
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource

IMPLY_DESCRIBE = {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
IMPLY_DESCRIBE_CONFIGS = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
ASKED = [operation for operation in Operation if operation > Operation.ALL]
USERS = ["User:ada", "User:bob", "User:ANONYMOUS", "Group:ada"]
NAMES = ["*", "f", "fl", "flights", "flights-raw", "flightsX", "gates", "hardcode", "", "fläche"]
HOSTS = ["10.1.2.3", "10.1.2.4", "10.9.0.1", "192.168.0.1", "2001:db8::1", "2001:db8:1::5", "::1"]
RULE_HOSTS = [
    *("*", *HOSTS, "10.0.0.0/8", "10.1.2.3/24", "10.1.2.2/31", "0.0.0.0/0", "10.1.2.3/32", "2001:db8::/32", "::/0"),
    *("2001:db8:1::/48", "10.1.2.0/33", "example.org", "10.1.2.0/255.255.255.0"),
    "10.1.2.77/24",  # what another means, written differently
]

rules = st.builds(
    AclBinding,
    st.sampled_from([Resource.TOPIC, Resource.GROUP]),
    st.sampled_from([*NAMES[:-2], "fläche"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from([*USERS, "User:*"]),
    st.sampled_from(RULE_HOSTS),
    st.sampled_from([Operation.ALL, *ASKED, Operation.READ, Operation.DESCRIBE]),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
questions = st.tuples(
    st.sampled_from(USERS),
    st.sampled_from(HOSTS),
    st.sampled_from(ASKED),
    st.sampled_from([Resource.TOPIC, Resource.GROUP]),
    st.sampled_from(NAMES),
)
Question = tuple[str, str, Operation, Resource, str]


def is_about(rule: AclBinding, name: str) -> bool:
    if rule.pattern_type == PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name in (name, "*")


def has_mask(rule: AclBinding) -> bool:
    """Kafka's networks have a length, and no mask."""
    return "/" in rule.host and "255" in rule.host


def is_from(rule: AclBinding, host: str) -> bool:
    if rule.host in ("*", host):
        return True
    if "/" not in rule.host or has_mask(rule):
        return False
    try:
        return ip_address(host) in ip_network(rule.host, strict=False)
    except ValueError:
        return False


def is_for(rule: AclBinding, principal: str, host: str) -> bool:
    return rule.principal in (principal, "User:*") and is_from(rule, host)


def speaks_of(rule: AclBinding, operation: Operation) -> bool:
    if rule.operation in (Operation.ALL, operation):
        return True
    if rule.permission_type == Permission.DENY:
        return False
    if operation == Operation.DESCRIBE:
        return rule.operation in IMPLY_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and rule.operation in IMPLY_DESCRIBE_CONFIGS


def verdict(there: Iterable[AclBinding], question: Question, *, by_default: bool) -> bool:
    principal, host, operation, resource, name = question
    about = [rule for rule in there if rule.resource_type == resource and is_about(rule, name)]
    matching = [rule for rule in about if is_for(rule, principal, host) and speaks_of(rule, operation)]
    if any(rule.permission_type == Permission.DENY for rule in matching):
        return False
    return bool(matching) or (not about and by_default)


def verdict_on_any(there: list[AclBinding], question: Question, *, by_default: bool) -> bool:
    principal, host, operation, resource, _ = question
    if verdict(there, (principal, host, operation, resource, "hardcode"), by_default=by_default):
        return True
    asked = (Operation.ALL, operation)
    found = [
        rule
        for rule in there
        if rule.resource_type == resource and is_for(rule, principal, host) and rule.operation in asked
    ]
    denied = [rule for rule in found if rule.permission_type == Permission.DENY]
    literal_denied = {rule.resource_name for rule in denied if rule.pattern_type == PatternType.LITERAL}
    prefixes_denied = {rule.resource_name for rule in denied if rule.pattern_type == PatternType.PREFIXED}
    if "*" in literal_denied:
        return False
    for rule in found:
        if rule.permission_type == Permission.DENY:
            continue
        is_literal = rule.pattern_type == PatternType.LITERAL
        if is_literal and rule.resource_name == "*":
            return True
        if is_literal and rule.resource_name in literal_denied:
            continue
        if not any(rule.resource_name.startswith(prefix) for prefix in prefixes_denied):
            return True
    return False


def check_reason(decided: AccessRules, there: list[AclBinding], question: Question) -> None:
    """What is said to decide is a rule that is there and says so, but for how its host is written."""
    reason, is_allowed = decided.reason(*question), decided.allows(*question)
    if isinstance(reason, str):
        assert reason == (DEFAULT_ALLOW if is_allowed else DEFAULT_DENY)
        return
    assert reason.permission_type == (Permission.ALLOW if is_allowed else Permission.DENY)
    principal, host, operation, _, name = question
    assert is_about(reason, name)
    assert is_for(reason, principal, host)
    assert speaks_of(reason, operation)
    assert any(rule._replace(host=reason.host) == reason and is_from(rule, host) for rule in there)


@settings(max_examples=150)
@given(
    st.lists(rules, max_size=14),
    st.lists(questions, min_size=5, max_size=20),
    st.data(),
    st.booleans(),
)
def test_verdicts_are_kafkas(
    there: list[AclBinding], asked: list[Question], data: st.DataObject, default: bool
) -> None:
    decided = AccessRules({"User:root"}, allows_without_rules=default)
    by_id = {UUID(int=number): rule for number, rule in enumerate(there)}
    for rule_id, rule in by_id.items():
        decided.add(rule_id, rule)
    while True:
        left = list(by_id.values())
        for question in asked:
            assert decided.allows(*question) is verdict(left, question, by_default=default), question
            check_reason(decided, left, question)
            assert decided.allows_any(*question[:4]) is verdict_on_any(left, question, by_default=default), question
            assert decided.allows("User:root", *question[1:])
        if not by_id:
            break
        for rule_id in data.draw(st.lists(st.sampled_from(sorted(by_id)), min_size=1, unique=True)):
            decided.remove(rule_id)
            del by_id[rule_id]


@pytest.mark.soak
def test_verdicts_on_a_hundred_thousand_rules_and_questions_are_kafkas() -> None:
    """Names that are longer, and more of them, than the examples above have."""
    chance = Random(SystemRandom().randrange(1 << 32))
    state = chance.getstate()
    names = ["*", *("".join(chance.choices("ab-", k=chance.randrange(1, 6))) for _ in range(60))]
    for _ in range(QUESTIONS // EACH):
        there = [drawn_rule(chance, names) for _ in range(chance.randrange(EACH))]
        default = chance.random() < 0.3
        decided = AccessRules(allows_without_rules=default)
        decided.replace({UUID(int=number): rule for number, rule in enumerate(there)})
        for _ in range(EACH):
            kind = chance.choice([Resource.TOPIC, Resource.GROUP])
            question = chance.choice(USERS), chance.choice(HOSTS), chance.choice(ASKED), kind, chance.choice(names)
            assert decided.allows(*question) is verdict(there, question, by_default=default), (state, question)
            check_reason(decided, there, question)
            any_one = verdict_on_any(there, question, by_default=default)
            assert decided.allows_any(*question[:4]) is any_one, (state, question)


QUESTIONS, EACH = 100_000, 50


def drawn_rule(chance: Random, names: list[str]) -> AclBinding:
    return AclBinding(
        chance.choice([Resource.TOPIC, Resource.GROUP]),
        chance.choice(names),
        chance.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        chance.choice([*USERS, "User:*"]),
        chance.choice(RULE_HOSTS),
        chance.choice([Operation.ALL, *ASKED]),
        chance.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )
