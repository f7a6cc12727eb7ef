"""Who runs which task where there is one worker: it runs all of them. One that is to run again has ended before."""

import asyncio
from collections.abc import Collection

from penstock.work.wire import Runner


class Alone:
    """Stands in for a group. The runner reports each task that has ended to `ended`."""

    def __init__(self, runner: Runner) -> None:
        self.in_hand: set[str] = set()
        self._runner = runner
        self._wanted: frozenset[str] = frozenset()
        self._ending: set[str] = set()
        self._news = asyncio.Event()

    def set_tasks(self, tasks: Collection[str]) -> None:
        """Tasks that are not named stop."""
        self._wanted = frozenset(tasks)
        self._look()

    def ended(self, task: str) -> None:
        self.in_hand.discard(task)
        self._ending.discard(task)
        self._look()
        self._news.set()

    async def next_end(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def stop(self) -> None:
        self.set_tasks(())
        while self.in_hand:
            await self.next_end()

    def _look(self) -> None:
        for task in sorted(self._wanted - self.in_hand):
            self.in_hand.add(task)
            self._runner.start(task)
        for task in sorted(self.in_hand - self._wanted - self._ending):
            self._ending.add(task)
            self._runner.stop(task)
