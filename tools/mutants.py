"""Plants bugs in a package, one at a time, and tells which ones its tests do not notice: `make mutants`.

    python -m tools.mutants raft log --count 100 --seed 7 --minutes 30
    python -m tools.mutants --since v1.0 --page docs/mutants.md          # only in lines that changed since then

Every mutant is one change of one expression or statement. It lives in memory only: a child process is forked, its
import of that one module is given the changed code, and it runs the tests that call the changed function, the quickest
first, until one fails or a limit of time is reached; all tests that concern the package where no test calls it, as for
what runs on import. A child may use a few times the CPU time of the tests without a bug; one that uses more counts as
noticed, but is listed, because a test should have failed before. The same seed over the same code plants the same bugs.

Not mutated: assertions, which are no promise to anybody else; what is said to people (raise, logging, docstrings) and
types; what is another behaviour for no client: a limit of a thousand that is larger by one, a millisecond at the end of
a time-out; and kernels of `compiled`, of which the machine code on the disk would run.
"""

import argparse
import ast
import importlib
import os
import resource
import signal
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from itertools import accumulate
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Protocol

import pytest
from tools.changed import changed_lines, page
from tools.touched import Tests, Touched

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "penstock"

TESTS = {
    "raft": [
        "unit/raft",
        "golden/test_raft.py",
        "simulation/raft_kv/test_seeds.py",
        "simulation/test_simulation.py::test_seeds[0]",
    ],
    "log": ["unit/log", "property/log"],
    "coordinator": ["unit/coordinator", "golden/test_groups.py", "property/coordinator"],
    "controller": ["unit/controller", "golden/test_controller.py", "simulation/test_controller_simulation.py"],
    "replication": ["unit/replication", "property/replication", "unit/node/partitions"],
    "metadata": ["unit/metadata", "property/test_broker_config.py", "property/test_metadata_records.py"],
    "protocol": ["unit/protocol", "property/protocol"],
    "pipeline": ["unit/pipeline", "property/pipeline"],
    "work": ["unit/work", "simulation/work", "simulation/connect/test_seeds.py"],
    "node/storage_groups": [
        "unit/node/storage_groups",
        "simulation/storage_groups/test_seeds.py",
        "simulation/storage_groups/test_hand_overs.py",
    ],
    "node/partitions": [
        "unit/node/partitions",
        "unit/node/test_foreign_logs.py",
        "unit/node/test_moves_between_directories.py",
        "unit/node/test_offline_directories.py",
        "simulation/test_replication_simulation.py::test_seeds",
    ],
    "node/coordinators": ["unit/node/coordinators", "simulation/whole_nodes/test_groups_move.py"],
}
"""What is run for a package: its unit tests, which are all for those that are not here, and what else proves it."""

ASKED_CPU_S = 30
"""One bug is played against so much of the tests that call the changed function, the quickest first."""

