"""No file over 450 lines, no function over 60. There is no list of exemptions: split instead.

Generated declarations are the only exception, by folder.
Cyclomatic complexity is ruff's C901, which no comment may switch off.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "src" / "penstock" / "protocol" / "messages"
FILE_LINES = 450
FUNCTION_LINES = 60
BENCH_LINES = 8_570
"""Of all measurements, drills and scenarios together: what a new one needs is mostly there."""
FORBIDDEN_NAMES = {"common", "utils", "util", "helpers", "helper", "manager", "misc"}


def sources() -> Iterator[Path]:
    for folder in ("src", "tests", "tools", "bench", "examples"):
        yield from sorted(p for p in (ROOT / folder).rglob("*.py") if GENERATED not in p.parents)


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from its `def` to its end, without its docstring."""
    first = node.body[0]
    has_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring_lines = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines


def complaints(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES}"
    if {path.stem, path.parent.name} & FORBIDDEN_NAMES:
        yield f"{path}: a name that says nothing"
    if path.name != "test_tidy.py" and "noqa: C901" in text:
        yield f"{path}: switches off the limit on complexity"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and function_lines(node) > FUNCTION_LINES:
            yield f"{path}:{node.lineno}: {node.name} has {function_lines(node)} lines, at most {FUNCTION_LINES}"


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_tidy(path: Path) -> None:
    assert list(complaints(path)) == []


def test_bench_stays_small() -> None:
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "bench").rglob("*.py")) <= BENCH_LINES
