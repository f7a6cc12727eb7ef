import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from penstock import __version__
from penstock.cli.main import COMMANDS, main
from penstock.cli.terminal.shipped import commit

PROBE = """
import sys
from penstock.cli.main import main
main(sys.argv[1:], standalone_mode=False)
print("modules:", *sorted(name for name in sys.modules if name.startswith(("penstock", "rich", "asyncio"))))
"""


def modules_after(*arguments: str) -> list[str]:
    """The modules of ours, and some heavy ones, that a command leaves behind in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.rpartition("modules: ")[2].split()


def test_the_help_lists_every_command() -> None:
    result = CliRunner().invoke(main, ["--help"], prog_name="penstock")
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    for name, (_, summary) in COMMANDS.items():
        assert f"{name} {summary}" in text


def test_the_help_imports_no_command() -> None:
    assert modules_after("--help") == ["penstock", "penstock.cli", "penstock.cli.main"]


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(main, ["--version"], prog_name="penstock")
    assert result.output.split()[:2] == ["penstock", __version__]


def test_the_version_in_a_checkout_names_the_commit() -> None:
    made_of = commit()
    assert made_of is None or re.fullmatch(r"[0-9a-f]{12,}(-dirty)?", made_of)
    said = CliRunner().invoke(main, ["--version"], prog_name="penstock").output
    assert said == f"penstock {__version__}" + (f" (commit {made_of})\n" if made_of else "\n")


@pytest.mark.parametrize("arguments", [["topcs"], ["--colour"]])
def test_what_does_not_exist_is_one_line_and_an_exit_code(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments, prog_name="penstock")
    assert result.exit_code == 2
    assert "No such" in result.output


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"], prog_name="penstock")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: penstock {name}")


def test_starting_imports_neither_the_client_nor_what_draws_tables() -> None:
    modules = modules_after("start", "--help")
    assert not [name for name in modules if name.startswith(("rich", "penstock.client", "penstock.pipeline"))]
    ours = ["penstock.cli.main", "penstock.cli.start", "penstock.cli.terminal", "penstock.cli.terminal.lines"]
    assert [name for name in modules if name.startswith("penstock.cli.")] == ours
