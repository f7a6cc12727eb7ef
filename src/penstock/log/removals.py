"""Files and directories that were renamed away and are to be removed a little later (`file.delete.delay.ms`)."""

import heapq
import logging
from collections.abc import Iterable

from penstock.log.disk import Disk

logger = logging.getLogger(__name__)


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

    def take_due(self, now_ms: int) -> list[str]:
        """What is due, in order. It is scheduled no more: who takes it removes it, or else the next start."""
        taken = []
        while self._due and self._due[0][0] <= now_ms:
            taken.append(heapq.heappop(self._due)[1])
        return taken

    def remove(self, paths: Iterable[str], at_most: int) -> int:
        """Remove these in turn, but no more than so many files; with how many paths that is done. In any thread: a file
        of a gigabyte takes the system up to a second. What cannot be removed is left to the next start.
        """
        done, room = 0, at_most
        for path in paths:
            try:
                if self._disk.is_directory(path):
                    count = self._disk.remove_some(path, room)
                    room -= max(count, 1)
                    if room <= 0 and count:
                        break  # there may be more of it
                else:
                    self._disk.remove(path)
                    room -= 1
            except OSError as error:
                logger.error("%s: could not be removed, the next start tries again: %s", path, error)
            done += 1
            if room <= 0:
                break
        return done
