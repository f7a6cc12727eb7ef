"""Tables whose rows are replaced by newer ones of their keys: in SQLite as it is, for PostgreSQL by its statements."""

import random
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Boolean, Column, Engine, MetaData, Table, Text, create_engine, event
from sqlalchemy.dialects import postgresql
from tests.spark.changes import history, last_rows, shuffled_and_doubled, versions_of

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.database_tables import ending, ready, removal, storing, upsert
from penstock.pipeline.spec.changes import TableTarget

COLUMNS = {"id": "bigint", "name": "string", "amount": "double", "__position": "string", "__deleted": "boolean"}


@pytest.fixture
def target(tmp_path: Path) -> TableTarget:
    return TableTarget("shop", f"sqlite:///{tmp_path / 'shop.db'}", "customers", ("id",), "__position", removes=False)


def rows_in(target: TableTarget, columns: str = "*", where: str = "1") -> list[tuple[Any, ...]]:
    with sqlite3.connect(target.url.removeprefix("sqlite:///")) as database:
        return database.execute(f"SELECT {columns} FROM {target.table} WHERE {where} ORDER BY id").fetchall()


def store(target: TableTarget, changes: Sequence[Any]) -> int:
    """What a task does with two batches; how many rows it says it has stored."""
    rows = [{**one["row"], target.sequence: f"{one['lsn']:020}", "__deleted": one["op"] == "d"} for one in changes]
    half = len(rows) // 2
    batches = [pa.RecordBatch.from_pylist(part) for part in (rows[:half], rows[half:]) if part]
    return sum(batch.num_rows for batch in storing(target)(iter(batches)))


@pytest.mark.parametrize("seed", range(5))
def test_in_any_order_and_however_often_the_end_is_the_same(target: TableTarget, seed: int) -> None:
    changes = history(seed, rows=10, length=120)
    ready(target, COLUMNS, may_create=True)
    given = shuffled_and_doubled(changes, seed)
    cut = random.Random(seed).randrange(len(given))
    assert store(target, given[:cut]) + store(target, given[cut:]) == len(given)
    after = rows_in(target)
    store(target, given[:cut])  # once more, as after a crash
    assert rows_in(target) == after
    assert rows_in(target, "id, name, amount", "NOT __deleted") == last_rows(changes)


def test_changes_in_their_order_remove_rows(target: TableTarget) -> None:
    changes = history(7, rows=10, length=120)
    target = target.replace(removes=True)
    ready(target, COLUMNS, may_create=True)
    store(target, changes[:90])
    store(target, changes[60:])  # from some way back, as after a crash
    assert rows_in(target, "id, name, amount") == last_rows(changes)
    late = [{"lsn": 1, "op": "d", "row": one["row"]} for one in changes]
    store(target, late)
    assert rows_in(target, "id, name, amount") == last_rows(changes)


def test_no_transaction_has_the_keys_of_two_statements(target: TableTarget) -> None:
    """Tasks that write the same rows, each in the order of keys, would else wait for each other."""
    target = target.replace(removes=True)
    ready(target, COLUMNS, may_create=True)
    said: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement.split()[0])

    def end(connection: Any) -> None:
        said.append("commit")

    event.listen(Engine, "before_cursor_execute", note)
    event.listen(Engine, "commit", end)
    try:
        kept, gone = ({"id": key, "name": "n", "amount": 0.0} for key in (2, 1))
        rows = [{"lsn": 1, "op": "u", "row": kept}, {"lsn": 2, "op": "d", "row": gone}]
        store(target, [*rows[:1], *rows])
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        event.remove(Engine, "commit", end)
    assert [one for one in said if one in ("INSERT", "DELETE", "commit")][-3:] == ["commit", "DELETE", "commit"]


VERSIONS = "id, name, __START_AT, coalesce(__END_AT, ''), __deleted = 1"


@pytest.fixture
def versioned(target: TableTarget) -> TableTarget:
    target = target.replace(sequence="__START_AT", keeps_history=True)
    ready(
        target,
        {"__START_AT" if name == "__position" else name: kind for name, kind in COLUMNS.items()},
        may_create=True,
    )
    return target


@pytest.mark.parametrize("seed", range(5))
def test_versions_are_the_same_in_any_order_and_however_often(versioned: TableTarget, seed: int) -> None:
    changes = history(seed, rows=10, length=120)
    given = shuffled_and_doubled(changes, seed)
    cut = random.Random(seed).randrange(len(given))
    store(versioned, given[:cut])
    store(versioned, given[cut:])
    store(versioned, given[:cut])  # once more, as after a crash
    assert sorted(rows_in(versioned, VERSIONS)) == versions_of(changes)


def test_a_task_that_died_between_its_transactions_runs_again(versioned: TableTarget) -> None:
    changes = history(3, rows=3, length=30)
    store(versioned, changes[:20])
    with create_engine(versioned.url).begin() as connection:
        rows = [(one["row"]["id"], one["row"]["name"], f"{one['lsn']:020}", one["op"] == "d") for one in changes[20:]]
        connection.exec_driver_sql("INSERT INTO customers (id, name, __START_AT, __deleted) VALUES (?, ?, ?, ?)", rows)
    assert sorted(rows_in(versioned, VERSIONS)) != versions_of(changes)
    store(versioned, changes[20:])
    assert sorted(rows_in(versioned, VERSIONS)) == versions_of(changes)


