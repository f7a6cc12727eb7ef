"""Fetches that the streams of one machine share: what one of them has fetched, the others find in a directory.

    DIRECTORY/TOPIC_ID-PARTITION-ISOLATION/BEGIN-END    a line of JSON about transactions, then the records
    DIRECTORY/locks/TOPIC_ID-PARTITION-ISOLATION        held by who asks the broker, so that two do not ask for the same

Committed records stay as they are, so a file is right for as long as it is there; only an unclean election replaces
some, and those that were fetched before are still found here. The oldest files go, and all of a partition of which
nothing was fetched for an hour.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from penstock.client.blocking.fetch import FetchedRecords
from penstock.client.values import IsolationLevel
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import iterate_batches

KEPT_BYTES: Final = 1 << 30
"""In a directory: two micro-batches of the default size."""
KEPT_FILES: Final = 256
"""Of a partition: there may be few records in each."""
UNREAD_S: Final = 3_600.0
LOOK_EVERY_S: Final = 600.0
DIGITS: Final = 20


class SharedFetches:
    """Of one partition."""

    def __init__(self, directory: Path, topic_id: UUID, partition: int, isolation: IsolationLevel) -> None:
        self._all = directory
        self._locks = directory / "locks"
        self._folder = directory / f"{topic_id.hex}-{partition}-{isolation.value}"

    def fetched(self, offset: int, fetch: Callable[[], FetchedRecords]) -> FetchedRecords:
        """The records from an offset on, or from a little before it; `fetch` asks the broker."""
        found = self._find(offset)
        if found is not None:
            return found
        with self._locked():
            found = self._find(offset)
            if found is None:
                found = fetch()
                with suppress(OSError):  # the disk may be full: then the others fetch for themselves
                    self._keep(offset, found)
            return found

    def _find(self, offset: int) -> FetchedRecords | None:
        for begin, end, name in self._kept():
            if begin <= offset < end:
                with suppress(FileNotFoundError):  # it was the oldest one
                    return _read((self._folder / name).read_bytes())
        return None

    def _kept(self) -> list[tuple[int, int, str]]:
        try:
            names = [name for name in os.listdir(self._folder) if len(name) == 2 * DIGITS + 1]
        except FileNotFoundError:
            return []
        return sorted((int(name[:DIGITS]), int(name[-DIGITS:]), name) for name in names)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._locks.mkdir(parents=True, exist_ok=True)
        with (self._locks / self._folder.name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _keep(self, offset: int, fetched: FetchedRecords) -> None:
        """Under the lock. Nothing is kept of an answer without a whole batch."""
        end = max((header.last_offset + 1 for _, header in iterate_batches(fetched.records)), default=0)
        if fetched.error_code or end <= offset:
            return
        self._folder.mkdir(exist_ok=True)
        new = self._folder / "new"
        with new.open("wb") as file:
            file.write(json.dumps(list(fetched.aborted)).encode() + b"\n")
            file.write(fetched.records)
        new.rename(self._folder / f"{offset:0{DIGITS}}-{end:0{DIGITS}}")
        self._drop_unread()
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        files = sorted((self._folder / name for _, _, name in self._kept()), key=lambda file: -file.stat().st_mtime_ns)
        room = KEPT_BYTES // (len(os.listdir(self._all)) - 1)
        for number, file in enumerate(files):
            room -= file.stat().st_size
            if number and (room < 0 or number >= KEPT_FILES):
                file.unlink()

    def _drop_unread(self) -> None:
        """Now and then: the time of the folder of locks tells when somebody did last."""
        now_s = time.time()
        if now_s - self._locks.stat().st_mtime < LOOK_EVERY_S:
            return
        os.utime(self._locks)
        for folder in self._all.iterdir():
            with suppress(FileNotFoundError):  # another one has removed it
                if folder.stat().st_mtime < now_s - UNREAD_S:
                    shutil.rmtree(folder, ignore_errors=True)


def _read(content: bytes) -> FetchedRecords:
    line = content.index(b"\n")
    aborted = [(producer_id, first) for producer_id, first in json.loads(content[:line])]
    return FetchedRecords(ErrorCode.NONE, -1, -1, -1, aborted, memoryview(content)[line + 1 :])
