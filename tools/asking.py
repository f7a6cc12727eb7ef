"""Asks tests about bugs, each in a forked child: for `mutants.py` and `planted.py`.

What is imported, and which tests there are, is found out once. Then all tests run once in a child, in which the lines
where a bug will be planted tell that they ran (with a file that keeps it: all lines of these files, for other draws
over the same code); and each bug is asked of the tests that run its line. Its child gives the functions that live the
changed code. What ran already when modules were imported (constants, bodies of classes, tables) is asked in a child
that forgets all modules and imports them anew.
"""

import ast
import builtins
import gc
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Protocol
from zlib import crc32

import pytest
from tools.children import NO_VERDICT, NOTICED, SURVIVES, verdict_of
from tools.other_code import RAN, CannotSwapError, OtherCode, functions_of, swap, tellers, telling
from tools.planter import ROOT, SOURCE

OPTIONS = ("-q", "-s", "-p", "no:cacheprovider", "--assert=plain")
"""Plain assertions: pytest would rewrite those of a package that brings a plugin, and read its modules itself."""

NEVER_RUN, NOT_ALL = "no test runs it", "not asked fully"
"""The second: no test that was asked noticed it, and others that run its line were left, as the CPU time was over."""
SAME = "makes no difference"
SURVIVORS = (SURVIVES, NEVER_RUN, NO_VERDICT, NOT_ALL)

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_OF_TABLES = (
    "docs/test_derived_pages.py",
    *(f"golden/test_{it}.py" for it in ("settings", "handlers", "metadata_words", "tables")),
)
TABLES = tuple(ROOT / "tests" / name for name in _OF_TABLES)
"""Tests that compare tables, which were made when modules were imported: no line tells that they read one."""

ANEW = "anew"
DAY_S = 24 * 3600
MOST_BREAKING = 200

ASKED_CPU_S = 30
"""A bug is asked of so much of the tests that run its line: those of its package first, and the quickest first."""

CPU_FACTOR = 2
CPU_MORE_S = 5
IMPORTS_CPU_S = 25
"""A child may use so many times the CPU time that its tests took when they were watched, and so much more. That for
imports counts where it imports everything anew."""


class Bug(Protocol):
    """Changed code of one file."""

    @property
    def path(self) -> Path: ...

    def tree(self) -> ast.Module: ...


class BugOnLine(Bug, Protocol):
    @property
    def line(self) -> int: ...


def run_tests(tests: Sequence[str], bug: Bug | None, cpu_s: int) -> str:
    """What tests say of a bug when everything is imported anew."""

    def work() -> int:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("penstock", "tests")]:
            del sys.modules[name]  # who asks may have imported what is to be planted
        if bug is not None:
            sys.meta_path.insert(0, OtherCode({bug.path: bug.tree()}))
        with tempfile.TemporaryDirectory() as directory:
            return int(pytest.main([*OPTIONS, "-x", f"--basetemp={directory}/tests", *tests]))

    return verdict_of(work, cpu_s)


@dataclass(slots=True)
class Asked:
    """A test, and what was seen when it ran without a bug."""

    item: pytest.Item
    took_s: float = 0.0
    ran: frozenset[int] = frozenset()
    """The numbers of the bugs whose lines it runs."""
    is_broken: bool = True
    """It fails without any bug, takes too long, or has not been seen to end."""