def test_a_task_that_knows_less_makes_no_end_later(versioned: TableTarget) -> None:
    """As one would whose statement began before another task's rows were there."""
    store(versioned, [{"lsn": lsn, "op": "u", "row": {"id": 1, "name": "n"}} for lsn in (1, 5)])
    with create_engine(versioned.url).begin() as connection:
        connection.exec_driver_sql("UPDATE customers SET __END_AT = '00000000000000000003' WHERE __END_AT IS NOT NULL")
    store(versioned, [{"lsn": 9, "op": "u", "row": {"id": 1, "name": "n"}}])
    assert [row[3][-1:] for row in sorted(rows_in(versioned, VERSIONS))] == ["3", "9", ""]


@pytest.mark.parametrize("removes", [False, True])
def test_columns_may_have_any_names(target: TableTarget, removes: bool) -> None:
    """Also such as a library makes of others for its parameters."""
    keys, kinds = ("a.b", "a_b", 'x"; --'), {"of_a_b": "string", "of_id": "string", "%(id)s :id": "string"}
    target = target.replace(keys=keys, removes=removes, keeps_history=not removes, sequence="__START_AT")
    columns = {**dict.fromkeys(keys, "bigint"), **kinds, "__START_AT": "string", "__deleted": "boolean"}
    ready(target, columns, may_create=True)
    row = {"a.b": 1, "a_b": 2, 'x"; --': 3, **dict.fromkeys(kinds, "v"), "__deleted": False}
    later = {**row, "__START_AT": "2"}
    rows = [{**row, "__START_AT": "1"}, {**later, "__deleted": removes}, {**later, "a_b": 4}]
    for one in rows:
        list(storing(target)(iter([pa.RecordBatch.from_pylist([one])])))
    with sqlite3.connect(target.url.removeprefix("sqlite:///")) as database:
        found = database.execute('SELECT "a.b", "a_b", __START_AT, of_id FROM customers ORDER BY 2, 3').fetchall()
        ends = [] if removes else database.execute("SELECT __END_AT FROM customers ORDER BY a_b, __START_AT").fetchall()
    versions = [] if removes else [(1, 2, "1", "v"), (1, 2, "2", "v")]
    assert (found, ends) == ([*versions, (1, 4, "2", "v")], [] if removes else [("2",), (None,), (None,)])


def test_a_table_is_made_with_the_types_of_its_columns(target: TableTarget) -> None:
    kinds = {"at": "timestamp", "price": "decimal(10,2)", "tags": "array<string>", "raw": "binary", "day": "date"}
    ready(target, COLUMNS | kinds, may_create=True)
    row: dict[str, Any] = {"id": 1, "name": None, "amount": 1.5, "__position": "1", "__deleted": False}
    row |= {"at": datetime(2026, 1, 31, tzinfo=UTC), "price": Decimal("1.25"), "tags": ["a"], "raw": b"\0", "day": None}
    list(storing(target)(iter([pa.RecordBatch.from_pylist([row])])))
    assert rows_in(target, "at, price, tags, raw") == [("2026-01-31 00:00:00.000000", 1.25, '["a"]', b"\0")]


def test_what_does_not_fit_is_told(target: TableTarget) -> None:
    with pytest.raises(PipelineError, match="Sink shop: customers"):
        ready(target, COLUMNS, may_create=False)
    ready(target, {"id": "bigint", "__position": "string"}, may_create=True)
    with pytest.raises(PipelineError, match="table customers has no column name, amount, __deleted: add it, or leave"):
        ready(target, COLUMNS, may_create=True)
    with pytest.raises(PipelineError, match="mysql is none of sqlite, postgresql"):
        upsert(Table("t", MetaData(), Column("__position", Text())), target, [], "mysql")
    with pytest.raises(PipelineError, match="Sink shop: Could not parse SQLAlchemy URL"):
        ready(target.replace(url="nonsense"), COLUMNS, may_create=False)


def test_a_row_that_was_there_without_a_position_is_replaced(target: TableTarget) -> None:
    ready(target, COLUMNS, may_create=True)
    with create_engine(target.url).begin() as connection:
        connection.exec_driver_sql("INSERT INTO customers (id, name) VALUES (1, 'by hand')")
    store(target, [{"lsn": 1, "op": "r", "row": {"id": 1, "name": "new", "amount": 0.0}}])
    assert rows_in(target, "id, name") == [(1, "new")]


def test_postgresql_compares_and_writes_in_one_statement(target: TableTarget) -> None:
    columns = [
        Column("id", Text()),
        Column("name", Text()),
        Column("__position", Text()),
        Column("__deleted", Boolean()),
    ]
    table, dialect = Table("customers", MetaData(), *columns, schema="shop"), postgresql.dialect()  # type: ignore[no-untyped-call]
    said = str(upsert(table, target, [column.name for column in columns], "postgresql").compile(dialect=dialect))
    assert " ".join(said.split("ON CONFLICT")[1].split()) == (
        "(id) DO UPDATE SET name = excluded.name, __position = excluded.__position, __deleted = excluded.__deleted "
        "WHERE shop.customers.__position IS NULL OR shop.customers.__position < excluded.__position"
    )
    history = target.replace(sequence="__START_AT", keeps_history=True)
    versions = Table("customers", MetaData(), *(Column(name, Text()) for name in ("id", "__START_AT", "__END_AT")))
    added = str(upsert(versions, history, ["id", "__START_AT"], "postgresql").compile(dialect=dialect))
    assert 'ON CONFLICT (id, "__START_AT") DO NOTHING' in added
    ended = " ".join(str(ending(versions, history).compile(dialect=dialect)).split())
    assert 'WHERE customers_1.id = customers.id AND customers_1."__START_AT" > customers."__START_AT")' in ended
    gone = str(removal(table, target).compile(dialect=dialect))
    assert "shop.customers.id = %(penstock_parameter_0)s::VARCHAR AND (shop.customers.__position IS NULL OR" in gone
