"""Removes from log directories what was renamed away, when its time has come, by threads of each directory's disk: a
file of a gigabyte takes up to a second. A disk that hangs holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from penstock.log.directories.directory import LogDirectories
from penstock.node.environment.tasks import Tasks, Threads

MAX_FILES_AT_ONCE: Final = 100
LONGEST_MS: Final = 20
"""Other work of the disk's threads has its turn after so many files, or when they took so long."""
MAX_PATHS_AT_ONCE: Final = 1_000
"""Are handed to threads before requests are served again."""
LONGEST_WAIT_S: Final = 300.0
"""The clock may jump, and the machine sleep."""


class Remover:
    """The next start removes what a stop leaves."""

    def __init__(self, directories: LogDirectories, now_ms: Callable[[], int]) -> None:
        self._directories = directories
        self._now_ms = now_ms
        self._leaving: dict[str, dict[str, None]] = {}
        """What is being removed, of each log directory."""
        self._watching, self._removing = Tasks(), Tasks()
        self._sooner = asyncio.Event()
        self._is_stopped = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._directories.on_sooner_removal(partial(loop.call_soon_threadsafe, self._sooner.set))
        self._watching.keep(self._watch, "remove files")

    async def stop(self) -> None:
        """Raises KafkaError if a disk hangs."""
        self._directories.on_sooner_removal(int)
        self._is_stopped = True
        await self._watching.stop()
        for paths in self._leaving.values():
            paths.clear()
        await self._removing.settle()

    async def _watch(self) -> None:
        while True:
            self._sooner.clear()
            for root, paths in self._directories.take_removals(self._now_ms(), MAX_PATHS_AT_ONCE).items():
                self._remove_later(root, paths)
            try:
                async with asyncio.timeout(self._seconds_to_next()):
                    await self._sooner.wait()
            except TimeoutError:
                pass

    def _seconds_to_next(self) -> float | None:
        due_ms = self._directories.next_removal_ms()
        return None if due_ms is None else min(max(0, due_ms - self._now_ms()) / 1000, LONGEST_WAIT_S)

    def _remove_later(self, root: str, paths: Iterable[str]) -> None:
        if root not in self._leaving:
            self._leaving[root] = {}
            self._removing.start(self._remove(root), f"remove files in {root}")
        self._leaving[root].update(dict.fromkeys(paths))

    async def _remove(self, root: str) -> None:
        """Until there is nothing left."""
        paths, threads = self._leaving[root], Threads(self._directories.roots[root].threads)
        try:
            while paths:
                some = list(islice(paths, MAX_FILES_AT_ONCE))
                for path in some:
                    del paths[path]  # its name may be used again meanwhile
                done = await threads.do(self._remove_for_a_while, some)
                if not self._is_stopped:
                    paths.update(dict.fromkeys(some[done:]))
        finally:
            del self._leaving[root]

    def _remove_for_a_while(self, paths: list[str]) -> int:
        """A stop waits for a file, or for the few of a directory that go at a time. In any thread."""
        until_ms = self._now_ms() + LONGEST_MS

        def is_enough() -> bool:
            return self._is_stopped or self._now_ms() >= until_ms

        return self._directories.remove(paths, MAX_FILES_AT_ONCE, is_enough)