CPU_FACTOR = 2
CPU_MINIMUM_S = 20
MEMORY_BYTES = 4 << 30
"""A child may use so many times the CPU time that the tests took without a bug while they were watched, which doubles
it, and so much memory."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
TIMES = ("_ms", "_s", "_ns")
SMALLEST_LIMIT = 10
SILENT_CALLS = {"debug", "info", "warning", "error", "exception"}


class Bug(Protocol):
    """Changed code of one file."""

    @property
    def path(self) -> Path: ...

    def tree(self) -> ast.Module: ...


@dataclass(frozen=True)
class Mutant:
    """One change: the `number`-th that is possible in a file."""

    path: Path
    number: int
    line: int
    what: str

    def tree(self) -> ast.Module:
        tree = ast.parse(self.path.read_text())
        Planter(self.path, self.number).visit(tree)
        return tree

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT / 'src')}:{self.line}: {self.what}"


class Planter(ast.NodeTransformer):
    """Visits all places where a bug can be planted; plants the one of a number, or only lists them."""

    def __init__(self, path: Path, chosen: int = -1) -> None:
        self.path = path
        self.chosen = chosen
        self.found: list[Mutant] = []

    def _offer(self, node: ast.AST, *changed: ast.AST) -> ast.AST:
        """Each of `changed` may take the place of `node`."""
        result = node
        for other in changed:
            if len(self.found) == self.chosen:
                result = ast.fix_missing_locations(ast.copy_location(other, node))
            self.found.append(Mutant(self.path, len(self.found), node.lineno, f"{_said(node)} -> {_said(other)}"))  # type: ignore[attr-defined]
        return result

    # Not a place.

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_Assert = visit_Raise = visit_JoinedStr = visit_Import = visit_ImportFrom = _leave  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None and not _is_limit(node.target, node.value):
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if any(isinstance(one, ast.Name) and one.id == "compiled" for one in node.decorator_list):
            return node
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    # Expressions.

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        swapped = COMPARISONS[type(node.ops[0])]()
        if isinstance(swapped, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and any(
            map(_is_time, (node.left, *node.comparators))
        ):
            return node
        return self._offer(node, ast.Compare(node.left, [swapped], node.comparators))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        swapped = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        fewer = [
            rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            for number in range(len(node.values))
            if (rest := [value for at, value in enumerate(node.values) if at != number])
        ]
        return self._offer(node, swapped, *fewer)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._offer(node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        swapped = ARITHMETIC.get(type(node.op))
        return node if swapped is None else self._offer(node, ast.BinOp(node.left, swapped(), node.right))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return self._offer(node, ast.IfExp(node.test, node.orelse, node.body))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value is True or node.value is False:
            return self._offer(node, ast.Constant(not node.value))
        return self._offer(node, ast.Constant(node.value + 1)) if type(node.value) is int else node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return node if node.arg == "strict" else self.generic_visit(node)  # of zip: an assertion

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr in SILENT_CALLS:
            return node
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in SWAPPED_CALLS:
            swapped = ast.Name(SWAPPED_CALLS[node.func.id], ast.Load())
            return self._offer(node, ast.Call(swapped, node.args, node.keywords))
        return node

    # Statements.

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node  # a docstring
        self.generic_visit(node)
        is_silent = isinstance(node.value, ast.Call) and _attribute(node.value.func) in SILENT_CALLS
        return node if is_silent or not isinstance(node.value, ast.Call) else self._offer(node, ast.Pass())

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if _is_limit(node.targets[0], node.value):
            return node
        node.value = self.visit(node.value)
        is_state = all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        return self._offer(node, ast.Pass()) if is_state else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        node.value = self.visit(node.value)
        return self._offer(node, ast.Pass())

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        return self._offer(node, ast.Pass())

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        return self._offer(node, ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse))

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return self._offer(node, ast.Break())

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return self._offer(node, ast.Continue())

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        return node


def _attribute(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_limit(target: ast.expr, value: ast.expr) -> bool:
    """A constant or a default, of which one more or less does not matter."""
    is_number = not any(isinstance(it, ast.Name | ast.Call | ast.Attribute) for it in ast.walk(value))
    return (
        isinstance(target, ast.Name)
        and (target.id.isupper() or target.id.endswith((*TIMES, "_bytes")))
        and isinstance(value, ast.Constant | ast.BinOp)
        and is_number
        and not (isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value < SMALLEST_LIMIT)
    )


def _is_time(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else _attribute(node)
    return name.lower().endswith(TIMES)


def _said(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def mutants_of(place: str) -> list[Mutant]:
    """All bugs that can be planted in a package, or in a file of one such as `log/recovery.py`."""
    found: list[Mutant] = []
    for path in [SOURCE / place] if place.endswith(".py") else sorted((SOURCE / place).rglob("*.py")):
        planter = Planter(path)
        planter.visit(ast.parse(path.read_text()))
        found += planter.found
    return found


class PlantingFinder(MetaPathFinder, SourceLoader):  # type: ignore[misc]  # typeshed's base classes contradict each other
    """Gives the import of one module its changed code."""

    def __init__(self, bug: Bug) -> None:
        parts = bug.path.relative_to(ROOT / "src").with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")
        self.bug = bug

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.bug.path, loader=self) if name == self.name else None

    def get_filename(self, name: str) -> str:
        return str(self.bug.path)

    def get_data(self, path: str | bytes) -> bytes:
        return self.bug.path.read_bytes()

    def get_code(self, name: str) -> CodeType:
        return compile(ast.fix_missing_locations(self.bug.tree()), self.get_filename(name), "exec")


def run_tests(tests: Sequence[str], bug: Bug | None, cpu_s: int, watched: Path | None = None) -> str:
    """What the tests say of a bug in a forked child; what each test calls is written to `watched`."""
    child = os.fork()
    if not child:
        _be_the_child(tests, bug, cpu_s, watched)
    status, ends = 0, time.monotonic() + 60 * cpu_s
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "takes too long"
    return "noticed" if os.WEXITSTATUS(status) else "survives"


def _be_the_child(tests: Sequence[str], bug: Bug | None, cpu_s: int, watched: Path | None) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if bug is not None:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("penstock", "tests")]:
            del sys.modules[name]  # who asks may have imported what is to be planted
        sys.meta_path.insert(0, PlantingFinder(bug))
    code = 1
    # Plain assertions: pytest would rewrite those of a package that brings a plugin, and read its modules itself.
    options = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain"]
    with suppress(BaseException):
        touched = Touched(("penstock", "tests", "conftest")) if watched else None
        code = int(pytest.main([*options, *tests], [touched] if touched else None))
        if watched and touched:
            touched.write(watched)
    os._exit(code)


def watch(tests: Sequence[str], place: str) -> Tests:
    """See what the tests call, without a bug, and import what all children will need."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "touched.json"
        if run_tests(tests, None, 3600, path) != "survives":
            sys.exit(f"the tests of {place} fail without any bug")
        seen = Tests(path)
    for name in seen.modules:
        with suppress(Exception):
            importlib.import_module(name)
    return seen


