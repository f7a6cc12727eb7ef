"""No test counts on a port that it has given back: the system may give it to any other process, or to a node's own
listener. Where nobody is to listen, `127.0.0.1:1` does, of which no process gets hold by chance; where somebody is to
listen later, the fixture `reserve_port`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.With, ast.AsyncWith)


def has_socket(block: ast.With | ast.AsyncWith) -> bool:
    """Whether it closes a socket at its end."""
    calls = (item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call))
    return any(ast.unparse(call.func).split(".")[-1] in ("socket", "create_server", "start_server") for call in calls)


def tells_a_port(part: ast.AST) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "getsockname" for one in ast.walk(part))


def given_back(tree: ast.Module) -> Iterator[int]:
    """Lines in which a port is kept for longer than the socket that had it."""
    for function in (one for one in ast.walk(tree) if isinstance(one, FUNCTIONS)):
        parts = list(ast.walk(function))
        blocks = [one for one in parts if isinstance(one, BLOCKS) and has_socket(one)]
        ended_by = {one: block.end_lineno or 0 for block in blocks for one in ast.walk(block)}
        closed = {name: one.lineno for one in parts if isinstance(one, ast.Expr) and (name := closes(one.value))}
        kept: dict[str, int] = {}
        for one in parts:
            if isinstance(one, ast.Return | ast.Assign) and one.value is not None and tells_a_port(one.value):
                names = [part.id for part in ast.walk(one.value) if isinstance(part, ast.Name)]
                end = ended_by.get(one) or max((closed.get(name, 0) for name in names), default=0)
                targets = one.targets if isinstance(one, ast.Assign) else [one.value]
                if one in ended_by and not all(isinstance(target, ast.Name) for target in targets):
                    yield one.lineno
                kept |= {target.id: end for target in targets if isinstance(target, ast.Name) and end}
        for one in parts:
            if isinstance(one, ast.Name) and one.lineno > kept.get(one.id, one.lineno):
                yield one.lineno


def closes(call: ast.expr) -> str | None:
    """The name of what it closes."""
    is_so = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "close"
    return ast.unparse(call.func.value) if is_so else None  # type: ignore[attr-defined]


def test_no_port_is_given_back_and_counted_on() -> None:
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if "getsockname" in text and (lines := sorted(set(given_back(ast.parse(text))))):
            found[str(path.relative_to(TESTS))] = lines
    assert found == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\n with create_server(a) as s:\n  return s.getsockname()[1]", [3]),
        ("def f():\n with socket.socket() as s:\n  port = int(s.getsockname()[1])\n go(port)", [4]),
        ("def f(self):\n with socket.socket() as s:\n  self.port = s.getsockname()[1]", [3]),
        ("def f():\n with socket.socket() as s:\n  port = s.getsockname()[1]\n  go(port)", []),
        ("def f():\n s = listen()\n port = s.getsockname()[1]\n s.close()\n go(port)", [5]),
        ("def f():\n s = listen()\n port = s.getsockname()[1]\n go(port)\n s.close()", []),
        ("def f():\n with open(a) as s:\n  return s.read()", []),
    ],
)
def test_one_that_is_given_back_is_found(text: str, lines: list[int]) -> None:
    assert sorted(given_back(ast.parse(text))) == lines
