"""`penstock acls` and librdkafka's admin client make, show and remove access rules, which other clients then feel."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException, Producer, admin

from penstock.cli.main import main
from penstock.metadata.access_rules import AccessRules
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.node.serving.access import READ_TOPIC, audit_log
from penstock.node.serving.audit import Audit
from penstock.node.serving.session import Principal, Session
from penstock.protocol.requests.api import ApiKey
from penstock.testing import Cluster

KAFKA: Any = admin
"""Its types leave out what it has of access rules."""
ADA = ("--allow-principal", "User:ada")


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with Cluster(config=settings) as cluster:
        yield cluster


def penstock(node: Cluster, *arguments: str, exit_code: int = 0, answer: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["acls", *arguments, "--bootstrap-server", node.bootstrap_servers], input=answer)
    assert result.exit_code == exit_code, result.output
    return result


def rules(node: Cluster, *arguments: str) -> list[str]:
    """What is shown, a line for each rule."""
    rows: Any = json.loads(penstock(node, "--list", "--json", *arguments).stdout)
    return [" ".join(map(str, row.values())) for row in rows]


def test_rules_are_made_shown_and_removed(node: Cluster) -> None:
    penstock(node, "--add", "--cluster", "--allow-principal", "User:ANONYMOUS")
    assert "made: 3" in penstock(node, "--add", "--producer", "--topic", "flights", *ADA).stdout
    every = ("--resource-pattern-type", "prefixed", "--allow-host", "10.0.0.0/8")
    penstock(node, "--add", "--consumer", "--topic", "fl", "--group", "readers", *ADA, *every)
    penstock(node, "--add", "--producer", "--topic", "*", "--transactional-id", "pay", "--idempotent", *ADA)
    denied = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "read")
    penstock(node, "--add", "--topic", "flights", "--topic", "flights", "--group", "g", *denied)
    about_flights = rules(node, "--topic", "flights", "--resource-pattern-type", "match")
    assert about_flights == [
        *(f"TOPIC * LITERAL User:ada * {it} ALLOW" for it in ("WRITE", "CREATE", "DESCRIBE")),
        *(f"TOPIC fl PREFIXED User:ada 10.0.0.0/8 {it} ALLOW" for it in ("READ", "DESCRIBE")),
        *(f"TOPIC flights LITERAL User:ada * {it} ALLOW" for it in ("WRITE", "CREATE", "DESCRIBE")),
        "TOPIC flights LITERAL User:bob 10.0.0.1 READ DENY",
    ]
    assert rules(node, "--cluster") == [
        "CLUSTER kafka-cluster LITERAL User:ANONYMOUS * ALL ALLOW",
        "CLUSTER kafka-cluster LITERAL User:ada * IDEMPOTENT_WRITE ALLOW",
    ]
    assert rules(node, "--transactional-id", "pay") == [
        f"TRANSACTIONAL_ID pay LITERAL User:ada * {it} ALLOW" for it in ("WRITE", "DESCRIBE")
    ]
    assert rules(node, "--principal", "User:bob", "--group", "g") == ["GROUP g LITERAL User:bob 10.0.0.1 READ DENY"]

    penstock(node, "--remove", "--topic", "flights", answer="n\n", exit_code=1)
    assert len(rules(node, "--topic", "flights")) == 4
    assert "removed: 4" in penstock(node, "--remove", "--topic", "flights", answer="y\n").stdout
    assert "no such rule" in penstock(node, "--remove", "--topic", "flights").stdout
    penstock(node, "--remove", "--force", "--topic", "*", *ADA, "--operation", "Create")
    assert rules(node, "--topic", "*") == [f"TOPIC * LITERAL User:ada * {it} ALLOW" for it in ("WRITE", "DESCRIBE")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--add", "--list"], "give exactly one of"),
        (["--add", "--topic", "t"], "a rule is about somebody"),
        (["--add", *ADA], "say what the rules are about"),
        (["--add", "--topic", "t", "--allow-principal", "ada"], "as in User:ada"),
        (["--add", "--topic", "t", "--allow-host", "10.0.0.1"], "a host to allow needs a principal"),
        (["--add", "--topic", "t", *ADA, "--resource-pattern-type", "match"], "literal or prefixed"),
        (["--add", "--producer", *ADA], "--producer needs a --topic"),
        (["--add", "--topic", "t", "--idempotent", *ADA], "--idempotent is for --producer"),
        (["--add", "--producer", "--topic", "t", "--operation", "Read", *ADA], "say the operations"),
        (["--add", "--consumer", "--topic", "t", *ADA], "--consumer needs a --topic and a --group"),
        (["--add", "--consumer", "--topic", "t", "--group", "g", "--cluster", *ADA], "not about --cluster"),
        (["--add", "--topic", "t", *ADA, "--principal", "User:ada"], "--principal is for --list and --explain"),
        (["--list", *ADA], "--list takes no principals"),
        (["--remove", "--topic", "t", "--json"], "give --force as well"),
    ],
)
def test_what_does_not_go_together_is_told(node: Cluster, arguments: list[str], words: str) -> None:
    assert words in penstock(node, *arguments, exit_code=2).stderr


def test_rules_are_kept_in_a_file_suggested_and_explained(node: Cluster, tmp_path: Path) -> None:
    log, file = tmp_path / "audit.log", tmp_path / "rules.toml"
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "eve"))
    lines = logging.StreamHandler(io.StringIO())
    audit_log.addHandler(lines)
    Audit(AccessRules(), lambda: 0.0, lambda *_: None).denied(session, READ_TOPIC, "gates", ApiKey.FETCH)
    audit_log.removeHandler(lines)
    log.write_text(lines.stream.getvalue())

    def explained(*arguments: str) -> list[str]:
        asked = ("--principal", "User:eve", "--operation", "Describe", "--topic", "gates")
        return penstock(node, "--explain", *asked, *arguments).stdout.splitlines()

    file.write_text('[[rule]]\nallow = "User:ANONYMOUS"\ncluster = true\n')
    penstock(node, "--apply", str(file), "--force")
    assert rules(node) == ["CLUSTER kafka-cluster LITERAL User:ANONYMOUS * ALL ALLOW"], "and none of other tests"
    penstock(node, "--add", "--topic", "gates", "--allow-principal", "User:dan", "--operation", "Write")
    assert explained() == [
        "User:eve may not DESCRIBE topic gates",
        "  no rule allows it",
        "  the nearest that allow something:",
        "  User:dan may WRITE TOPIC gates (LITERAL) from *",
        "    but it is for User:dan",
    ]
    before = rules(node)
    suggested = penstock(node, "--suggest", str(log))
    assert suggested.stderr == "rules that are missing: 1\n"
    file.write_text(suggested.stdout)
    assert penstock(node, "--plan", str(file)).stdout.splitlines() == [
        "+ User:eve may READ TOPIC gates (LITERAL) from *",
        "to make: 1, to remove: 0",
    ]
    assert rules(node) == before
    penstock(node, "--apply", str(file), answer="n\n", exit_code=1)
    assert rules(node) == before
    assert "made: 1, removed: 0" in penstock(node, "--apply", str(file), answer="y\n").stdout
    assert penstock(node, "--apply", str(file)).stdout == "the cluster has these rules, and no others\n"
    assert explained("--host", "10.9.9.9") == [
        "User:eve may DESCRIBE topic gates from 10.9.9.9",
        "  a rule allows it: User:eve may READ TOPIC gates (LITERAL) from *",
    ]
    assert "rules that are missing: 0" in penstock(node, "--suggest", str(log)).stderr
    penstock(node, "--add", "--topic", "other", "--allow-principal", "User:eve")
    assert "made: 0, removed: 1" in penstock(node, "--apply", str(file), "--force").stdout


def test_other_clients_see_rules_and_feel_them(node: Cluster) -> None:
    servers = {"bootstrap.servers": node.bootstrap_servers}
    client = KAFKA.AdminClient(servers)
    for topic in ("secrets", "*"):
        penstock(node, "--add", "--topic", topic, *ADA)
    about = KAFKA.AclBindingFilter(
        *(KAFKA.ResourceType.TOPIC, "secrets", KAFKA.ResourcePatternType.MATCH, None, None),
        *(KAFKA.AclOperation.ANY, KAFKA.AclPermissionType.ALLOW),
    )
    found = client.describe_acls(about).result(30)
    assert {(rule.name, rule.principal) for rule in found} == {("*", "User:ada"), ("secrets", "User:ada")}
    failures: list[Any] = []
    producer = Producer(servers | {"message.timeout.ms": 20_000})
    producer.produce("secrets", b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(30)
    assert "TOPIC_AUTHORIZATION_FAILED" in failures[0].name()
    (removed,) = client.delete_acls([about]).values()
    assert {rule.name for rule in removed.result(30)} == {"*", "secrets"}
    other = KAFKA.AclBinding(
        *(KAFKA.ResourceType.BROKER, "other", KAFKA.ResourcePatternType.LITERAL, "User:ada", "*"),
        *(KAFKA.AclOperation.ALTER, KAFKA.AclPermissionType.ALLOW),
    )
    (refused,) = client.create_acls([other]).values()
    with pytest.raises(KafkaException, match="kafka-cluster"):
        refused.result(30)
    assert rules(node, "--topic", "secrets", "--resource-pattern-type", "match") == []


def test_topics_are_described_to_who_has_no_right_on_the_cluster() -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with Cluster(config=settings) as node:
        where = ("--bootstrap-server", node.bootstrap_servers)
        assert CliRunner().invoke(main, ["topics", "--create", "--topic", "flights", *where]).exit_code == 0
        penstock(node, "--add", "--cluster", "--deny-principal", "User:ANONYMOUS", "--operation", "describe")
        described = CliRunner().invoke(main, ["topics", "--describe", "--topic", "flights", *where])
        assert (described.exit_code, "flights" in described.stdout) == (0, True), described.output
