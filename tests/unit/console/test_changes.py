"""The command that a page shows is one that the command line takes."""

import json
import logging
import shlex
from typing import Any

import click
import pytest
from tests.wire.schema_registry import served

from penstock.cli.main import COMMANDS, main
from penstock.client.settings import ClientSettings
from penstock.console.asked import Means
from penstock.console.changes import CHANGES, Changes
from penstock.console.errors import ConsoleError
from penstock.console.schemas import SchemaRegistry
from penstock.console.watched import WatchedCluster

ASKED: dict[str, dict[str, Any]] = {
    "create-topic": {"topic": "it's; rm -rf /", "partitions": "3", "configs": {"retention.ms": "1"}},
    "delete-topic": {"topic": "clicks"},
    "alter-config": {"topic": "clicks", "key_name": "cleanup.policy", "value_of_key": "compact,delete"},
    "produce": {"topic": "clicks", "key": "a", "value": "$(reboot)", "headers": {"h": "1"}},
    "register-schema": {"subject": "it's; rm -rf /", "kind": "AVRO", "schema": '"$(reboot)"'},
    "reset-offsets": {"group": "$HOME `x`", "topic": "clicks", "to": "time", "at": "1700000000000"},
    "delete-group": {"group": "reports"},
    "elect-leader": {"topic": "clicks", "partition": "2"},
    "add-acl": {
        "resource": "TOPIC",
        "name": "it's; rm -rf /",
        "pattern": "PREFIXED",
        "principal": "User:$HOME",
        "host": "*",
        "operation": "DESCRIBE_CONFIGS",
        "permission": "ALLOW",
    },
    "delete-acl": {
        "resource": "CLUSTER",
        "principal": "User:ada",
        "host": "10.0.0.0/8",
        "operation": "ALL",
        "permission": "DENY",
    },
    "set-password": {"user": "$(reboot)", "password": "lovelace"},
    "remove-user": {"user": "ada"},
    "alter-quotas": {
        "user": "<default>",
        "client": "it's",
        "quotas": {"producer_byte_rate": "1e7", "request_percentage": ""},
    },
}


@pytest.fixture
def changes() -> Changes:
    schemas = SchemaRegistry("http://ada:secret@127.0.0.1:9")
    return Changes(Means(WatchedCluster("127.0.0.1:9", ClientSettings()), {}, schemas))


@pytest.mark.parametrize("action", CHANGES)
def test_the_command_line_takes_it(changes: Changes, action: str) -> None:
    line = changes.preview({"action": action, **ASKED[action]})["command"]
    words = shlex.split(line.partition(" | ")[2] or line)
    assert words[0] == "penstock"
    assert words[1] in COMMANDS
    command = main.get_command(click.Context(main), words[1])
    assert command is not None
    command.make_context(words[1], words[2:])  # UsageError for what it does not take


def test_a_password_is_in_no_command_and_no_log(changes: Changes) -> None:
    line = changes.preview({"action": "set-password", "user": "ada", "password": "lovelace"})["command"]
    assert line.startswith("penstock users --set-password --user ada --mechanism SCRAM-SHA-512")
    assert "lovelace" not in line


def test_what_rules_and_quotas_become(changes: Changes) -> None:
    line = changes.preview({"action": "add-acl", **ASKED["add-acl"]})["command"]
    assert shlex.split(line)[1:12] == [
        *("acls", "--add", "--allow-principal", "User:$HOME", "--allow-host", "*", "--operation", "DescribeConfigs"),
        *("--topic", "it's; rm -rf /", "--resource-pattern-type"),
    ]
    line = changes.preview({"action": "alter-quotas", **ASKED["alter-quotas"]})["command"]
    assert shlex.split(line)[1:12] == [
        *("configs", "--alter", "--entity-type", "users", "--entity-default", "--entity-type", "clients"),
        *("--entity-name", "it's", "--add-config", "producer_byte_rate=10000000"),
    ]


def test_a_record_by_a_schema_names_its_registry_without_the_password(changes: Changes) -> None:
    asked = {"action": "produce", **ASKED["produce"], "value_schema": "clicks-value"}
    line = changes.preview(asked)["command"]
    assert "--schema-registry http://127.0.0.1:9 --value-schema clicks-value" in line
    assert "secret" not in line


