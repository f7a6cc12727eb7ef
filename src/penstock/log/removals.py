"""Files and directories that were renamed away and are to be removed a little later (`file.delete.delay.ms`)."""

import heapq

from penstock.log.disk import Disk


class Removals:
    """Ordered by time, so that a tick costs nothing for paths that are not due."""

    __slots__ = ("_disk", "_due")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, path: str, due_ms: int) -> None:
        heapq.heappush(self._due, (due_ms, path))

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def remove_due(self, now_ms: int, *, at_most: int = 1000) -> int:
        """At most this many at once; returns how many."""
        removed = 0
        while self._due and self._due[0][0] <= now_ms and removed < at_most:
            path = heapq.heappop(self._due)[1]
            if self._disk.is_directory(path):
                self._disk.remove_tree(path)
            else:
                self._disk.remove(path)
            removed += 1
        return removed
