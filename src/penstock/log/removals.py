"""Files and directories that were renamed away and are to be removed a little later: a topic's segments after its
`file.delete.delay.ms`, and as in Kafka whole logs after the broker's `log.segment.delete.delay.ms`.
"""

import errno
import heapq
import logging
import os
from collections.abc import Callable, Iterable
from threading import Lock

from penstock.log.disk import Disk
from penstock.log.names import DELETED_SUFFIX

logger = logging.getLogger(__name__)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
OF_A_DIRECTORY = 10
"""Its files are removed so many at a time."""
SWEEP_AT_LEAST = 1_000
"""What is of directories that have gone is looked for when there is twice as much as after the last look, and this."""


class Removals:
    """Ordered by time, so that a tick costs nothing for paths that are not due."""

    __slots__ = ("_count", "_disk", "_due", "_gone", "_lock", "_number", "_sweep_at", "on_sooner")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due: list[tuple[int, str, int]] = []
        """The last number counts what was scheduled."""
        self._count = 0
        self._gone: dict[str, int] = {}
        """Directories that were renamed, with the count by then: what was scheduled in them before goes with them."""
        self._sweep_at = SWEEP_AT_LEAST
        self._lock = Lock()
        self._number = 0
        """Counts names that were in use."""
        self.on_sooner: Callable[[], object] = int
        """Called, in any thread, when something is due sooner than all else."""

    def __len__(self) -> int:
        return len(self._due)

    def schedule(self, path: str, due_ms: int) -> None:
        """In any thread."""
        with self._lock:
            self._count += 1
            entry = due_ms, path, self._count
            heapq.heappush(self._due, entry)
            self._sweep_now_and_then()
        if entry in self._due[:1]:  # the loop may have taken it meanwhile
            self.on_sooner()

    def renamed(self, directory: str) -> None:
        """What was to be removed of it is not there any more: it may have been due in years. In any thread."""
        with self._lock:
            if self._due:
                self._gone[directory] = self._count
                self._sweep_now_and_then()

    def _sweep_now_and_then(self) -> None:
        if len(self._due) + len(self._gone) < self._sweep_at:
            return
        gone = self._gone
        self._due[:] = [entry for entry in self._due if entry[2] > gone.get(os.path.dirname(entry[1]), 0)]
        heapq.heapify(self._due)
        gone.clear()
        self._sweep_at = 2 * len(self._due) + SWEEP_AT_LEAST

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
        with self._lock:
            while self._due and self._due[0][0] <= now_ms and len(taken) < at_most:
                taken.append(heapq.heappop(self._due)[1])
        return taken

    def remove(self, paths: Iterable[str], at_most: int, is_enough: Callable[[], bool] = bool) -> int:
        """Remove these in turn, but no more than so many files, and none when it is enough; with how many paths that is
        done. In any thread: a file of a gigabyte takes the system up to a second. What cannot be removed is left to the
        next start.
        """
        done, room = 0, at_most
        for path in paths:
            try:
                if self._disk.is_directory(path):
                    count, is_gone = self._remove_of(path, room, is_enough)
                    room -= max(count, 1)
                    if not is_gone:
                        break
                else:
                    self._disk.remove(path)
                    room -= 1
            except OSError as error:
                logger.error("%s: could not be removed, the next start tries again: %s", path, error)
            done += 1
            if room <= 0 or is_enough():
                break
        return done

    def _remove_of(self, directory: str, at_most: int, is_enough: Callable[[], bool]) -> tuple[int, bool]:
        """Files of it, a few at a time; how many that were, and whether it is gone."""
        removed = 0
        while removed < at_most:
            most = min(at_most - removed, OF_A_DIRECTORY)
            count = self._disk.remove_some(directory, most)
            removed += count
            if count < most:
                return removed, True
            if is_enough():
                break
        return removed, False
