"""Which bugs can be planted in a file, and the file with one of them: for `mutants.py`.

Not mutated: assertions, which are no promise to anybody else; what is said to people (raise, logging, docstrings) and
types; what is another behaviour for no client: a limit of a thousand that is larger by one, or that is reached when it
is exceeded, a millisecond at the end of a time-out; kernels of `compiled`, of which the machine code on the disk would
run; and what runs beside Spark alone (`BESIDE_SPARK`).
"""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "penstock"

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
LIMITS = ("MAX_", "MOST_", "LARGE_", "LARGEST_", "LEAST_", "LONGEST_")
SMALLEST_LIMIT = 10
_OF_THE_DATA_SOURCE = (
    *("batch_reader", "entry", "exactly_once", "foreach_batch", "limited_reader", "small_batches", "stream_reader"),
    *("warm_planners", "writer", "written_columns"),
)
BESIDE_SPARK = tuple(
    SOURCE / "pipeline" / name
    for name in (
        *("running", "session.py", "jvm.py", "warm_workers.py", "ask_planners.py", "values/functions.py"),
        *(f"datasource/{name}.py" for name in _OF_THE_DATA_SOURCE),
    )
)
"""`tests/spark` proves it, with a JVM in which no forked child can run."""
SILENT_CALLS = {"debug", "info", "warning", "error", "exception"}


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
        if is_kernel(node):
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
            _is_time(it) or _is_named_limit(it) for it in (node.left, *node.comparators)
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
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names = target.elts if len(target.elts) == len(node.value.elts) else [target] * len(node.value.elts)
            pairs = zip(names, node.value.elts, strict=True)
            node.value.elts = [it if _is_limit(one, it) else self.visit(it) for one, it in pairs]
            return node
        if _is_limit(target, node.value):
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
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        self.generic_visit(node)
        return self._offer(node, ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse))

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return self._offer(node, ast.Break())

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return self._offer(node, ast.Continue())

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        return node


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether machine code runs in its place."""
    return any(isinstance(one, ast.Name) and one.id == "compiled" for one in node.decorator_list)


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


def _is_named_limit(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else _attribute(node)
    return name.isupper() and name.lstrip("_").startswith(LIMITS)


def _said(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def mutants_of(place: str) -> list[Mutant]:
    """All bugs that can be planted in a package, or in a file of one such as `log/recovery.py`."""
    found: list[Mutant] = []
    for path in [SOURCE / place] if place.endswith(".py") else sorted((SOURCE / place).rglob("*.py")):
        if any(it in (path, *path.parents) for it in BESIDE_SPARK):
            continue
        planter = Planter(path)
        planter.visit(ast.parse(path.read_text()))
        found += planter.found
    return found
