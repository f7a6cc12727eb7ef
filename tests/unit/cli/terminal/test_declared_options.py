"""Commands whose parameters declare their options, and what their functions are given."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.options import JSON, actions, argument, declared, option
from penstock.protocol.value import Value

LEVELS: Any = {"low": option("The least.", "--low"), "high": option("The most.", "--high", min=1)}
STATES: Any = [option("Rest.", "--paused", flag_value="P"), option("End.", "--stopped", flag_value="S")]


class Where(Value):
    """A place."""

    topic: str | None = option("The topic.")
    offsets: tuple[int, ...] = option("An offset.", "--offset", min=0)


class Wanted(Value, kw_only=True):
    """What is wanted, and where."""

    where: Where
    state: str | None = STATES


given: list[dict[str, Any]] = []


@click.command()
@declared
def command(
    *,
    action: str = actions(list="List.", delete_all="Delete."),
    wanted: Wanted,
    levels: dict[str, int | None] = LEVELS,
    share: float = option("A share.", min=0.0, max=1.0, default=0.5),
    all_: bool = option("All."),
    as_json: bool = JSON,
    file: Path | None = argument(required=False, exists=False),
) -> None:
    """Say what was given."""
    given[:] = [dict(locals())]


def run(arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, arguments.split())
    assert result.exit_code == 0, result.output
    return given[0]


def test_the_function_gets_what_its_parameters_declare() -> None:
    assert run("--list") == {
        "action": "list",
        "wanted": Wanted(where=Where(None, ()), state=None),
        "levels": {"low": None, "high": None},
        "share": 0.5,
        "all_": False,
        "as_json": False,
        "file": None,
    }
    said = run("--delete-all --topic t --offset 1 --offset 2 --stopped --high 3 --share 1 --all --json x")
    assert said == {
        "action": "delete-all",
        "wanted": Wanted(where=Where("t", (1, 2)), state="S"),
        "levels": {"low": None, "high": 3},
        "share": 1.0,
        "all_": True,
        "as_json": True,
        "file": Path("x"),
    }


def test_options_come_in_the_order_of_the_parameters() -> None:
    names = [parameter.opts[0] for parameter in command.params]
    head = ["--list", "--delete-all", "--topic", "--offset", "--paused", "--stopped", "--low", "--high"]
    assert names == [*head, "--share", "--all", "--json", "file"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("", "give exactly one of --list, --delete-all"),
        ("--list --delete-all", "given are 2"),
        ("--list --offset -1", "is not in the range x>=0"),
        ("--list --offset x", "is not a valid integer"),
        ("--list --share 2", "is not in the range 0.0<=x<=1.0"),
    ],
)
def test_what_does_not_go_is_refused(arguments: str, complaint: str) -> None:
    result = CliRunner().invoke(command, arguments.split())
    assert result.exit_code == 2
    assert complaint in result.output


def test_a_file_has_to_be_there_unless_it_is_said(tmp_path: Path) -> None:
    @click.command()
    @declared
    def reading(file: Path = argument()) -> None:
        """Read FILE."""

    assert CliRunner().invoke(reading, [str(tmp_path / "x")]).exit_code == 2
    assert CliRunner().invoke(reading, [__file__]).exit_code == 0


def test_errors_end_a_command_in_their_own_words() -> None:
    with pytest.raises(click.ClickException, match=r"^a file: no number$"), in_words(ValueError, before="a file: "):
        raise ValueError("no number")
    with pytest.raises(click.UsageError, match=r"^--offset: no number$"), wrong_usage(ValueError, of="--offset"):
        raise ValueError("no number")
    with pytest.raises(KeyError), in_words(ValueError):
        raise KeyError
