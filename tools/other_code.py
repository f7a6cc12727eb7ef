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
    """All that live and whose code is of files below `root`, by file; also what the garbage collector was told to pass
    by, as `tests/conftest.py` does.
    """
    gc.unfreeze()
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(f"{root}/"):
            found.setdefault(one.__code__.co_filename, []).append(one)
    return found


def swap(functions: Sequence[FunctionType], code: CodeType) -> None:
    """Give the functions of a file, if any live, the code that they have in `code`, which is that of the whole file."""
    by_place: dict[tuple[str, int], list[CodeType]] = {}
    for one in _nested(code):
        by_place.setdefault((one.co_qualname, one.co_firstlineno), []).append(one)
    before = [function.__code__ for function in functions]
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
    if functions and before == [function.__code__ for function in functions]:
        raise CannotSwapError("none of them is another")


def _nested(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _nested(one)


def tellers(path: Path) -> dict[int, int]:
    """By lines of a file, the line of the statement that tells that it is about to run: the innermost one around it.
    Line 0 stands for all that is in no function. Kernels tell nothing.
    """
    tree = ast.parse(path.read_text())
    found: dict[int, int] = {}
    for node in ast.walk(tree):  # from outside to inside
        if isinstance(node, Functions):
            of = dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node.lineno)
            for one in () if is_kernel(node) else (one for one in ast.walk(node) if isinstance(one, ast.stmt)):
                if not _is_docstring(one):
                    of.update(dict.fromkeys(range(one.lineno, (one.end_lineno or 0) + 1), one.lineno))
            found.update(of)
    return dict.fromkeys(range(1, (tree.body[-1].end_lineno or 0) + 1 if tree.body else 1), 0) | found


def telling(path: Path, lines: Mapping[int, int]) -> ast.Module:
    """A file whose statements at these lines, by numbers, tell their number each time they are about to run. The
    number of line 0 is told when the module is imported, and by each function.
    """
    tree = ast.parse(path.read_text())
    at: dict[int, list[int]] = {}
    for number, line in lines.items():
        at.setdefault(line, []).append(number)
    told: dict[ast.stmt, list[int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not _is_docstring(node):
            told.setdefault(node, []).extend(at.get(node.lineno, ()))
        if isinstance(node, Functions) and not is_kernel(node):
            told.setdefault(node.body[min(1, len(node.body) - 1)], []).extend(at.get(0, ()))
    if tree.body:
        told.setdefault(tree.body[-1], []).extend(at.get(0, ()))
    _insert(tree, lambda statement: [_tell(number, statement) for number in told.get(statement, ())])
    return tree


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _insert(tree: ast.Module, before: Callable[[ast.stmt], list[ast.stmt]]) -> None:
    for node in list(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, [one for statement in value for one in (*before(statement), statement)])


def _tell(number: int, where: ast.stmt) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(RAN, ast.Load()), [ast.Constant(number)], []))
    return ast.fix_missing_locations(ast.copy_location(call, where))
