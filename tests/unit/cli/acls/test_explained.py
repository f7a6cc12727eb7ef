"""What `penstock acls --explain` says, and of which broker's keys; and what is asked before rules go."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from tests.golden.test_commands import Reached
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.acls import explained
from penstock.cli.acls.explained import shown_rule
from penstock.cli.main import main
from penstock.metadata.access_explained import NOWHERE, Question
from penstock.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
)
from penstock.protocol.errors import ErrorCode, KafkaError

READS = AclBinding(Resource.TOPIC, "t", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)


class Session:
    """A cluster with rules, and brokers of which one tells its keys."""

    def __init__(self, *rules: AclBinding, of_controllers: bool = False, **keys: Any) -> None:
        self.of_controllers = of_controllers
        self.refusal: KafkaError | None = None
        self.asked: list[str] = []
        self._rules, self._keys = rules, {name.replace("_", "."): value for name, value in keys.items()}
        self.acls = self.configs = self

    def run(self, work: Any) -> Any:
        return asyncio.run(work(self))

    async def describe_cluster(self) -> SimpleNamespace:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=number) for number in (7, 3, 9)])

    async def describe(self, what: Any, name: str = "", keys: Any = ()) -> list[Any]:
        if isinstance(what, AclFilter):
            return list(self._rules)
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(name)
        return [SimpleNamespace(name=key, value=value) for key, value in self._keys.items()]


def said(
    session: Session,
    capsys: pytest.CaptureFixture[str],
    operation: Operation = Operation.READ,
    resource: Resource = Resource.TOPIC,
    name: str = "t",
    host: str = NOWHERE,
) -> list[str]:
    question = Question("User:ada", operation, resource, name, host)
    explained.explained(cast("Any", session), question, as_json=False)
    return capsys.readouterr().out.splitlines()


def test_a_rule_allows_it_or_denies_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(Session(READS), capsys) == [
        "User:ada may READ topic t",
        "  a rule allows it: User:ada may READ TOPIC t (LITERAL) from *",
    ]
    denied = READS._replace(permission_type=Permission.DENY)
    assert said(Session(READS, denied), capsys, host="10.0.0.1") == [
        "User:ada may not READ topic t from 10.0.0.1",
        "  a rule denies it: User:ada may not READ TOPIC t (LITERAL) from *",
    ]


def test_what_there_is_nearby(capsys: pytest.CaptureFixture[str]) -> None:
    head, why, nearest, rule, differs = said(Session(READS), capsys, Operation.WRITE)
    assert (head, why) == ("User:ada may not WRITE topic t", "  no rule allows it")
    assert nearest == "  the nearest that allow something:"
    assert rule == "  User:ada may READ TOPIC t (LITERAL) from *"
    assert differs.startswith("    but ")


@pytest.mark.parametrize(
    ("resource", "name", "head"),
    [
        (Resource.CLUSTER, CLUSTER_NAME, "User:ada may not CREATE the cluster"),
        (Resource.TOPIC, CLUSTER_NAME, f"User:ada may not CREATE topic {CLUSTER_NAME}"),
        (Resource.TRANSACTIONAL_ID, "x", "User:ada may not CREATE transactional id x"),
    ],
)
def test_what_it_is_about(resource: Resource, name: str, head: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(Session(), capsys, Operation.CREATE, resource, name)[0] == head


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        ({}, ["User:ada may not READ topic t", "  no rule allows it"]),
        ({"super_users": "User:ada"}, ["User:ada may READ topic t", "  it is in super.users"]),
        ({"super_users": "User:bob;User:ada"}, ["User:ada may READ topic t", "  it is in super.users"]),
        ({"super_users": None}, ["User:ada may not READ topic t", "  no rule allows it"]),
        (
            {"allow_everyone_if_no_acl_found": "TRUE"},
            ["User:ada may READ topic t", "  no rule is about it, and allow.everyone.if.no.acl.found is true"],
        ),
        ({"allow_everyone_if_no_acl_found": "false"}, ["User:ada may not READ topic t", "  no rule allows it"]),
        (
            {"penstock_authorizer_mode": "watch"},
            [
                "User:ada may not READ topic t",
                "  no rule allows it",
                "penstock.authorizer.mode is watch: nothing is refused",
            ],
        ),
        ({"penstock_authorizer_mode": "enforce"}, ["User:ada may not READ topic t", "  no rule allows it"]),
    ],
)
def test_keys_of_the_first_broker(keys: dict[str, Any], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(**keys)
    assert said(session, capsys) == lines
    assert session.asked == ["3"]


UNKNOWN = "super.users and allow.everyone.if.no.acl.found are not known, and taken for empty and false: "


def test_keys_that_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(super_users="User:ada")
    for error, why in (
        (KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "CLUSTER_AUTHORIZATION_FAILED"),
        (KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you"), "not you"),
    ):
        session.refusal = error
        assert said(session, capsys)[2:] == [f"{UNKNOWN}{why}"]
    controllers = Session(super_users="User:ada", of_controllers=True)
    words = "controllers do not tell their configuration: ask with --bootstrap-server"
    assert said(controllers, capsys)[2:] == [f"{UNKNOWN}{words}"]
    assert controllers.asked == []


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    question = Question("User:ada", Operation.READ, Resource.TOPIC, "t", NOWHERE)
    explained.explained(cast("Any", Session(READS)), question, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "allowed": True, "reason": shown_rule(READS), "nearest": [], "notes": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("permission", "words"),
    [(Permission.ALLOW, "may"), (Permission.DENY, "may not"), (9, "9"), (Permission.ANY, "ANY")],
)
def test_a_rule_in_a_line(permission: int, words: str) -> None:
    rule = READS._replace(permission_type=permission, pattern_type=PatternType.PREFIXED, host="h")
    assert shown_rule(rule) == f"User:ada {words} READ TOPIC t (PREFIXED) from h"


# -- what is asked first ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "question", "requests"),
    [
        (("acls", "--remove", "--topic", "t"), "Remove these rules?", ["DescribeAclsRequest", "DeleteAclsRequest"]),
        (
            ("users", "--remove", "--user", "ada", "--mechanism", "scram-sha-256"),
            "Remove the user ada?",
            ["AlterUserScramCredentialsRequest"],
        ),
    ],
)
@pytest.mark.parametrize("answer", ["y", "n", ""])
def test_nothing_goes_without_a_yes(words: tuple[str, ...], question: str, requests: list[str], answer: str) -> None:
    cluster = Reached()
    with served_in_a_thread(cast("FakeCluster", cluster)) as broker:
        result = CliRunner().invoke(main, [*words, "--bootstrap-server", str(broker.address)], input=f"{answer}\n")
        names = [type(it).__name__ for _, it in broker.requests]
    asked = [name for name in names if name in ("DescribeAclsRequest", "DeleteAclsRequest") or "Scram" in name]
    assert f"{question} [y/N]: {answer}" in result.output
    assert asked == (requests if answer == "y" else requests[:-1])
    assert result.exit_code == (0 if answer == "y" else 1)
