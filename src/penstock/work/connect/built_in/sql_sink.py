"""Records as rows of tables, through SQLAlchemy: what one `put` brings is written in one transaction.

| `insert.mode` | what a record does |
| --- | --- |
| `insert` | a row more |
| `upsert` | the row of its key is this; a crash then writes nothing twice |

The key is the record's (`pk.mode=record_key`) or fields of its value (`record_value`), by the columns `pk.fields`. With
`delete.enabled` a record without a value deletes the row of its key. A row that the database refuses, for it breaks a
rule of its table or is of another type, goes the way of `errors.tolerance`, and all others are written.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Double,
    Executable,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    and_,
    create_engine,
    delete,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from penstock.work.connect.api import RetriableError, SinkConnector, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.built_in.sql_values import Row, fitting, may_pass, without_json_nulls
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.kept import keep

KEYS: Final = (
    ConfigKey(
        "connection.url", "password", required=True, documentation="where the database is, as SQLAlchemy says it"
    ),
    ConfigKey("insert.mode", default="insert", documentation="What a record does.", choices=("insert", "upsert")),
    ConfigKey("pk.mode", default="none", documentation="Keys.", choices=("none", "record_key", "record_value")),
    ConfigKey("pk.fields", "list", (), "The columns of the key."),
    ConfigKey("table.name.format", default="${topic}", documentation="The table's name."),
    ConfigKey("auto.create", "boolean", False, "Whether a table that is not there is made, by its first record."),
    ConfigKey("delete.enabled", "boolean", False, "Whether a record without a value deletes the row of its key."),
)
Key = tuple[Any, ...]
Wanted = tuple[SinkRecord, Key, Row | None]
"""A record and what becomes of the row of its key; None deletes it."""
Rows = dict[str, list[Wanted]]
LONGEST_KEY: Final = 255
MYSQL: Final = ("mysql", "mariadb")
AS_SAID: Final = (
    "SET time_zone = '+00:00', "
    "sql_mode = concat_ws(',', nullif(@@sql_mode, ''), 'NO_AUTO_VALUE_ON_ZERO', 'STRICT_ALL_TABLES')"
)
"""Else MySQL takes moments for columns of TIMESTAMP in the session's zone, makes another number of a key that is 0, and
where its server is not strict it cuts off what is too long.
"""
BEGINNINGS: Final = {"sqlite": "BEGIN IMMEDIATE"} | dict.fromkeys(MYSQL, AS_SAID)
"""What comes first in a transaction. Without it a savepoint of SQLite's driver is a transaction of its own."""
LONG_TEXT: Final = Text().with_variant(mysql.LONGTEXT(), *MYSQL)
LONG_BYTES: Final = LargeBinary().with_variant(mysql.LONGBLOB(), *MYSQL)


