"""The process in which a node compacts: a round comes in, its steps go out, the node swaps in what was written.

It has no part in what the node knows, and reads and writes nothing but the segments that a round names. It gives way
to the node, and ends with it. Values travel pickled, each behind its length; an error is sent instead of a step.
"""

import fcntl
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from penstock.log.compaction.cleaning import run_round
from penstock.log.compaction.idle_cores import on_idle_cores
from penstock.log.compaction.keys import Keys
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.rounds import Moved, Round
from penstock.log.compaction.wire import LENGTH_BYTES, pack
from penstock.log.disk import Disk

NICENESS = 19


def read(stream: BinaryIO) -> Any:
    """None at the end of the stream."""
    length = stream.read(LENGTH_BYTES)
    return pickle.loads(stream.read(int.from_bytes(length, "big"))) if length else None


class Pace:
    """It waits so that no more bytes are moved than a limit allows."""

    def __init__(self, bytes_per_s: float, now_s: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._bytes_per_s = bytes_per_s
        self._now_s = now_s
        self._sleep = sleep
        self._began_s = now_s()
        self._moved = 0

    def note(self, count: int) -> None:
        self._moved += count
        ahead_s = self._moved / self._bytes_per_s - (self._now_s() - self._began_s)
        if ahead_s > 0:
            self._sleep(ahead_s)


def make_keys(work: Round) -> Keys:
    try:
        from penstock.log.compaction.compiled_keys import CompiledKeys  # numba is an extra, and takes a second
    except ImportError:
        return PlainKeys(work.dedupe_bytes, work.load_factor)
    return CompiledKeys(work.dedupe_bytes, work.load_factor)


@contextmanager
def alone(directory: str) -> Iterator[None]:
    """Wait until no other process compacts that log: that of a killed node may still run."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def serve(source: BinaryIO, target: BinaryIO, is_wanted: Callable[[], bool]) -> None:
    """It ends when the node closes `source`."""
    disk = Disk()
    while (task := read(source)) is not None:
        pace = Pace(task.bytes_per_s, time.monotonic, time.sleep)
        try:
            with alone(task.work.directory):
                for step in on_idle_cores(run_round(task.work, make_keys(task.work), disk)):
                    if not is_wanted():
                        return
                    if isinstance(step, Moved):
                        pace.note(step.count)
                        continue
                    target.write(pack(step))
                    target.flush()
        except Exception as error:
            target.write(pack(error))
            target.flush()


if __name__ == "__main__":
    parent = os.getppid()
    os.nice(NICENESS)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer, lambda: os.getppid() == parent)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the node is gone
