"""What an audit log says was refused becomes the fewest rules that would have allowed it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.acls.kept import suggested
from penstock.cli.acls.rule_file import read_rules
from penstock.cli.acls.suggested import Denial, denials, suggest
from penstock.metadata.access_rules import AccessRules
from penstock.node.serving.access import Right
from penstock.node.serving.audit import Audit
from penstock.node.serving.session import Principal, Session
from penstock.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Resource,
)
from penstock.protocol.requests.api import ApiKey

TOPIC, GROUP, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def denial(operation: Operation, resource: Resource = TOPIC, name: str = "flights", who: str = "User:ada") -> Denial:
    return Denial(who, "10.0.0.1", operation, resource, name)


def allowing(operation: Operation, resource: Resource = TOPIC, name: str = "flights") -> AclBinding:
    return denial(operation, resource, name).allowing


@pytest.mark.parametrize("how", [{}, {"as_json": True}, {"watches": True}, {"as_json": True, "watches": True}])
@pytest.mark.parametrize(
    "name", ["flights", "a b", "x for request = Fetch with resourceRefCount = 1 based on rule", 'q"{', "*"]
)
def test_the_lines_of_a_node_are_read(caplog: pytest.LogCaptureFixture, how: dict[str, bool], name: str) -> None:
    caplog.set_level("DEBUG", "kafka.authorizer.logger")
    audit = Audit(AccessRules(), lambda: 0.0, lambda *_: None, **how)
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "CN=ada, inc.,O=x"))
    for resource, operation in ((TOPIC, READ), (Resource.TRANSACTIONAL_ID, WRITE), (GROUP, READ)):
        audit.denied(session, Right(operation, resource), name, ApiKey.FETCH)
    audit.allowed(session, Right(WRITE, TOPIC), name, ApiKey.FETCH)
    found = list(denials(f"2026-11-28 06:00:00,1 INFO kafka.authorizer.logger: {it}\n" for it in caplog.messages))
    who = "User:CN=ada, inc.,O=x"
    assert found == [
        denial(READ, TOPIC, name, who),
        denial(WRITE, Resource.TRANSACTIONAL_ID, name, who),
        denial(READ, GROUP, name, who),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "nothing of that kind",
        '{"event": "access", ',
        '{"event": "access", "verdict": "Denied"}',
        '{"event": "access", "verdict": "Denied", "principal": 3, "host": "h", "operation": "READ",'
        ' "resourceType": "TOPIC", "resourceName": "t"}',
        '{"event": "access", "verdict": "Denied", "principal": "User:a", "host": "h", "operation": "EAT",'
        ' "resourceType": "TOPIC", "resourceName": "t"}',
        '{"event": "access", "verdict": "Denied", "principal": "User:a", "host": "h", "operation": "READ",'
        ' "resourceType": "TABLE", "resourceName": "t"}',
        '{"event": "access", "verdict": "Denied", "principal": "User:a", "host": "h", "operation": "READ",'
        ' "resourceType": "TOPIC", "resourceName": ""}',
        "Principal = nobody is Denied operation = READ from host = h on resource = Topic:LITERAL:t for request = Fetch"
        " with resourceRefCount = 1 based on rule DefaultDeny",
    ],
)
def test_what_is_no_denial_is_passed_over(line: str) -> None:
    assert list(denials([line])) == []


def test_what_other_rights_bring_along_is_left_out() -> None:
    found = [denial(DESCRIBE), denial(READ), denial(DESCRIBE, name="gates"), denial(Operation.DESCRIBE_CONFIGS)]
    wanted = [READ, Operation.DESCRIBE_CONFIGS]
    assert suggest(found, []).rules == (*(allowing(it) for it in wanted), allowing(DESCRIBE, name="gates"))
    idempotent = denial(Operation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)
    assert suggest([idempotent, denial(WRITE)], []).rules == (allowing(WRITE),)
    assert suggest([idempotent, denial(READ)], []).rules == (allowing(READ), idempotent.allowing)


def test_what_is_allowed_by_now_is_not_suggested() -> None:
    there = [allowing(Operation.ALL)._replace(resource_name="fl", pattern_type=PatternType.PREFIXED)]
    assert suggest([denial(READ), denial(DESCRIBE, name="gates")], there).rules == (allowing(DESCRIBE, name="gates"),)
    assert suggest([denial(READ)], [], super_users=["User:ada"]).rules == ()


def test_what_a_rule_denies_no_other_rule_helps() -> None:
    deny = allowing(Operation.ALL)._replace(permission_type=Permission.DENY)
    suggestion = suggest([denial(READ), denial(READ, name="gates")], [deny])
    assert suggestion.rules == (allowing(READ, name="gates"),)
    assert suggestion.denied == ((denial(READ), deny),)


@pytest.mark.parametrize(
    "name", ["a\u2028b", "a\x85b", "a\x7f", "\U000e0001", 'x"\u2029[[rule]]\u2029allow = "User:eve"']
)
def test_strangers_write_no_line_of_a_file_of_rules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`name` is asked for by somebody whose own name, as a certificate may have it, is as bad, and refused."""
    who = Principal("User", 'x\u2028[[rule]]\u2028allow = "User:eve"\u2028cluster = true\u2028#')
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1, who)
    denied = denial(READ, who=str(who)).allowing._replace(permission_type=Permission.DENY)
    audit = Audit(AccessRules(), lambda: 0.0, lambda *_: None, as_json=True)
    for asked in ("flights", name):
        audit.denied(session, Right(READ, TOPIC), asked, ApiKey.FETCH)
    log, rules = tmp_path / "log", tmp_path / "rules.toml"
    log.write_text("".join(f"{line}\n" for line in caplog.messages))
    suggested(cast("Any", SimpleNamespace(run=lambda _: [denied])), [log])
    rules.write_text(capsys.readouterr().out)
    assert read_rules(rules) == sorted([denied, denial(READ, name=name, who=str(who)).allowing])