def test_a_schema_is_what_the_command_reads_and_no_broker_is_asked(changes: Changes) -> None:
    line = changes.preview({"action": "register-schema", **ASKED["register-schema"]})["command"]
    assert shlex.split(line)[:4] == ["printf", "%s\\n", '"$(reboot)"', "|"]
    assert "bootstrap" not in line
    assert line.endswith("--type AVRO --schema-registry http://127.0.0.1:9")
    with pytest.raises(ConsoleError, match="kind is one of AVRO, JSON, PROTOBUF"):
        changes.preview({"action": "register-schema", **ASKED["register-schema"], "kind": "XML"})


async def test_a_schema_that_was_registered_is_in_the_audit_log_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.console.audit")
    with served() as registry:
        means = Means(WatchedCluster("127.0.0.1:9", ClientSettings()), {}, SchemaRegistry(registry.url))
        asked = {"action": "register-schema", "subject": "orders", "schema": '"long"'}
        assert await Changes(means).apply(asked, "ada") == {"done": "schema 100000 is version 1 of orders"}
        registry.incompatible.add("orders")
        with pytest.raises(ConsoleError, match="does not fit"):
            await Changes(means).apply({**asked, "schema": '"int"'}, "ada")
        means.schemas.close()
    told = [json.loads(record.getMessage()) for record in caplog.records]
    assert told == [
        {"who": "ada", "outcome": outcome, "action": "register-schema", "subject": "orders"}
        for outcome in ("done", "failed")
    ]


def test_a_record_stands_in_the_line_as_it_is_read(changes: Changes) -> None:
    line = changes.preview({"action": "produce", **ASKED["produce"]})["command"]
    assert shlex.split(line)[:3] == ["printf", "%s\\n", "h:1\ta\t$(reboot)"]


@pytest.mark.parametrize("action", [action for action, change in CHANGES.items() if change.dangerous])
async def test_what_destroys_wants_the_name_typed(changes: Changes, action: str) -> None:
    for typed in ({}, {"typed": "something"}, {"typed": True}):
        with pytest.raises(ConsoleError, match="to confirm"):
            await changes.apply({"action": action, **ASKED[action], **typed}, "me")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"action": ["delete-topic"]},
        {"action": "delete-topic", "topic": ""},
        {"action": "delete-topic", "topic": {"$ne": 1}},
        {"action": "create-topic", "topic": "a", "partitions": 3},
        {"action": "create-topic", "topic": "a", "partitions": "-3"},
        {"action": "create-topic", "topic": "a", "configs": {"a": 1}},
        {"action": "reset-offsets", "group": "a", "topic": "b", "to": "nowhere"},
        {"action": "reset-offsets", "group": "a", "topic": "b", "to": "offset", "at": "9" * 30},
        {"action": "elect-leader", "topic": "a", "partition": -1},
        {"action": "produce", "topic": "a", "value": "x", "headers": [1]},
        {"action": "add-acl", **ASKED["add-acl"], "operation": "IDEMPOTENT_WRITE"},
        {"action": "add-acl", **ASKED["add-acl"], "operation": "ANY"},
        {"action": "add-acl", **ASKED["add-acl"], "pattern": "MATCH"},
        {"action": "add-acl", **ASKED["add-acl"], "principal": "ada"},
        {"action": "add-acl", **ASKED["add-acl"], "resource": ["TOPIC"]},
        {"action": "set-password", "user": "ada"},
        {"action": "set-password", "user": "ada", "password": "x", "mechanism": "PLAIN"},
        {"action": "alter-quotas", "quotas": {"producer_byte_rate": "1"}},
        {"action": "alter-quotas", "user": "a", "ip": "b", "quotas": {"producer_byte_rate": "1"}},
        {"action": "alter-quotas", "user": "a", "quotas": {}},
        {"action": "alter-quotas", "user": "a", "quotas": {"producer_byte_rate": "nan"}},
        {"action": "alter-quotas", "user": "a", "quotas": {"producer_byte_rate": "-1"}},
        {"action": "alter-quotas", "user": ["a"], "quotas": {"producer_byte_rate": "1"}},
    ],
)
def test_nonsense_is_refused_in_words(changes: Changes, asked: dict[str, Any]) -> None:
    with pytest.raises(ConsoleError):
        changes.preview(asked)