@dataclass(eq=False)
class Asker:
    """A plugin of pytest that runs no test itself: `judge` may ask those that were collected about `bugs`."""

    bugs: Sequence[BugOnLine]
    judge: Callable[["Asker"], None]
    longest_s: float = ASKED_CPU_S
    """A test that takes more CPU time is not asked."""
    most_s: float = ASKED_CPU_S
    """So much CPU time of tests is asked about a bug."""
    kept: Path | None = None
    """A file that keeps which tests run which lines of `files`."""
    files: Sequence[Path] = ()
    tests: list[Asked] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._ran: set[int] = set()
        self._failed = False
        self._told = Path()
        self._seen = Path()

    def collect(self, places: Sequence[str]) -> None:
        """Import these tests with all that they import, and let the judge begin."""
        setattr(builtins, RAN, self._ran.add)
        tells = {path: tellers(path) for path in sorted({*self.files, *(bug.path for bug in self.bugs)})}
        self._at = [(bug.path, tells[bug.path][bug.line]) for bug in self.bugs]
        lines = [(path, line) for path, of in tells.items() for line in sorted(set(of.values()))]
        self._lines = lines if self.files else list(dict.fromkeys(self._at))
        told: dict[Path, dict[int, int]] = {path: {} for path in tells}
        for number, (path, line) in enumerate(self._lines):
            told[path][number] = line
        self._code = OtherCode({path: telling(path, of) for path, of in told.items()})
        sys.meta_path.insert(0, self._code)
        with tempfile.TemporaryDirectory() as directory:
            self._told = Path(directory, "told")
            self._seen = self.kept or Path(directory, "seen")
            code = pytest.main([*OPTIONS, f"--basetemp={directory}/tests", *places], [self])
        if not self.tests:
            sys.exit(f"the tests cannot be collected ({code})")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.tests = [Asked(item) for item in session.items]
        self._at_import = self._bugs_of(self._by_file(self._ran))
        self._functions = functions_of(ROOT / "src")
        if not self._functions:
            sys.exit("no function of the source is to be found, so no bug could be planted")
        gc.freeze()  # children would copy what their collector touches
        self.judge(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def _by_file(self, numbers: Iterable[int]) -> dict[str, int]:
        """The lines of each file, as it is, as bits of a number."""
        found: dict[str, int] = {}
        for path, line in map(self._lines.__getitem__, numbers):
            found[_as_it_is(path)] = found.get(_as_it_is(path), 0) | 1 << line
        return found

    def _bugs_of(self, lines: Mapping[str, int]) -> frozenset[int]:
        at = ((number, lines.get(_as_it_is(path), 0), line) for number, (path, line) in enumerate(self._at))
        return frozenset(number for number, of_file, line in at if of_file >> line & 1)

    def watch(self, tests: Sequence[Asked]) -> None:
        """Run those without a bug that have not been seen. One that ends the child, or takes so long that it is ended,
        is broken, and the others go on in another child.
        """
        for _ in range(MOST_BREAKING):
            left = self._not_seen(tests)
            if not left:
                return
            verdict_of(partial(self._watched, left), DAY_S, DAY_S)
            if still_left := self._not_seen(left):
                self._note(still_left[0], 0.0, True, ())
        sys.exit(f"{MOST_BREAKING} tests ended their process; not seen: {self._not_seen(tests)[0].item.nodeid}")

    def _not_seen(self, tests: Sequence[Asked]) -> list[Asked]:
        """And what was seen of the others: of tests that have not changed, nor the files that they run."""
        seen = dict(map(json.loads, self._seen.read_text().splitlines())) if self._seen.exists() else {}
        left = []
        for test in tests:
            took_s, is_broken, ran = seen.get(_name(test), (0.0, True, {"": 0}))
            if all(file and file == _as_it_is(SOURCE / file.split()[0]) for file in ran):
                test.took_s, test.is_broken, test.ran = took_s, is_broken, self._bugs_of(ran)
            else:
                left.append(test)
        return left

    def _watched(self, tests: Sequence[Asked]) -> int:
        for at, test in enumerate(tests):
            self._ran.clear()
            signal.setitimer(signal.ITIMER_PROF, self.longest_s)
            begun = time.process_time()
            is_broken = self._fails(tests, at)
            self._note(test, time.process_time() - begun, is_broken, self._ran)
        return 0

    def _note(self, test: Asked, took_s: float, is_broken: bool, ran: Iterable[int]) -> None:
        row = [round(took_s, 6), is_broken, self._by_file(ran)]
        with self._seen.open("a") as seen:
            seen.write(json.dumps([_name(test), row]) + "\n")

    def _fails(self, tests: Sequence[Asked], at: int) -> bool:
        self._failed = False
        item, following = tests[at].item, tests[at + 1].item if at + 1 < len(tests) else None
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._failed

    def ask(self, number: int, tests: Sequence[Asked]) -> str:
        """What those of the tests say that run the line of a bug. One that fails without the bug, too, after the same
        tests as before, is broken and not asked any more.
        """
        while chosen := self._chosen(number, tests):
            begun = self._in_time(chosen)
            verdict, asked = self._verdict(self.bugs[number], begun, anew=number in self._at_import)
            if verdict != NOTICED or self._verdict(None, asked, anew=number in self._at_import)[0] == SURVIVES:
                return NOT_ALL if verdict == SURVIVES and len(begun) < len(chosen) else verdict
            asked[-1].is_broken = True
        return NEVER_RUN

    def _chosen(self, number: int, tests: Sequence[Asked]) -> list[Asked]:
        """Those near are asked about what runs on import, as any of them may be the one that imports it: those of the
        package, or of the closest one above it that has some; and those that compare tables.
        """
        bug = self.bugs[number]
        folder = ROOT / "tests" / "unit" / bug.path.relative_to(SOURCE).parent
        whole = [test for test in tests if not test.is_broken]
        found = {parent for test in whole for parent in test.item.path.parents}
        near = next((one for one in (folder, *folder.parents) if one in found), folder)
        could = [test for test in whole if number in test.ran]
        if _is_in_no_function(bug) if could else number in self._at_import:
            could += [test for test in whole if near in test.item.path.parents and number not in test.ran]
        if number in self._at_import:
            could += [test for test in whole if test.item.path in TABLES and test not in could]
        could.sort(key=lambda test: (near not in test.item.path.parents, test.took_s))
        return could

    def _in_time(self, tests: Sequence[Asked]) -> Sequence[Asked]:
        before_s = accumulate((test.took_s for test in tests), initial=0.0)
        return [test for test, began_s in zip(tests, before_s, strict=False) if began_s < self.most_s]

    def _verdict(self, bug: Bug | None, tests: Sequence[Asked], *, anew: bool) -> tuple[str, Sequence[Asked]]:
        """And the tests up to the one that failed; all, where that is not known."""
        cpu_s = int(CPU_MORE_S + CPU_FACTOR * sum(test.took_s for test in tests))
        if not anew:
            self._told.write_text("")
            verdict = verdict_of(lambda: self._tried(bug, tests), cpu_s)
            told = self._told.read_text()
            if told != ANEW:
                return verdict, tests[: int(told) + 1] if told else tests
        names = [f"{test.item.path}::{test.item.nodeid.partition('::')[2]}" for test in tests]
        return run_tests(names, bug, cpu_s + IMPORTS_CPU_S), tests

    def _tried(self, bug: Bug | None, tests: Sequence[Asked]) -> int:
        if bug is not None:
            try:
                swap(self._functions.get(str(bug.path), ()), self._code.add(bug.path, bug.tree()))
            except CannotSwapError:
                self._told.write_text(ANEW)
                return 1
        for at in range(len(tests)):
            if self._fails(tests, at):
                self._told.write_text(str(at))
                return 1
        return 0


def _is_in_no_function(bug: BugOnLine) -> bool:
    functions = (it for it in ast.walk(ast.parse(bug.path.read_text())) if isinstance(it, FUNCTIONS))
    return not any(it.lineno <= bug.line <= (it.end_lineno or it.lineno) for it in functions)


def _name(test: Asked) -> str:
    return f"{test.item.nodeid} {crc32(test.item.path.read_bytes()):x}"


@cache
def _as_it_is(path: Path) -> str:
    """The name of a file of the source, and what tells whether it has changed."""
    return f"{path.relative_to(SOURCE)} {crc32(path.read_bytes()):x}" if path.exists() else ""