WORDS = (
    "Principal = User:eve is Denied operation = ALL from host = 10.0.0.1 on resource = Cluster:LITERAL:kafka-cluster"
    " for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
)
JSON = (
    '{"event": "access", "verdict": "Denied", "principal": "User:eve", "host": "h", "operation": "ALL",'
    ' "resourceType": "CLUSTER", "resourceName": "kafka-cluster"}'
)


@pytest.mark.parametrize("words", [WORDS, JSON])
def test_only_the_audit_log_is_believed(words: str) -> None:
    when = "2026-11-28 06:00:00,123"
    for begin in (
        *("", f"{when} INFO kafka.authorizer.logger: ", f"node-1 | {when} INFO kafka.authorizer.logger: "),
        f"[{when}] INFO ",
    ):
        assert [it.principal for it in denials([f"{begin}{words}\n"])] == ["User:eve"], begin
    for begin in (
        f"{when} WARNING penstock.node.serving.refusals: closed: ",
        f"{when} WARNING penstock.node.serving.refusals: closed: INFO kafka.authorizer.logger: ",
        "| ValueError: INFO kafka.authorizer.logger: ",
        "something ",
    ):
        assert list(denials([f"{begin}{words}\n"])) == [], begin


def test_hosts_are_not_told_apart() -> None:
    found = [denial(DESCRIBE), denial(DESCRIBE).replace(host="10.0.0.2")]
    assert suggest(found, []).rules == (allowing(DESCRIBE),)


DENIALS = st.sampled_from([TOPIC, GROUP, CLUSTER]).flatmap(
    lambda kind: st.builds(
        Denial,
        st.sampled_from(["User:ada", "User:bob"]),
        st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        st.sampled_from(OPERATIONS_ON[kind]),
        st.just(kind),
        st.just(CLUSTER_NAME) if kind is CLUSTER else st.sampled_from(["a", "b"]),
    )
)
THERE = DENIALS.map(lambda it: it.allowing)


@settings(max_examples=50)
@given(st.lists(DENIALS, max_size=12), st.lists(THERE, max_size=3))
def test_it_is_enough_and_none_is_too_many(found: list[Denial], there: list[AclBinding]) -> None:
    suggested = suggest(found, there).rules
    assert all(allowed([*there, *suggested], it) for it in found)
    for rule in suggested:
        others = [*there, *(it for it in suggested if it != rule)]
        assert not all(allowed(others, it) for it in found)


def allowed(rules: list[AclBinding], wanted: Denial) -> bool:
    decided = AccessRules()
    for number, rule in enumerate(rules):
        decided.add(UUID(int=number), rule)
    if wanted.operation is Operation.IDEMPOTENT_WRITE and decided.allows_any(
        wanted.principal, wanted.host, WRITE, TOPIC
    ):
        return True
    return decided.allows(wanted.principal, wanted.host, wanted.operation, wanted.resource, wanted.name)
