"""The transcript of two-level work: five tasks, three workers that come and go."""

from pathlib import Path

from click.testing import CliRunner

from penstock.cli.main import main

EXPECTED = Path(__file__).with_name("two_level.txt").read_text(encoding="utf-8")


def test_in_memory() -> None:
    assert CliRunner().invoke(main, ["demo", "two-level"]).stdout == EXPECTED


def test_over_a_node() -> None:
    """Who has not joined is not told, and each generation is whole before the next begins."""
    told = [line for line in EXPECTED.splitlines() if not line.endswith("[]")]
    expected = sorted(told, key=lambda line: (line.split("]")[0], "worker" in line))
    assert CliRunner().invoke(main, ["demo", "two-level", "--over-wire"]).stdout.splitlines() == expected
