"""No circles of imports: files of a package form layers, too, and what is imported for types alone counts as well."""

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


def modules(source: Path) -> dict[str, Path]:
    """Every file below a folder, by the name under which it is imported."""
    named = {".".join(path.relative_to(source).with_suffix("").parts): path for path in source.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imported(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """What a file imports anywhere in it: the module, and the name that is taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            module = node.args[0]
            if isinstance(module, ast.Constant):
                yield str(module.value), None


@cache
def graph(source: Path) -> dict[str, frozenset[str]]:
    """Which of the files imports which others."""
    files = modules(source)
    edges: dict[str, frozenset[str]] = {}
    for name, path in files.items():
        found = {
            full if (full := f"{module}.{taken}") in files else module
            for module, taken in imported(ast.parse(path.read_text(encoding="utf-8")))
        }
        edges[name] = frozenset(found & files.keys()) - {name}
    return edges


def circle(edges: Mapping[str, Set[str]]) -> list[str]:
    """The files of one circle, each imported by the next; empty if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_file_imports_itself_in_the_end() -> None:
    assert circle(graph(SOURCE)) == []


@pytest.mark.parametrize(
    "how", ["import pack.a", "from pack import a", "from pack.a import name", "import_module('pack.a')"]
)
def test_a_circle_is_found_however_it_is_imported(tmp_path: Path, how: str) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from pack.b import other\n")
    guarded = f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {how}\n"
    (package / "b.py").write_text(guarded)
    assert set(circle(graph(tmp_path))) == {"pack.a", "pack.b"}
