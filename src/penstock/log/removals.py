"""Files and directories that were renamed away and are to be removed a little later (`file.delete.delay.ms`)."""

import heapq
from collections.abc import Iterable
from typing import Final

from penstock.log.disk import Disk

LATER_MS: Final = 1_000
"""After so long a disk that is passed by is looked at again."""


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

    def remove_due(self, now_ms: int, *, at_most: int = 1000, passing_by: Iterable[str] = ()) -> int:
        """Remove what is due, and of what is more than so many files the rest with the next call, but nothing in these
        directories, whose disks may hang; returns how many of the paths are gone. OSError of a path that cannot be
        removed: it stays until the next start.
        """
        busy = tuple(f"{path}/" for path in passing_by)
        removed, room = 0, at_most
        while self._due and self._due[0][0] <= now_ms and room > 0:
            due_ms, path = heapq.heappop(self._due)  # first: what cannot be removed is not tried again and again
            if path.startswith(busy):
                heapq.heappush(self._due, (now_ms + LATER_MS, path))
                room -= 1
                continue
            if self._disk.is_directory(path):
                count = self._disk.remove_some(path, room)
                room -= max(count, 1)
                if room <= 0 and count:
                    heapq.heappush(self._due, (due_ms, path))  # there may be more of it
                    break
            else:
                self._disk.remove(path)
                room -= 1
            removed += 1
        return removed