def verdict_of(mutant: Mutant, tests: Sequence[str], seen: Tests) -> str:
    """Ask the tests that call what was changed; all where that is known of none."""
    asked = seen.of(mutant.path, mutant.line)
    took_s = list(accumulate(map(seen.took_s.__getitem__, asked)))
    asked = asked[: bisect_right(took_s, ASKED_CPU_S) + 1]
    asked_s = sum(map(seen.took_s.__getitem__, asked or seen.took_s))
    return run_tests(asked or tests, mutant, int(max(CPU_MINIMUM_S, CPU_FACTOR * asked_s)))


def tests_of(place: str) -> list[str]:
    """Those of the nearest package that has some."""
    around = [place, *map(str, Path(place).parents)]
    named = next((TESTS[it] for it in around if it in TESTS), None)
    units = next(it for it in around if (ROOT / "tests" / "unit" / it).is_dir())
    return [str(ROOT / "tests" / name) for name in named or [f"unit/{units}"]]


def judge(
    place: str, possible: Sequence[Mutant], count: int, random: Random, ends: float
) -> Iterator[tuple[Mutant, str]]:
    """Plant up to `count` bugs of those that are possible in a package or a file, as long as there is time."""
    tests = tests_of(place)
    seen = watch(tests, place)
    print(f"{place}: {len(possible)} bugs are possible, {len(seen.took_s)} tests may notice", flush=True)
    for mutant in random.sample(possible, min(count, len(possible))):
        if time.monotonic() > ends:
            print(f"{place}: no time for more", flush=True)
            return
        yield mutant, verdict_of(mutant, tests, seen)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Plant bugs and see which ones the tests do not notice.")
    parser.add_argument("places", nargs="*", metavar="PLACE", help="a package or a file, as in log/recovery.py")
    parser.add_argument("--count", type=int, default=100, help="bugs for each place (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="at most so long altogether (default: %(default)s)")
    parser.add_argument("--since", metavar="REVISION", help="only in lines that changed since then")
    parser.add_argument("--page", type=Path, help="write the figures to this file; needs --since")
    options = parser.parse_args()
    os.chdir(ROOT)
    deadline = time.monotonic() + options.minutes * 60
    changed = changed_lines(options.since) if options.since else None
    places = options.places or (list(TESTS) if changed is None else _packages(changed))
    figures: dict[str, tuple[int, int, dict[str, int]]] = {}
    left: list[str] = []
    for number, place in enumerate(places):
        now = time.monotonic()
        ends = now + (deadline - now) / (len(places) - number)
        possible = [one for one in mutants_of(place) if changed is None or one.line in changed.get(one.path, ())]
        tally: dict[str, int] = {}
        judged = judge(place, possible, options.count, Random(options.seed), ends) if possible else ()
        for mutant, verdict in judged:
            tally[verdict] = tally.get(verdict, 0) + 1
            if verdict != "noticed":
                left.append(f"{verdict}: {mutant}")
                print(left[-1], flush=True)
        print(f"{place}: {tally}", flush=True)
        lines = sum(len(of) for path, of in (changed or {}).items() if (SOURCE / place) in (path, *path.parents))
        figures[place] = (lines, len(possible), tally)
        if options.page:
            options.page.write_text(page(options.since, figures, left))


def _packages(changed: Mapping[Path, set[int]]) -> list[str]:
    """Those with unit tests that have changed; of `node` the rooms."""
    parts = {path.relative_to(SOURCE).parts for path in changed}
    names = {"/".join(of[:2]) if of[0] == "node" else of[0] for of in parts}
    return sorted(name for name in names if (ROOT / "tests" / "unit" / name).is_dir())


if __name__ == "__main__":
    main()
