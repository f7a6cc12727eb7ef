"""What never changes is declared as a Value, never as a frozen dataclass (docs/decisions/0103-values-one-way.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"


def frozen_dataclasses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
            if any(keyword.arg == "frozen" for call in calls for keyword in call.keywords):
                yield node.name


def test_there_is_no_frozen_dataclass() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in frozen_dataclasses(ast.parse(path.read_text()))
    ]
    assert found == [], "make it a Value"


def test_a_frozen_dataclass_is_found() -> None:
    text = "@dataclass(slots=True, frozen=True)\nclass A: ...\n@dataclass(slots=True)\nclass B: ...\n"
    assert list(frozen_dataclasses(ast.parse(text))) == ["A"]
