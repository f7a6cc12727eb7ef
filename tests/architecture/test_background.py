"""Within a node no task ends without a word, and no loop for good: the `Tasks` of a part start them, and keep loops.
Nobody who stops waits for ever."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest
from tests.architecture.test_wiring import NODE

SPAWN = ("create_task", "ensure_future")
BY_HAND = {
    "environment/tasks.py": "it is `Tasks`",
    "api/transactions/write_txn_markers.py": "their request waits for them",
    "assembly/quorum_start.py": "its end is heard by `_opened`, which fails the node",
    "assembly/start.py": "who starts the node waits for it",
    "controlling/channel.py": "who asked waits for it",
    "controlling/driver.py": "it refuses its command with whatever ends it",
    "controlling/policies.py": "who asked waits for it",
    "monitoring/pages.py": "who asked waits for it",
    "quorum/metadata_log.py": "its end is heard by `_written`",
    "quorum/peers.py": "its end is heard by `_done`",
    "serving/connection.py": "its end is heard by the connection, which answers or closes",
    "serving/slices.py": "their request waits for it",
    "storage_groups/group.py": "who reads a snapshot waits for it",
}
"""Files that start tasks themselves, and who hears how those end."""


def called(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func.attr


def starts_itself(tree: ast.AST) -> bool:
    return any(name in SPAWN for _, name in called(tree))


def loops(tree: ast.AST) -> set[str]:
    """Coroutine functions that have no end of their own."""
    return {one.name for one in ast.walk(tree) if isinstance(one, ast.AsyncFunctionDef) and is_endless(one.body)}


def is_endless(body: list[ast.stmt]) -> bool:
    """Whether a `while True` without a way out stands in it, not in a condition."""
    for one in body:
        if isinstance(one, ast.While) and ast.unparse(one.test) == "True":
            return not any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(one))
        if isinstance(one, ast.Try | ast.With | ast.AsyncWith) and is_endless(one.body):
            return True
    return False


def started_loops(tree: ast.AST) -> Iterator[str]:
    """Such that are not kept."""
    endless = loops(tree)
    for call, name in called(tree):
        work = call.args[0] if call.args and name == "start" else None
        if isinstance(work, ast.Call) and isinstance(work.func, ast.Attribute) and work.func.attr in endless:
            yield f"line {call.lineno}: {work.func.attr} has no end: `Tasks.keep` it"


ENDINGS = ("stop", "_stop", "close", "settle", "leave")


def endless_waits(tree: ast.AST) -> Iterator[str]:
    """Where something stops and waits for tasks, or for threads, without a limit: a disk may hang."""
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef) and function.name in ENDINGS:
            for call, name in called(function):
                if name == "wait" and call.args and all(one.arg != "timeout" for one in call.keywords):
                    yield f"line {call.lineno}: {function.name} waits without a limit: take `all_ended`"


@cache
def trees() -> dict[str, ast.AST]:
    return {str(path.relative_to(NODE)): ast.parse(path.read_text("utf-8")) for path in sorted(NODE.rglob("*.py"))}


def test_only_the_tasks_of_a_part_start_tasks() -> None:
    found = {path for path, tree in trees().items() if starts_itself(tree)}
    assert found == BY_HAND.keys()


def test_what_has_no_end_is_kept() -> None:
    found = {path: list(started_loops(tree)) for path, tree in trees().items()}
    assert {path: complaints for path, complaints in found.items() if complaints} == {}


@pytest.mark.parametrize(
    "body",
    ["while True:\n            await x()", "try:\n            while True: await x()\n        finally: y()"],
)
def test_a_loop_that_is_only_started_is_found(body: str) -> None:
    start = "    def start(self):\n        self.tasks.start(self._run(), 'a')\n"
    text = f"class A:\n{start}    async def _run(self):\n        {body}"
    assert len(list(started_loops(ast.parse(text)))) == 1


def test_a_task_that_is_started_by_hand_is_found() -> None:
    assert starts_itself(ast.parse("asyncio.get_running_loop().create_task(x())"))


def test_what_stops_waits_no_longer_than_it_may() -> None:
    found = {path: list(endless_waits(tree)) for path, tree in trees().items()}
    assert {path: complaints for path, complaints in found.items() if complaints} == {}


def test_a_stop_that_waits_without_a_limit_is_found() -> None:
    text = "class A:\n    async def stop(self):\n        await asyncio.wait({})"
    assert len(list(endless_waits(ast.parse(text.format("self.tasks"))))) == 1
    assert not list(endless_waits(ast.parse(text.format("self.tasks, timeout=1"))))
