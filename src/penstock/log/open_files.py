"""How many segments keep their file open: the least recently used ones are closed when there are too many.

A log with 10,000 partitions must not hold 10,000 descriptors. A segment asks for its file with `open`, and puts
`recently_used` to True whenever it uses it; when the limit is reached, the clock goes round (second chance) and
takes the handle from the first segment that was not used since the last round. A reader that still holds the handle
keeps the descriptor open until it is done (see `disk`), so a few more than the limit can be open for a moment.
"""

import resource
from collections import OrderedDict
from typing import Protocol

from penstock.log.disk import Disk, OpenFile

MAX_OPEN_SEGMENTS = 16_384
"""It is never more than half of the files that the process may open."""


class HasFile(Protocol):
    file: OpenFile | None
    recently_used: bool

    @property
    def path(self) -> str: ...


def default_limit() -> int:
    """MAX_OPEN_SEGMENTS, or half of this process's own limit if that is lower."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_OPEN_SEGMENTS
    return max(1, min(MAX_OPEN_SEGMENTS, soft // 2))


class OpenFiles:
    __slots__ = ("_clock", "disk", "limit")

    def __init__(self, disk: Disk, limit: int | None = None) -> None:
        self.disk = disk
        self.limit = default_limit() if limit is None else limit
        self._clock: OrderedDict[int, HasFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clock)

    def open(self, owner: HasFile, *, create: bool = False) -> OpenFile:
        """Closes others first if there are too many."""
        while len(self._clock) >= self.limit:
            self._close_one()
        file = self.disk.open(owner.path, create=create)
        owner.file = file
        owner.recently_used = True
        self._clock[id(owner)] = owner
        return file

    def close(self, owner: HasFile) -> None:
        self._clock.pop(id(owner), None)
        owner.file = None

    def _close_one(self) -> None:
        while True:
            key, owner = self._clock.popitem(last=False)
            if not owner.recently_used:
                owner.file = None
                return
            owner.recently_used = False
            self._clock[key] = owner
