"""Gives modules other code than their files have: where they are imported, and where they live already."""

import ast
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tools.planter import ROOT, is_kernel

RAN = "__this_line_ran__"
"""A builtin while tests are watched: a line tells it its number."""

Functions = ast.FunctionDef | ast.AsyncFunctionDef


class CannotSwapError(Exception):
    """Functions that live cannot be given the code, and the module has to be imported anew."""


class OtherCode(MetaPathFinder, SourceLoader):  # type: ignore[misc]  # typeshed's base classes contradict each other
    """Gives imports of some files other code. They may be asked for at any time, and have more files."""

    def __init__(self, trees: Mapping[Path, ast.Module]) -> None:
        self._codes: dict[str, tuple[Path, CodeType]] = {}
        for path, tree in trees.items():
            self.add(path, tree)

    def add(self, path: Path, tree: ast.Module) -> CodeType:
        code: CodeType = compile(ast.fix_missing_locations(tree), str(path), "exec")
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        self._codes[".".join(parts).removesuffix(".__init__")] = path, code
        return code

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._codes[name][0], loader=self) if name in self._codes else None

    def get_filename(self, name: str) -> str:
        return str(self._codes[name][0])

    def get_data(self, path: str | bytes) -> bytes:
        return Path(str(path)).read_bytes()

    def get_code(self, name: str) -> CodeType:
        return self._codes[name][1]


def functions_of(root: Path) -> dict[str, list[FunctionType]]:
    """All that live and whose code is of files below `root`, by file."""
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(f"{root}/"):
            found.setdefault(one.__code__.co_filename, []).append(one)
    return found


def swap(functions: Sequence[FunctionType], code: CodeType) -> None:
    """Give the functions of a file the code that they have in `code`, which is that of the whole file."""
    by_place: dict[tuple[str, int], list[CodeType]] = {}
    for one in _nested(code):
        by_place.setdefault((one.co_qualname, one.co_firstlineno), []).append(one)
    for function in functions:
        now = function.__code__
        found = by_place.get((now.co_qualname, now.co_firstlineno), [])
        if now in found:
            continue
        if len(found) != 1:
            raise CannotSwapError(now.co_qualname)
        try:
            function.__code__ = found[0]
        except ValueError as error:  # it takes other variables from around it
            raise CannotSwapError(now.co_qualname) from error


def _nested(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _nested(one)


def telling(path: Path, lines: Mapping[int, int]) -> ast.Module:
    """A file whose statements at these lines tell their number each time they are about to run. One that stands in no
    function runs when the module is imported, so each function of the file tells its number, too.
    """
    tree = ast.parse(path.read_text())
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]  # from outside to inside
    functions = [node for node in statements if isinstance(node, Functions)]
    told: dict[ast.stmt, list[int]] = {}
    for number, line in lines.items():
        around = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
        told.setdefault(around[-1], []).append(number)
        if not any(isinstance(node, Functions) for node in around):
            for function in functions:
                if not is_kernel(function):
                    told.setdefault(function.body[min(1, len(function.body) - 1)], []).append(number)
    _insert(tree, lambda statement: [_tell(number, statement) for number in told.get(statement, ())])
    return tree


def _insert(tree: ast.Module, before: Callable[[ast.stmt], list[ast.stmt]]) -> None:
    for node in list(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, [one for statement in value for one in (*before(statement), statement)])


def _tell(number: int, where: ast.stmt) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(RAN, ast.Load()), [ast.Constant(number)], []))
    return ast.fix_missing_locations(ast.copy_location(call, where))
