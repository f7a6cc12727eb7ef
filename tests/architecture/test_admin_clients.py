"""Who asks by an admin client keeps it until it is answered, and closes it where others do not.

One of librdkafka that no name holds is destroyed while its request is under way: mostly its future fails, now and then
it never ends. It closes itself with its last reference; those of kafka-python and aiokafka do not.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests", "bench", "tools", "examples")
LIBRDKAFKAS = "AdminClient"
CLOSED = ("KafkaAdminClient", "AIOKafkaAdminClient")
ANSWER_AT_ONCE = ("list_topics", "list_groups")
"""Methods of librdkafka's that give no future."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(call: ast.AST) -> str:
    """What is called."""
    if not isinstance(call, ast.Call):
        return ""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def made(tree: ast.AST, *classes: str) -> Iterator[str]:
    """The names that such clients get."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and name_of(node.value) in classes:
            yield from (ast.unparse(target) for target in node.targets)


def asked(node: ast.AST | None) -> ast.expr | None:
    """Of a call of a method that gives a future, what is asked."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in ANSWER_AT_ONCE:
        return node.func.value
    return None


def complaints(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (client := asked(node)) is not None and name_of(client) == LIBRDKAFKAS:
            yield f"line {client.lineno}: it is gone before its answer: give it a name"
        if not isinstance(node, Function):
            continue
        locals_ = set(made(node, LIBRDKAFKAS))
        for end in ast.walk(node):
            client = asked(end.value) if isinstance(end, ast.Return) else None
            if client is not None and ast.unparse(client) in locals_:
                yield f"line {client.lineno}: the client is gone when its future is returned: return the result"
        closed = {
            ast.unparse(it.value) for it in ast.walk(node) if isinstance(it, ast.Attribute) and it.attr == "close"
        }
        for name in set(made(node, *CLOSED)) - closed:
            yield f"line {node.lineno}: {name} is not closed"


def test_admin_clients_are_kept_until_they_are_answered_and_closed() -> None:
    files = {path: path.read_text("utf-8") for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}
    found = {
        str(path.relative_to(ROOT)): list(complaints(ast.parse(text)))
        for path, text in files.items()
        if f"{LIBRDKAFKAS}(" in text and path.name != Path(__file__).name
    }
    assert {path: of_file for path, of_file in found.items() if of_file} == {}


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("groups = AdminClient(it).list_consumer_groups().result().valid", 1),
        ("groups = KAFKA.AdminClient(it).list_consumer_groups().result().valid", 1),
        ("return sorted(AdminClient(it).list_topics(timeout=30).topics)", 0),
        ("admin = AdminClient(it)\n    return admin.create_topics([])", 1),
        ("admin = AdminClient(it)\n    return admin.create_topics([])['a'].result()", 0),
        ("admin = AdminClient(it)\n    return admin.list_topics()", 0),
        ("admin = KafkaAdminClient()\n    admin.list_topics()", 1),
        ("admin = AIOKafkaAdminClient()\n    await admin.start()\n    await admin.close()", 0),
    ],
)
def test_what_is_found(body: str, number: int) -> None:
    assert len(list(complaints(ast.parse(f"async def test(it):\n    {body}")))) == number
