"""A package that is not installed is named, with what brings it."""

import importlib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.stand_in import stand_in

from penstock.cli.main import main
from penstock.cli.terminal.extras import CURES, cure

ROOT = Path(__file__).parents[4]


def packages(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[\[<>=;]", one.strip("'"))[0] for one in requirements} - {"penstock"}


def test_each_package_of_an_extra_is_known() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {package for extra in extras.values() for package in packages(extra)}
    assert packages(CURES.values()) | {"pyspark"} == wanted


@pytest.mark.parametrize(("name", "package"), [("fastavro", "fastavro"), ("google.protobuf", "protobuf")])
def test_what_a_command_misses_is_said(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    def imported(_: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("penstock.cli.main.importlib", stand_in(importlib, import_module=imported))
    said = CliRunner().invoke(main, ["offsets"])
    assert said.exit_code == 1
    assert said.output == f"Error: No module named '{name}', which this needs: pip install {package}\n"


def test_a_module_of_our_own_that_is_missing_is_a_defect() -> None:
    assert cure(ModuleNotFoundError("No module named 'penstock.nothing'", name="penstock.nothing")) is None
