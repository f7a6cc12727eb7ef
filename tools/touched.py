"""Which functions each test calls, and how long it takes: a plugin of pytest, for `mutants.py`."""

import ast
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

Function = tuple[str, int]
"""The path of a file, and the line at which a function begins in it."""


class Touched:
    """What was seen of all tests. Modules that are not `of_project` are noted as well, to be imported beforehand."""

    def __init__(self, of_project: tuple[str, ...]) -> None:
        self._of_project = of_project
        self._by_function: dict[Function, list[str]] = {}
        self._took_s: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch the calls of one test, with what it is given."""
        seen: set[CodeType] = set()

        def watch(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                seen.add(frame.f_code)

        begun = time.process_time()
        threading.setprofile(watch)
        sys.setprofile(watch)
        yield
        sys.setprofile(None)
        threading.setprofile(None)
        self._took_s[item.nodeid] = time.process_time() - begun
        for code in seen:
            self._by_function.setdefault((code.co_filename, code.co_firstlineno), []).append(item.nodeid)

    def write(self, path: Path) -> None:
        """Write down what was seen, for `Tests`."""
        modules = [name for name in sys.modules if name.split(".")[0] not in self._of_project]
        functions = [(*function, tests) for function, tests in self._by_function.items()]
        seen = {"took_s": self._took_s, "failed": sorted(self._failed), "functions": functions, "modules": modules}
        path.write_text(json.dumps(seen))


class Tests:
    """Which tests to ask about a line of the code, the quickest first: none that `failed` as they were watched."""

    def __init__(self, path: Path) -> None:
        seen = json.loads(path.read_text())
        self.modules: list[str] = seen["modules"]
        self.failed: list[str] = seen["failed"]
        self.took_s: dict[str, float] = {name: took for name, took in seen["took_s"].items() if name not in self.failed}
        self._by_function: dict[Function, list[str]] = {
            (file, line): [name for name in tests if name in self.took_s] for file, line, tests in seen["functions"]
        }

    def of(self, path: Path, line: int) -> list[str]:
        """The tests that call the function in which the line lies; none when it lies in no function."""
        for node in ast.walk(ast.parse(path.read_text())):  # from outside to inside
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (
                node.end_lineno or 0
            ):
                begins = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return sorted(self._by_function.get((str(path), begins), ()), key=self.took_s.__getitem__)
        return []
