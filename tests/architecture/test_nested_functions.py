"""No annotation of a function within a function is made anew at each call of the outer one: generic types and unions
take longer than much of what is done beside them. In a file that imports `annotations` none is ever made.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_lazy(tree: ast.Module) -> bool:
    return any(isinstance(one, ast.ImportFrom) and one.module == "__future__" for one in tree.body)


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    for one in ast.walk(function.args):
        if isinstance(one, ast.arg) and one.annotation is not None:
            yield one.annotation
    if function.returns is not None:
        yield function.returns


def costly(tree: ast.Module) -> Iterator[str]:
    for outer in ast.walk(tree):
        for inner in ast.walk(outer) if isinstance(outer, FUNCTIONS) else ():
            if isinstance(inner, FUNCTIONS) and inner is not outer:
                for one in annotations(inner):
                    if any(isinstance(part, ast.Subscript | ast.BinOp | ast.Call) for part in ast.walk(one)):
                        yield f"line {inner.lineno}: {inner.name}: {ast.unparse(one)}"


def test_no_annotation_is_made_at_each_call() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if not is_lazy(tree) and (complaints := list(costly(tree))):
            found[str(path.relative_to(SOURCE))] = complaints
    assert found == {}, "import annotations from __future__ there"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f():\n    def g(x: dict[str, int]): ...", 1),
        ("def f():\n    async def g(x: int, *, y: str) -> int | None: ...", 1),
        ("class A:\n    def f(self):\n        def g(*x: list[int]): ...", 1),
        ("def f(x: dict[str, int]) -> int | None:\n    def g(x: int) -> str: ...", 0),
    ],
)
def test_one_that_is_made_is_found(text: str, count: int) -> None:
    assert len(list(costly(ast.parse(text)))) == count
