"""Files and directories that were renamed away and are to be removed a little later (`file.delete.delay.ms`)."""

import errno
import heapq
import logging
from collections.abc import Callable, Iterable

from penstock.log.disk import Disk
from penstock.log.names import DELETED_SUFFIX

logger = logging.getLogger(__name__)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Removals:
    """Ordered by time, so that a tick costs nothing for paths that are not due."""

    __slots__ = ("_disk", "_due", "_number", "on_sooner")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due: list[tuple[int, str]] = []
        self._number = 0
        """Counts names that were in use."""
        self.on_sooner: Callable[[], object] = int
        """Called, in any thread, when something is due sooner than all else."""

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, path: str, due_ms: int) -> None:
        """In any thread."""
        entry = due_ms, path
        heapq.heappush(self._due, entry)
        if entry in self._due[:1]:  # the loop may have taken it meanwhile
            self.on_sooner()

    def retire(self, path: str, due_ms: int) -> None:
        """As `put_away`, and have it removed."""
        if (target := self.put_away(path)) is not None:
            self.schedule(target, due_ms)

    def put_away(self, path: str) -> str | None:
        """Rename a file that is needed no more: its removal takes longer. Returns the new name; None if there is no
        file any more, as where there was no room for a longer name. Raises OSError.
        """
        target = path + DELETED_SUFFIX
        while self._disk.exists(target):  # it would be removed here
            self._number += 1
            target = f"{path}.{self._number}{DELETED_SUFFIX}"
        try:
            self._disk.rename(path, target)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._disk.remove(path)
            return None
        return target

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int, at_most: int) -> list[str]:
        """What is due, in order. It is scheduled no more: who takes it removes it, or else the next start."""
        taken: list[str] = []
        while self._due and self._due[0][0] <= now_ms and len(taken) < at_most:
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
