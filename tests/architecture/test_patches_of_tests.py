"""No test changes a module of the standard library for all who use it: tests before it in this process may have left
tasks and threads that sleep and write as well. It gives the module under test a stand-in (`tests/stand_in.py`).
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
OF_THE_PROCESS = {"sys"}
"""Arguments and streams, which a command has nowhere else."""


def changed(tree: ast.Module) -> Iterator[int]:
    """Lines that change such a module."""
    imports = [alias for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names]
    modules = {alias.asname or alias.name: alias.name for alias in imports}
    for one in ast.walk(tree):
        if isinstance(one, ast.Call) and ast.unparse(one.func).rpartition(".")[2] == "setattr" and one.args:
            target = one.args[0]
            is_told = isinstance(target, ast.Constant)
            of = str(target.value).rpartition(".")[0] if isinstance(target, ast.Constant) else ast.unparse(target)
            before, _, last = of.rpartition(".")
            is_module = bool(before) or is_told or last in modules
            if is_module and is_of_all(modules.get(last, last)):
                yield one.lineno


def is_of_all(name: str) -> bool:
    return name in sys.stdlib_module_names and name not in OF_THE_PROCESS


def test_no_module_is_changed_for_all() -> None:
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if "setattr(" in text and (lines := sorted(set(changed(ast.parse(text))))):
            found[str(path.relative_to(TESTS))] = lines
    assert found == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('import asyncio\nmonkeypatch.setattr(asyncio, "sleep", sleep)', [2]),
        ('import os as system\npatched.setattr(system, "fsync", sleep)', [2]),
        ('import ssl\nmonkeypatch.setattr(ssl.SSLContext, "wrap", sleep)', []),
        ('import asyncio\nmonkeypatch.setattr(asyncio.get_running_loop(), "time", sleep)', []),
        ('monkeypatch.setattr(log, "time", sleep)', []),
        ('from penstock.log import disk\nmonkeypatch.setattr(disk.os, "fsync", sleep)', [2]),
        ('monkeypatch.setattr("time.sleep", sleep)', [1]),
        ('monkeypatch.setattr("penstock.log.disk.os.fsync", sleep)', [1]),
        ('monkeypatch.setattr("penstock.log.disk.os", sleep)', []),
        ('import asyncio\nmonkeypatch.setattr(module, "asyncio", stand_in(asyncio, sleep=sleep))', []),
        ('import sys\nmonkeypatch.setattr(sys, "argv", [])', []),
    ],
)
def test_one_that_is_changed_is_found(text: str, lines: list[int]) -> None:
    assert list(changed(ast.parse(text))) == lines
