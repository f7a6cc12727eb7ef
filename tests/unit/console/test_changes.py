"""The command that a page shows is one that the command line takes."""

import shlex
from typing import Any

import click
import pytest

from penstock.cli.main import COMMANDS, main
from penstock.client.settings import ClientSettings
from penstock.console.changes import CHANGES, Changes
from penstock.console.errors import ConsoleError
from penstock.console.watched import WatchedCluster

ASKED: dict[str, dict[str, Any]] = {
    "create-topic": {"topic": "it's; rm -rf /", "partitions": "3", "configs": {"retention.ms": "1"}},
    "delete-topic": {"topic": "clicks"},
    "alter-config": {"topic": "clicks", "key_name": "cleanup.policy", "value_of_key": "compact,delete"},
    "produce": {"topic": "clicks", "key": "a", "value": "$(reboot)", "headers": {"h": "1"}},
    "reset-offsets": {"group": "$HOME `x`", "topic": "clicks", "to": "time", "at": "1700000000000"},
    "delete-group": {"group": "reports"},
    "elect-leader": {"topic": "clicks", "partition": "2"},
}


@pytest.fixture
def changes() -> Changes:
    return Changes(WatchedCluster("127.0.0.1:9", ClientSettings()), {})


@pytest.mark.parametrize("action", CHANGES)
def test_the_command_line_takes_it(changes: Changes, action: str) -> None:
    line = changes.preview({"action": action, **ASKED[action]})["command"]
    words = shlex.split(line.partition(" | ")[2] or line)
    assert words[0] == "penstock"
    assert words[1] in COMMANDS
    command = main.get_command(click.Context(main), words[1])
    assert command is not None
    command.make_context(words[1], words[2:])  # UsageError for what it does not take


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
    ],
)
def test_nonsense_is_refused_in_words(changes: Changes, asked: dict[str, Any]) -> None:
    with pytest.raises(ConsoleError):
        changes.preview(asked)
