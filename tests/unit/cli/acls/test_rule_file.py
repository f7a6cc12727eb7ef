"""A file of access rules says what it means, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.acls.rule_file import read_rules, written
from penstock.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Resource,
)

TOPIC, LITERAL, PREFIXED = Resource.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NAMES = {resource: TEXTS if resource is not Resource.CLUSTER else st.just(CLUSTER_NAME) for resource in OPERATIONS_ON}
RULES = st.sampled_from(sorted(OPERATIONS_ON)).flatmap(
    lambda resource: st.builds(
        AclBinding,
        st.just(resource),
        NAMES[resource],
        st.just(LITERAL) if resource is Resource.CLUSTER else st.sampled_from([LITERAL, PREFIXED]),
        TEXTS.map("User:{}".format),
        st.sampled_from(["*", "10.0.0.1", "10.0.0.0/8"]),
        st.sampled_from([Operation.ALL, *OPERATIONS_ON[resource]]),
        st.sampled_from([ALLOW, DENY]),
    )
)


def read(tmp_path: Path, text: str) -> list[AclBinding]:
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return read_rules(path)


def test_a_table_stands_for_all_rules_of_its_lists(tmp_path: Path) -> None:
    text = """
    [[rule]]
    description = "readers"
    allow = ["User:ada", "User:bob"]
    operation = ["read", "Describe"]
    topic = "flights"
    cluster = false

    [[rule]]
    deny = "User:*"
    cluster = true
    group = "g"
    pattern = "prefixed"
    host = ["10.0.0.0/8", "::1"]
    """
    assert read(tmp_path, text) == sorted(
        [
            *(
                AclBinding(TOPIC, "flights", LITERAL, who, "*", operation, ALLOW)
                for who in ("User:ada", "User:bob")
                for operation in (Operation.READ, Operation.DESCRIBE)
            ),
            *(
                AclBinding(kind, name, pattern, "User:*", host, Operation.ALL, DENY)
                for kind, name, pattern in (
                    (Resource.CLUSTER, CLUSTER_NAME, LITERAL),
                    (Resource.GROUP, "g", PREFIXED),
                )
                for host in ("10.0.0.0/8", "::1")
            ),
        ]
    )


@settings(max_examples=30)
@given(st.sets(RULES, min_size=1, max_size=8))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, rules: set[AclBinding]) -> None:
    assert read(tmp_path_factory.mktemp("rules"), written(rules)) == sorted(rules)


def test_rules_about_the_same_stand_in_one_table() -> None:
    rule = AclBinding(TOPIC, "flights", PREFIXED, "User:ada", "10.0.0.0/8", Operation.READ, ALLOW)
    both = [rule._replace(operation=Operation.WRITE), rule, rule._replace(resource_name="a", host="*")]
    cluster = AclBinding(Resource.CLUSTER, CLUSTER_NAME, LITERAL, "User:bob", "*", Operation.ALL, DENY)
    assert written([cluster, *both]) == (
        '[[rule]]\nallow = "User:ada"\noperation = "Read"\ntopic = "a"\npattern = "prefixed"\n\n'
        '[[rule]]\nallow = "User:ada"\noperation = ["Read", "Write"]\ntopic = "flights"\npattern = "prefixed"\n'
        'host = "10.0.0.0/8"\n\n'
        '[[rule]]\ndeny = "User:bob"\noperation = "All"\ncluster = true\n'
    )


def test_a_rule_of_a_later_release_is_not_written() -> None:
    with pytest.raises(ValueError, match="8"):
        written([AclBinding(8, "x", LITERAL, "User:ada", "*", Operation.READ, ALLOW)])
    with pytest.raises(ValueError, match="ANY"):
        written([AclBinding(Resource.ANY, "x", LITERAL, "User:ada", "*", Operation.READ, ALLOW)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no rule: each begins with [[rule]]"),
        ("rule = 3", "it has no rule"),
        ("rule = [3]", "rule 1 is no table"),
        ("[[rules]]\na = 1", "the file has no key rules; did you mean rule?"),
        ("[[rule]]\nalow = 'User:a'", "rule 1 has no key alow; did you mean allow?"),
        ("[[rule]]\ntopic = 't'", "rule 1 is about nobody"),
        ("[[rule]]\nallow = 'ada'\ntopic = 't'", "as in User:ada"),
        ("[[rule]]\nallow = 'User:ada'", "rule 1 is about nothing"),
        ("[[rule]]\nallow = 'User:ada'\ntopic = 3", "rule 1: topic is a text"),
        ("[[rule]]\nallow = 'User:ada'\ntopic = ['']", "rule 1: topic is a text"),
        ("[[rule]]\nallow = 'User:ada'\ncluster = 'yes'", "cluster is true or false"),
        ("[[rule]]\nallow = 'User:ada'\ntopic = 't'\noperation = 'Eat'", "operation is 'Eat', and may be all, read"),
        ("[[rule]]\nallow = 'User:ada'\ntopic = 't'\noperation = 'ClusterAction'", "CLUSTER_ACTION is nothing that"),
        ("[[rule]]\nallow = 'User:ada'\ntopic = 't'\npattern = 'match'", "pattern is 'match', and may be literal"),
        ("[[rule]]\nallow = 'User:ada'\ntopic = 't'\nhost = '10.0.0.0/33'", "no network in CIDR notation"),
        ("[[rule", "Expected"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the words are looked at below
        read(tmp_path, text)
    assert words in str(raised.value)
