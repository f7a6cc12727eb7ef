"""Tables of databases whose rows are replaced by newer ones of their keys, through SQLAlchemy.

One statement compares and writes, so that it counts neither in which order changes come, nor how often, nor from how
many tasks at a time. A row that is deleted stays, marked, so that what was before it cannot bring it back; or it is
removed, which is right where the changes of a key come in their order.

Where each row is a version, a transaction adds those that are not there, and the next one says where versions of these
keys end: where the next one that is there begins. Ends only become earlier. So of two tasks with versions of the same
key, the one whose second transaction is later knows both, and it needs no lock; one that dies between is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Delete,
    Double,
    Engine,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Update,
    bindparam,
    create_engine,
    delete,
    func,
    inspect,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import TypeEngine

from penstock.pipeline.datasource.writer import WRITTEN, in_chunks
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.changes import DELETED, END_AT, TableTarget
from penstock.work.connect.built_in.sql_values import Row, fitting, without_json_nulls

DIALECTS: Final[Mapping[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
IN_BYTE_ORDER: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""For positions: a database's own order of texts may leave out punctuation."""
TYPES: Final[Mapping[str, TypeEngine[Any]]] = {
    "boolean": Boolean(),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), BigInteger()),
    **dict.fromkeys(("float", "double"), Double()),
    "binary": LargeBinary(),
    "date": Date(),
    "timestamp": DateTime(timezone=True),
    "timestamp_ntz": DateTime(),
}
"""Of Spark's names of types; what is not here is text, nested values as JSON."""


def ready(target: TableTarget, columns: Mapping[str, str], *, may_create: bool) -> None:
    """The table has these columns (with Spark's types), or is made with them; PipelineError."""
    wanted = {name: kind for name, kind in columns.items() if name != DELETED or not target.removes}
    wanted |= {END_AT: columns[target.sequence]} if target.keeps_history else {}
    with _connected(target) as engine:
        if may_create and not inspect(engine).has_table(*_named(target)):
            _made(target, wanted).create(engine)
        table = _table(target, engine)
    missing = [name for name in wanted if name not in table.c]
    if missing:
        names = ", ".join(missing)
        raise PipelineError(
            f"Sink {target.name}: table {target.table} has no column {names}: add it, or leave it out by SQL."
        )


