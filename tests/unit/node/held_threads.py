"""Threads of a disk that work when a test wants it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Self

from tests.unit.node.on_disk import Node


class HeldThreads(Executor):
    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Callable[[], Any]]] = []

    @classmethod
    def of(cls, node: Node) -> Self:
        """Those of the disk on which the node's partition lies."""
        threads = cls()
        node.directories.roots[node.partition().log.parent].threads = threads  # type: ignore[assignment]
        return threads

    def submit(self, work: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, lambda: work(*arguments)))
        return future

    def begin(self) -> None:
        """The first work is done; nobody hears of it yet."""
        future, work = self.work[0]
        result = work()
        self.work[0] = future, lambda: result

    def do(self, number: int = 0) -> None:
        future, work = self.work.pop(number)
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
