"""The parts of a node are whole when they are made: few arguments, and nothing that is set from outside afterwards."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.test_circles import SOURCE

NODE = SOURCE / "penstock" / "node"
PARTS = sorted(path for path in NODE.rglob("*.py") if "api" not in path.parts)
"""What is in `api` lives as long as a request, and is made by each."""
ARGUMENTS = 6
CALLABLES = 1
CLOCKS = ("Callable[[], int]", "Callable[[], float]")


def constructors(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield node


def complaints(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for constructor in constructors(tree):
        arguments = [*constructor.args.args[1:], *constructor.args.kwonlyargs]
        types = [ast.unparse(one.annotation) for one in arguments if one.annotation is not None]
        callables = [one for one in types if one.startswith("Callable[") and one not in CLOCKS]
        if len(arguments) > ARGUMENTS:
            yield f"{path}:{constructor.lineno}: {len(arguments)} arguments, at most {ARGUMENTS}"
        if len(callables) > CALLABLES:
            yield f"{path}:{constructor.lineno}: {len(callables)} callables: give them an interface"
    yield from (f"{path}:{line}: {target} is set from outside" for line, target in set_from_outside(path, tree))


def set_from_outside(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Attributes of other objects: none in what puts a node together, and nowhere one to be called back by."""
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for one in target.elts if isinstance(target, ast.Tuple) else (target,):
                if not isinstance(one, ast.Attribute) or ast.unparse(one.value) in ("self", "cls"):
                    continue
                if path.parent.name == "assembly" or one.attr.startswith("on_"):
                    yield one.lineno, ast.unparse(one)


@pytest.mark.parametrize("path", PARTS, ids=lambda path: str(path.relative_to(NODE)))
def test_parts_are_whole_when_they_are_made(path: Path) -> None:
    assert list(complaints(path)) == []


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __init__(self, a, b, c, d, e, f, g): ...",
        "class A:\n    def __init__(self, a: Callable[[int], None], b: Callable[[str], None]): ...",
        "def f(part): part.on_end = print",
        "def f(part): part.x, part.on_end = 1, print",
    ],
)
def test_what_is_not_is_found(tmp_path: Path, text: str) -> None:
    file = tmp_path / "part.py"
    file.write_text(text)
    assert len(list(complaints(file))) == 1
