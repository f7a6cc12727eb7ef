"""Why somebody may do something or not."""

from __future__ import annotations

import pytest

from penstock.metadata.access_explained import NEAREST, Explanation, Miss, Question, explain
from penstock.metadata.access_rules import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource

RULE = AclBinding(Resource.TOPIC, "flights", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)
ASKED = Question("User:ada", Operation.READ, Resource.TOPIC, "flights", "10.1.2.3")


def explained(*rules: AclBinding, asked: Question = ASKED, default: bool = False) -> Explanation:
    return explain(asked, rules, ["User:root"], allows_without_rules=default)


def test_the_rule_that_decides_is_told_as_it_was_made() -> None:
    deny = RULE._replace(host="010.1.2.99/16", principal="User:*", permission_type=Permission.DENY)
    assert explained(RULE) == Explanation(True, RULE)
    assert explained(RULE, deny) == Explanation(False, deny)
    for word in (Operation.ALL, Operation.WRITE, Operation.ALTER):
        rule = RULE._replace(operation=word, resource_name="fl", pattern_type=PatternType.PREFIXED)
        assert explained(rule, asked=ASKED.replace(operation=Operation.DESCRIBE)) == Explanation(True, rule)


def test_of_rules_that_allow_the_first_that_is_found_is_told() -> None:
    everybodys, any_name = RULE._replace(principal="User:*"), RULE._replace(resource_name="*")
    assert explained(everybodys, any_name, RULE) == Explanation(True, RULE)
    assert explained(everybodys, any_name) == Explanation(True, any_name)
    assert explained(everybodys) == Explanation(True, everybodys)


def test_what_decides_without_a_rule() -> None:
    assert explained(asked=ASKED.replace(principal="User:root")) == Explanation(True, SUPER_USER)
    assert explained(default=True) == Explanation(True, DEFAULT_ALLOW)
    assert explained() == Explanation(False, DEFAULT_DENY)
    other = RULE._replace(principal="User:bob")
    assert explained(other, default=True).allowed is False, "a rule is about the topic"


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"principal": "User:bob"}, ("it is for User:bob",)),
        ({"resource_name": "fl"}, ("it is about fl alone",)),
        ({"resource_name": "flights-", "pattern_type": 4}, ("it is about names that begin with flights-",)),
        ({"operation": Operation.WRITE}, ("it allows WRITE",)),
        ({"host": "10.2.0.0/16"}, ("it holds from 10.2.0.0/16",)),
        ({"host": "10.1.2.4"}, ("it holds from 10.1.2.4",)),
        ({"host": "10.1.2.4", "principal": "User:eve"}, ("it is for User:eve", "it holds from 10.1.2.4")),
    ],
)
def test_the_nearest_that_missed_is_told_with_what_differs(
    changes: dict[str, int | str], differs: tuple[str, ...]
) -> None:
    rule = RULE._replace(**changes)  # type: ignore[arg-type]
    assert explained(rule) == Explanation(False, DEFAULT_DENY, (Miss(rule, differs),))


def test_the_nearest_come_first_and_those_about_something_else_not_at_all() -> None:
    near, far = RULE._replace(operation=Operation.WRITE), RULE._replace(principal="User:bob", resource_name="gates")
    nothing = RULE._replace(principal="User:bob", resource_name="x", host="10.9.9.9", operation=Operation.WRITE)
    group, denial = RULE._replace(resource_type=Resource.GROUP), near._replace(permission_type=Permission.DENY)
    assert [miss.rule for miss in explained(far, nothing, group, denial, near).misses] == [near, far]
    many = [RULE._replace(resource_name=f"t{number}") for number in range(NEAREST + 3)]
    assert len(explained(*many).misses) == NEAREST


def test_without_a_host_those_for_all_hosts_count() -> None:
    nowhere = Question("User:ada", Operation.READ, Resource.TOPIC, "flights")
    assert explained(RULE, asked=nowhere).allowed
    assert explained(RULE._replace(host="0.0.0.0/0"), asked=nowhere).misses[0].differs == ("it holds from 0.0.0.0/0",)
