"""Runs a program whose connections to sqlite kill it: python killed.py FILE STEP SERVERS.

Steps are counted over all that the program asks of its database: before and after each statement, and each commit.
"""

import itertools
import os
import runpy
import signal
import sqlite3
import sys
from typing import Any

FILE, STEP, SERVERS = sys.argv[1], int(sys.argv[2]), sys.argv[3]
COUNT = itertools.count(1)


def step() -> None:
    if next(COUNT) == STEP:
        os.kill(os.getpid(), signal.SIGKILL)


class Cursor(sqlite3.Cursor):
    def execute(self, *words: Any) -> Any:
        step()
        found = super().execute(*words)
        step()
        return found


class Connection(sqlite3.Connection):
    def cursor(self, *_: Any) -> Any:
        return super().cursor(Cursor)

    def execute(self, *words: Any) -> Any:
        step()
        found = super().execute(*words)
        step()
        return found

    def executemany(self, *words: Any) -> Any:
        step()
        found = super().executemany(*words)
        step()
        return found

    def commit(self) -> None:
        step()
        super().commit()
        step()

    def __exit__(self, kind: Any, *_: Any) -> Any:
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False


real = sqlite3.connect
sqlite3.connect = lambda *words, **more: real(*words, factory=Connection, **more)  # type: ignore[assignment]
sys.argv = [FILE, SERVERS]
runpy.run_path(FILE, run_name="__main__")
