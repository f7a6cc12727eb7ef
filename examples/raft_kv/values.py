"""Where a server keeps the values that it has applied: in a dictionary, or in a table of an SQLite file.

Neither has to outlive the process: the log and its snapshots do, and a server that starts makes its store from them. So
SQLite is told not to wait for the disk. What the file gives is room: it may hold more than fits into memory.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class Values(Protocol):
    """Keys and their values."""

    def get(self, key: bytes) -> bytes | None: ...

    def __setitem__(self, key: bytes, value: bytes) -> None: ...

    def items(self) -> Iterable[tuple[bytes, bytes]]: ...

    def close(self) -> None:
        """They are given up."""


class MemoryValues(dict[bytes, bytes]):
    """In a dictionary."""

    def close(self) -> None:
        """The garbage collector does it."""


class SqliteValues:
    """In a new file of this name; `close` removes it."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._database = sqlite3.connect(path, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE store (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        ):
            self._database.execute(statement)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        row = self._database.execute("SELECT value FROM store WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._database.execute("INSERT OR REPLACE INTO store VALUES (?, ?)", (key, value))

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """All of them, in the order of the keys."""
        return self._database.execute("SELECT key, value FROM store ORDER BY key")

    def close(self) -> None:
        """The file goes."""
        self._database.close()
        self._path.unlink(missing_ok=True)


class SqliteFiles:
    """Makes the values of one store after the other in a directory; the old ones may live while new ones are filled."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._made = 0

    def __call__(self) -> SqliteValues:
        self._made += 1
        return SqliteValues(self._directory / f"store.{self._made % 2}.sqlite3")
