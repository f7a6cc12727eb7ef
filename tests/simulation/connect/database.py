"""A database outside of the cluster, which fails as well: a real one (SQLite), behind connections that are cut.

Before and after each step of a client (a statement, some rows of its answer, a commit) the database may be down, the
connection may be cut, or the client's process may be killed. What that process had not committed is then rolled back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from penstock.testing.simulator.loop import KilledError, current_process

_OPEN: dict[str, Database] = {}


class Database:
    def __init__(self, path: Path, random: Random, kill: Callable[[str], None]) -> None:
        """`kill` ends the process of this host."""
        self.path = path
        self.url = f"outside:///{path.name}"
        self.is_down = False
        self.cuts = 0.0
        """The share of steps at which a connection is cut."""
        self.part_cuts = random.choice((0.1, 0.3))
        """The share of cuts while an answer is read part by part, as SQLAlchemy reads one that is streamed."""
        self.kill_in: int | None = None
        """After so many steps whoever makes the next one is killed."""
        self._random = random
        self._kill = kill
        self._connections: list[tuple[object, Connection]] = []
        self._own = sqlite3.connect(path, timeout=0, isolation_level=None)
        self._own.execute("pragma journal_mode=wal")
        self._own.execute("pragma synchronous=off")
        _OPEN[path.name] = self

    def run(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """By those who do not fail: the application and the rules."""
        return self._own.execute(statement, parameters).fetchall()

    def heal(self) -> None:
        self.is_down, self.cuts, self.part_cuts, self.kill_in = False, 0.0, 0.0, None

    def opened(self, connection: Connection) -> None:
        self._connections.append((current_process(), connection))

    def step(self, is_part: bool = False) -> None:
        process = current_process()
        if self.kill_in is not None and process is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                self._kill(process.host)
                self.died(process)
                raise KilledError(process.host)
        if self.is_down or self._random.random() < max(self.cuts, self.part_cuts * is_part):
            raise sqlite3.OperationalError("the connection was cut")

    def died(self, process: object) -> None:
        """A server rolls back what the connections of a client that is gone had begun."""
        for owner, connection in self._connections:
            if owner is process:
                with suppress(sqlite3.ProgrammingError):  # it was closed
                    connection.rollback()

    def close(self) -> None:
        for _, connection in self._connections:
            connection.close()
            del connection.database  # SQLAlchemy never forgets one that was in use
        self._own.close()
        del _OPEN[self.path.name]


class Connection(sqlite3.Connection):
    def __init__(self, path: str, *arguments: Any, **options: Any) -> None:
        self.database = _OPEN[Path(path).name]
        self.database.step()
        super().__init__(self.database.path, *arguments, **(options | {"timeout": 0}))
        self.database.opened(self)

    def cursor(self, factory: object = None) -> Cursor:  # type: ignore[override]  # SQLAlchemy gives none
        return super().cursor(Cursor)

    def commit(self) -> None:
        """Cut behind it, the client does not know whether it took place."""
        self.database.step()
        super().commit()
        self.database.step()


class Cursor(sqlite3.Cursor):
    def execute(self, *arguments: Any) -> Any:
        return self._between(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self._between(super().executemany, *arguments)

    def fetchone(self) -> Any:
        return self._between(super().fetchone)

    def fetchmany(self, *arguments: Any) -> Any:
        return self._between(super().fetchmany, *arguments, is_part=True)

    def fetchall(self) -> Any:
        return self._between(super().fetchall)

    def _between(self, operation: Callable[..., Any], *arguments: Any, is_part: bool = False) -> Any:
        database = self.connection.database  # type: ignore[attr-defined]
        database.step(is_part)
        outcome = operation(*arguments)
        database.step()
        return outcome


class OutsideDialect(SQLiteDialect_pysqlite):
    """`outside:///NAME` is a database of this module, whose path is another one in each run."""

    supports_statement_cache = True

    def connect(self, *arguments: Any, **options: Any) -> Any:
        return super().connect(*arguments, **options, factory=Connection)


registry.register("outside", __name__, "OutsideDialect")
