"""Words of strangers reach a terminal or a log through `penstock/cli/terminal` alone, which escapes them."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "penstock"
DOOR = "cli/terminal/"
WAYS_OUT = {
    "click": {"echo", "secho", "echo_via_pager", "confirm", "prompt"},
    "logging": {"basicConfig", "StreamHandler", "Formatter"},
    "sys": {"stdout", "stderr"},
}
OF_RICH = {"Console", "Text"}
OF_THEIR_OWN = {
    "console/apart/__main__.py": "a pipe to the console, which reads JSON",
    "log/compaction/worker.py": "a pipe to the node",
    "pipeline/jobs/guardian.py": "a pipe to the worker, which reads JSON",
    "pipeline/datasource/warm_planners.py": "a pipe to Spark, as its own planner has",
    "work/connect/built_in/file_sink.py": "a sink without a file writes what it gets, as Kafka's does",
}
"""Where else something is written, and why that is no way to a person."""


def ways_out(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in WAYS_OUT.get(node.value.id, ()):
                yield f"line {node.lineno}: {node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"line {node.lineno}: print()"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich."):
            yield from (f"line {node.lineno}: {name.name}" for name in node.names if name.name in OF_RICH)


def asks_only(line: str, text: str) -> bool:
    """Whether it is a terminal may be asked anywhere; a bar of click shows numbers."""
    number = int(line.split()[1].rstrip(":"))
    return ".isatty()" in text.splitlines()[number - 1] or "click.progressbar(" in text.splitlines()[number - 1]


def test_what_people_see_is_escaped_in_one_place() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith((DOOR, "testing/")) or name in OF_THEIR_OWN:
            continue
        text = path.read_text()
        ways = [way for way in ways_out(ast.parse(text)) if not asks_only(way, text)]
        if ways:
            found[name] = ways
    assert not found, "print with penstock.cli.terminal.lines or output"


def test_every_exception_is_one() -> None:
    for name in OF_THEIR_OWN:
        assert list(ways_out(ast.parse((SOURCE / name).read_text()))), f"{name} writes nothing"