class SqlSinkTask(SinkTask):
    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        self._settings = parse(KEYS, config)
        self._context = context
        self._engine = create_engine(self._settings["connection.url"])
        self._tables: dict[str, Table] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """A database that cannot be reached is tried again. If it refuses something, each row is written by itself."""
        rows: Rows = {}
        for record in records:
            try:
                key, row = self._row(record)
                name = self._settings["table.name.format"].replace("${topic}", record.topic)
                rows.setdefault(name, []).append((record, key, row))
            except ValueError as error:
                self._context.report(record, error)
        unusable = len(self._context.reported)
        try:
            self._write_all(rows, self._write)
        except RetriableError:
            raise
        except Exception:
            if not self._context.tolerates:
                raise
            del self._context.reported[unusable:]
            self._write_all(rows, self._write_each)

    def stop(self) -> None:
        self._engine.dispose()

    def _write_all(self, rows: Rows, write: Callable[[Connection, str, list[Wanted]], None]) -> None:
        """In one transaction; RetriableError, and what the database refuses.

        Tables that it makes belong to it, or (of MySQL) end it: so they come before all rows.
        """
        try:
            with self._engine.begin() as connection:
                if connection.dialect.name in BEGINNINGS:
                    connection.exec_driver_sql(BEGINNINGS[connection.dialect.name])
                mine_of = {name: mine for name, mine in rows.items() if self._can_be_there(connection, name, mine)}
                for name, mine in mine_of.items():
                    self._table(connection, name, _example(mine))
                for name, mine in mine_of.items():
                    write(connection, name, mine)
        except Exception as error:
            self._tables.clear()
            if isinstance(error, DBAPIError) and may_pass(error):
                raise RetriableError(str(error)) from error
            raise

    def _write_each(self, connection: Connection, name: str, mine: list[Wanted]) -> None:
        """Leaves out what the database refuses, and is told so of each row, not at the end of the transaction."""
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
        for one in mine:
            try:
                with connection.begin_nested():
                    self._write(connection, name, [one])
            except Exception as error:
                if isinstance(error, DBAPIError) and may_pass(error):
                    raise
                self._context.report(one[0], error)

    def _row(self, record: SinkRecord) -> tuple[Key, Row | None]:
        """The key and the row that a record stands for, None to delete it; ValueError."""
        fields, mode, value = self._settings["pk.fields"], self._settings["pk.mode"], record.value
        if value is None and not (self._settings["delete.enabled"] and mode == "record_key"):
            raise ValueError("a record without a value needs delete.enabled and pk.mode=record_key")
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"a row is an object with columns, not {value!r}")
        if mode == "none":
            return (), dict(value or {})
        whole = record.key if mode == "record_key" else value
        named = whole if isinstance(whole, dict) else dict.fromkeys(fields[:1], whole)
        if any(named.get(field) is None for field in fields):
            raise ValueError(f"the key has no {' or no '.join(field for field in fields if named.get(field) is None)}")
        key = {field: named[field] for field in fields}
        return tuple(key.values()), None if value is None else {**value, **key}

    def _write(self, connection: Connection, name: str, mine: list[Wanted]) -> None:
        table = self._table(connection, name, _example(mine))
        fits: list[tuple[Key, Row | None]] = []
        for record, key, row in mine:
            try:
                fits.append((key, None if row is None else fitting(row, table, connection.dialect.name)))
            except ValueError as error:
                self._context.report(record, error)
        inserts = self._settings["insert.mode"] == "insert"
        for is_inserted, part in groupby(fits, lambda one: inserts and one[1] is not None):
            if is_inserted:
                for columns, rows in _by_columns([row for _, row in part if row is not None]).items():
                    connection.execute(insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
                continue
            for key, wanted in dict(part).items():
                self._change(connection, table, key, wanted)

    def _change(self, connection: Connection, table: Table, key: Key, row: Row | None) -> None:
        fields = self._settings["pk.fields"]
        parts = fitting(dict(zip(fields, key, strict=True)), table, connection.dialect.name)
        here = and_(*(table.c[field] == part for field, part in parts.items()))
        if row is None:
            connection.execute(delete(table).where(here))
            return
        others = {column: content for column, content in row.items() if column not in fields}
        made = _upsert(connection.dialect.name, table, row, others, fields)
        if made is not None:
            connection.execute(made)
        elif others:
            if connection.execute(update(table).where(here).values(others)).rowcount == 0:
                connection.execute(insert(table).values(row))
        elif connection.execute(select(table).where(here)).first() is None:
            connection.execute(insert(table).values(row))

    def _can_be_there(self, connection: Connection, name: str, mine: list[Wanted]) -> bool:
        """From a table that is made when its first row comes nothing can be deleted before that."""
        return (
            name in self._tables
            or not self._settings["auto.create"]
            or bool(_example(mine))
            or inspect(connection).has_table(name)
        )

    def _table(self, connection: Connection, name: str, example: Row) -> Table:
        if name in self._tables:
            return self._tables[name]
        if self._settings["auto.create"] and example and not inspect(connection).has_table(name):
            self._create(connection, name, example)
        return keep(self._tables, name, without_json_nulls(Table(name, MetaData(), autoload_with=connection)))

    def _create(self, connection: Connection, name: str, example: Row) -> None:
        """Another task may do the same at this moment."""
        fields = self._settings["pk.fields"]
        columns = [
            Column(
                one, _kind(of, _key_text(connection.dialect) if one in fields else LONG_TEXT), primary_key=one in fields
            )
            for one, of in example.items()
        ]
        try:
            with connection.begin_nested():
                Table(name, MetaData(), *columns).create(connection)
        except DBAPIError:
            if not inspect(connection).has_table(name):
                raise


class SqlSinkConnector(SinkConnector):
    """As many tasks as are allowed: the partitions are spread over them."""

    config_keys = KEYS
    task_class: ClassVar[type[SinkTask]] = SqlSinkTask

    def start(self, config: Mapping[str, str]) -> None:
        """`upsert` and deletion need a key."""
        super().start(config)
        settings = parse(KEYS, config)
        needs_key = settings["insert.mode"] == "upsert" or settings["delete.enabled"]
        if needs_key and settings["pk.mode"] == "none":
            raise ConfigError({"pk.mode": ["pk.mode=none: insert.mode=upsert and delete.enabled=true need a key"]})
        if settings["pk.mode"] != "none" and not settings["pk.fields"]:
            raise ConfigError({"pk.fields": [f"pk.fields is missing: pk.mode={settings['pk.mode']} needs it"]})

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


def _example(mine: list[Wanted]) -> Row:
    """What a table that is not there is made like."""
    return next((row for _, _, row in mine if row is not None), {})


def _upsert(dialect: str, table: Table, row: Row, others: Row, fields: Sequence[str]) -> Executable | None:
    """In one statement; None for a dialect that has none of its own. `others` are the columns beside the key."""
    match dialect:
        case "sqlite":
            made: Any = sqlite.insert(table).values(row)
        case "postgresql":
            made = postgresql.insert(table).values(row)
        case "mysql" | "mariadb":
            nothing = {fields[0]: table.c[fields[0]]}
            return mysql.insert(table).values(row).on_duplicate_key_update(others or nothing)
        case _:
            return None
    if not others:
        return made.on_conflict_do_nothing(index_elements=fields)  # type: ignore[no-any-return]
    return made.on_conflict_do_update(index_elements=fields, set_=others)  # type: ignore[no-any-return]


def _by_columns(rows: list[Row]) -> dict[tuple[str, ...], list[tuple[Any, ...]]]:
    """Rows grouped so that one statement can write each group."""
    found: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(tuple(row), []).append(tuple(row.values()))
    return found


def _key_text(dialect: Dialect) -> TypeEngine[Any]:
    """Where keys are equal as records' keys are: MySQL's own order of texts takes `A`, `a` and `a ` for one."""
    if dialect.name not in MYSQL:
        return String(LONGEST_KEY)
    collation = "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
    return mysql.VARCHAR(LONGEST_KEY, charset="utf8mb4", collation=collation)


def _kind(content: Any, text: TypeEngine[Any]) -> TypeEngine[Any]:
    match content:
        case bool():
            return Boolean()
        case int():
            return BigInteger()
        case float():
            return Double()
        case bytes():
            return LONG_BYTES
        case _:
            return text