def storing(target: TableTarget) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: of each row that is stored comes one with the column `WRITTEN`, which is null."""

    def store(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _connected(target) as engine:
            table: Table | None = None
            for chunk in in_chunks(batches):
                table = _table(target, engine) if table is None else table
                rows = newest(target, chunk.to_pylist())
                for part in (_store, _end if target.keeps_history else _remove):
                    with engine.begin() as connection:
                        part(connection, table, target, rows)
                yield pa.RecordBatch.from_arrays([pa.nulls(chunk.num_rows, pa.bool_())], [WRITTEN])

    return store


def newest(target: TableTarget, rows: Sequence[Row]) -> list[Row]:
    """Of each key the one with the largest sequence (of versions each once), in the order of keys: so tasks cannot wait
    for each other, as a transaction has one statement.
    """
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in target.identity)
        if key not in found or found[key][target.sequence] < row[target.sequence]:
            found[key] = row
    return [found[key] for key in sorted(found)]


def upsert(table: Table, target: TableTarget, columns: Sequence[str], dialect: str) -> Any:
    """One statement for many rows; PipelineError for a database that has none."""
    if dialect not in DIALECTS:
        raise PipelineError(f"Sink {target.name}: {dialect} is none of {', '.join(DIALECTS)}.")
    made = DIALECTS[dialect](table)
    if target.keeps_history:
        return made.on_conflict_do_nothing(index_elements=target.identity)
    known = table.c[target.sequence]
    others = {name: made.excluded[name] for name in columns if name not in target.keys}
    is_newer = or_(known.is_(None), known < made.excluded[target.sequence])
    return made.on_conflict_do_update(index_elements=target.keys, set_=others, where=is_newer)


def removal(table: Table, target: TableTarget) -> Delete:
    """Of rows by the parameters of their keys, and of the sequence."""
    known = table.c[target.sequence]
    until: Any = bindparam(parameter(len(target.keys)))
    return delete(table).where(*_is_key(table, target), or_(known.is_(None), known <= until))


def ending(table: Table, target: TableTarget) -> Update:
    """Of versions by the parameters of their keys: each ends where the next one begins."""
    later, begin, end = table.alias(), table.c[target.sequence], table.c[END_AT]
    are_of_key = [later.c[name] == table.c[name] for name in target.keys]
    next_begin = select(func.min(later.c[target.sequence])).where(*are_of_key, later.c[target.sequence] > begin)
    ends = next_begin.correlate(table).scalar_subquery()
    return (
        update(table)
        .where(*_is_key(table, target), ends.is_not(None), or_(end.is_(None), end > ends))
        .values({END_AT: ends})
    )


def _is_key(table: Table, target: TableTarget) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(parameter(number)) for number, name in enumerate(target.keys)]


def parameter(number: int) -> str:
    """Not by the column's name, which may have any letters, or be another column's beside this one."""
    return f"penstock_parameter_{number}"


def _parameters(row: Row, names: Sequence[str], table: Table, dialect: str) -> Row:
    """As they are stored: else no row would be found by them."""
    stored = fitting({name: row[name] for name in names}, table, dialect)
    return {parameter(number): stored[name] for number, name in enumerate(names)}


def _end(connection: Connection, table: Table, target: TableTarget, rows: Sequence[Row]) -> None:
    dialect = connection.dialect.name
    keys = {tuple(row[name] for name in target.keys): _parameters(row, target.keys, table, dialect) for row in rows}
    if keys:
        connection.execute(ending(table, target), list(keys.values()))


def _store(connection: Connection, table: Table, target: TableTarget, rows: Sequence[Row]) -> None:
    dialect = connection.dialect.name
    kept = [_stored(row, table, target, dialect) for row in rows if not (target.removes and row[DELETED])]
    if kept:
        connection.execute(upsert(table, target, list(kept[0]), dialect), kept)


def _remove(connection: Connection, table: Table, target: TableTarget, rows: Sequence[Row]) -> None:
    names = (*target.keys, target.sequence)
    gone = [row for row in rows if target.removes and row[DELETED]]
    if gone:
        dialect = connection.dialect.name
        connection.execute(removal(table, target), [_parameters(row, names, table, dialect) for row in gone])


def _stored(row: Row, table: Table, target: TableTarget, dialect: str) -> Row:
    return fitting(
        {name: content for name, content in row.items() if name != DELETED or not target.removes}, table, dialect
    )


@contextmanager
def _connected(target: TableTarget) -> Iterator[Engine]:
    """PipelineError with what the database says, or what is missing for it."""
    engine: Engine | None = None
    try:
        engine = create_engine(target.url)
        yield engine
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise PipelineError(f"Sink {target.name}: {str(error).splitlines()[0]}") from error
    finally:
        if engine is not None:
            engine.dispose()


def _named(target: TableTarget) -> tuple[str, str | None]:
    schema, _, name = target.table.rpartition(".")
    return name, schema or None


def _table(target: TableTarget, engine: Engine) -> Table:
    name, schema = _named(target)
    return without_json_nulls(Table(name, MetaData(), schema=schema, autoload_with=engine))


def _made(target: TableTarget, columns: Mapping[str, str]) -> Table:
    name, schema = _named(target)
    made = (Column(one, _type(one, kind, target), primary_key=one in target.identity) for one, kind in columns.items())
    return Table(name, MetaData(), *made, schema=schema)


def _type(column: str, kind: str, target: TableTarget) -> TypeEngine[Any]:
    if kind.startswith("decimal"):
        precision, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return Numeric(int(precision), int(scale))
    return TYPES.get(kind, IN_BYTE_ORDER if column in (target.sequence, END_AT) else Text())
