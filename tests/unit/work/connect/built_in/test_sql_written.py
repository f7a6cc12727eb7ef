"""Records as rows of a database: which are written, which are left out and why, and what tables are made."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, NoSuchTableError, OperationalError
from tests.unit.work.connect.built_in.test_sql_rows import run

from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord
from penstock.work.connect.built_in.sql_sink import SqlSinkTask


def put(path: Path, *records: SinkRecord, **config: str) -> list[str]:
    """What a task of the sink does with these, and what it says it cannot take."""
    task, context = SqlSinkTask(), SinkContext(tolerates=config.get("errors_tolerance") != "none")
    keys = {key.replace("_", "."): value for key, value in config.items()}
    task.start({"connection.url": f"sqlite:///{path}", **keys}, context)
    task.put(records)
    task.stop()
    assert all(record in records for record, _ in context.reported)
    return [str(error) for _, error in context.reported]


def row(key: Any, value: Any) -> SinkRecord:
    return SinkRecord("t", 0, key, value)


UPSERT = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "auto_create": "true"}
INSERT = UPSERT | {"insert_mode": "insert"}


def test_the_last_record_of_a_key_is_its_row(tmp_path: Path) -> None:
    path = tmp_path / "db"
    for _ in range(2):
        put(path, row(1, {"a": "x"}), row(2, {"a": "y"}), row(1, {"a": "z"}), **UPSERT)
    assert run(path, "select id, a from t order by id") == [(1, "z"), (2, "y")]
    put(path, row(1, None), row({"id": 3}, {"a": "new"}), **UPSERT, delete_enabled="true")
    assert run(path, "select id, a from t order by id") == [(2, "y"), (3, "new")]


def test_what_is_no_row_is_left_to_the_error_policy(tmp_path: Path) -> None:
    path = tmp_path / "db"
    wrong = [row(1, "text"), row(None, {"a": "x"}), row(2, {"a": "x"}), row(3, {"other": 1}), row(4, None)]
    reasons = put(path, *wrong, **UPSERT)
    assert len(reasons) == 4
    assert run(path, "select id, a from t") == [(2, "x")]


REFUSED = [row(1, {"a": 1}), row(2, {"a": 200}), row(3, {"a": None}), row(4, {"a": 4}), row(5, {"a": 10**30})]
REFUSED += [row(6, "text"), row(7, {"b": 1})]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_what_the_database_refuses_is_left_out_and_all_else_is_written(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "db"
    run(path, "create table t (id integer primary key, a integer not null check (a < 100))")
    reasons = put(path, *REFUSED, **UPSERT | {"insert_mode": mode})
    assert len(reasons) == 5
    assert run(path, "select id, a from t order by id") == [(1, 1), (4, 4)]


def test_nothing_is_written_where_what_is_refused_is_not_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, "create table t (id integer primary key, a integer not null check (a < 100))")
    with pytest.raises(IntegrityError):
        put(path, *REFUSED[:4], **UPSERT, errors_tolerance="none")
    assert run(path, "select id, a from t") == []


def test_rows_before_one_that_has_to_be_tried_again_are_not_written_twice(tmp_path: Path) -> None:
    """Where each row is written by itself, all are one transaction all the same."""
    path, locked = tmp_path / "db", iter((True,))
    run(path, "create table t (id integer, a integer check (a < 100))")
    task = SqlSinkTask()
    config = {"connection.url": f"sqlite:///{path}", **{key.replace("_", "."): said for key, said in INSERT.items()}}
    task.start(config, SinkContext(tolerates=True))

    @event.listens_for(task._engine, "before_cursor_execute")
    def lock(_: Any, __: Any, statement: str, values: Any, *___: Any) -> None:
        if statement.startswith("INSERT") and tuple(values) == (3, 3) and next(locked, False):
            raise OperationalError(statement, values, Exception("database is locked"))

    records = [row(1, {"a": 1}), row(2, {"a": 1_000}), row(3, {"a": 3})]
    with pytest.raises(RetriableError):
        task.put(records)
    task.put(records)
    task.stop()
    assert run(path, "select id, a from t") == [(1, 1), (3, 3)]


def test_a_row_that_comes_behind_the_deletion_of_its_key_is_there(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, "create table t (id integer, a text)")
    config = INSERT | {"delete_enabled": "true"}
    put(path, row(1, {"a": "old"}), row(2, {"a": "old"}), **config)
    put(path, row(1, None), row(1, {"a": "new"}), row(2, None), **config)
    assert run(path, "select id, a from t") == [(1, "new")]


def test_rows_are_inserted_with_what_their_table_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "db"
    put(path, row(None, {"a": 1, "b": {"c": [2]}, "d": 1.5}), row(None, {"a": 2}), auto_create="true")
    assert run(path, "select a, b, d from t order by a") == [(1, '{"c": [2]}', 1.5), (2, None, None)]


def test_tables_are_made_before_all_rows(tmp_path: Path) -> None:
    """MySQL ends a transaction where one is made."""
    path, task, said = tmp_path / "db", SqlSinkTask(), list[str]()
    keys = {"table.name.format": "to_${topic}", "auto.create": "true"}
    task.start({"connection.url": f"sqlite:///{path}", **keys}, SinkContext())

    @event.listens_for(task._engine, "before_cursor_execute")
    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        said.extend(" ".join(statement.split()[:3]) for word in ("CREATE", "INSERT") if word in statement)

    task.put([SinkRecord(topic, 0, None, {"a": 1}) for topic in ("x", "y", "x")])
    task.stop()
    assert said == ["CREATE TABLE to_x", "CREATE TABLE to_y", "INSERT INTO to_x", "INSERT INTO to_y"]
    assert run(path, "select count(*) from to_x") == [(2,)]


def test_columns_of_a_new_table_are_of_the_kinds_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "db"
    value = {"flag": True, "count": 1, "share": 0.5, "data": b"x", "text": "t", "nested": {"a": 1}, "none": None}
    put(path, row(7, value), row(8, {"count": 2}), **UPSERT)
    kinds = {name: (kind, key) for _, name, kind, _, _, key in run(path, "pragma table_info(t)")}
    assert kinds == {
        "id": ("BIGINT", 1),
        "flag": ("BOOLEAN", 0),
        "count": ("BIGINT", 0),
        "share": ("DOUBLE", 0),
        "data": ("BLOB", 0),
        "text": ("TEXT", 0),
        "nested": ("TEXT", 0),
        "none": ("TEXT", 0),
    }
    put(path.with_name("other"), row("a", {"b": "c"}), **UPSERT)
    assert [one[1:3] for one in run(path.with_name("other"), "pragma table_info(t)")] == [
        ("b", "TEXT"),
        ("id", "VARCHAR(255)"),
    ]


def test_no_table_is_made_where_nobody_says_so(tmp_path: Path) -> None:
    path = tmp_path / "db"
    for record, more in ((row(1, {"a": 1}), {}), (row(1, None), {"delete_enabled": "true"})):
        for tolerance in ("none", "all"):
            with pytest.raises(NoSuchTableError):
                put(path, record, **UPSERT | {"auto_create": "false", "errors_tolerance": tolerance} | more)
    assert run(path, "select count(*) from sqlite_master") == [(0,)]


def test_what_is_deleted_first_needs_no_table(tmp_path: Path) -> None:
    """It is made with the first row, and a topic that was compacted may begin with deletions."""
    path, config = tmp_path / "db", UPSERT | {"delete_enabled": "true"}
    other = row(3, {"a": "z"}).replace(topic="u")
    assert put(path, row(1, None), other, **config) == []
    assert run(path, "select name from sqlite_master where type = 'table'") == [("u",)]
    assert put(path, row(1, None), row(2, {"a": "x"}), row(1, {"a": "y"}), other.replace(value=None), **config) == []
    assert run(path, "select id, a from t order by id") == [(1, "y"), (2, "x")]
    assert run(path, "select * from u") == []
    assert put(path, row(2, None), **config) == []
    assert run(path, "select id from t") == [(1,)]


@pytest.mark.parametrize(
    ("config", "record", "reason"),
    [
        ({}, row(1, None), "a record without a value needs delete.enabled and pk.mode=record_key"),
        (UPSERT, row(1, None), "a record without a value needs delete.enabled and pk.mode=record_key"),
        (UPSERT, row(1, [1]), "a row is an object with columns, not [1]"),
        (UPSERT, row(None, {"a": 1}), "the key has no id"),
        (UPSERT | {"pk_fields": "id,n"}, row(1, {"a": 1}), "the key has no n"),
        (UPSERT | {"pk_fields": "id,n"}, row({"x": 1}, {"a": 1}), "the key has no id or no n"),
        (UPSERT | {"pk_mode": "record_value"}, row(1, {"a": 1}), "the key has no id"),
        (
            UPSERT | {"pk_mode": "record_value", "delete_enabled": "true"},
            row(1, None),
            "a record without a value needs delete.enabled and pk.mode=record_key",
        ),
    ],
)
def test_what_is_no_row_is_told_with_the_reason(
    tmp_path: Path, config: dict[str, str], record: SinkRecord, reason: str
) -> None:
    assert put(tmp_path / "db", record, **config) == [reason]


@pytest.mark.parametrize(
    ("config", "key", "value", "found"),
    [
        ({"pk_mode": "record_key"}, {"id": 1, "more": 2}, {"a": "x"}, (1, "x")),
        ({"pk_mode": "record_key"}, 1, {"a": "x", "id": 5}, (1, "x")),
        ({"pk_mode": "record_value"}, 9, {"a": "x", "id": 5}, (5, "x")),
        ({"pk_mode": "none"}, 9, {"a": "x", "id": 5}, (5, "x")),
    ],
)
def test_which_key_a_row_has(tmp_path: Path, config: dict[str, str], key: Any, value: Any, found: Any) -> None:
    path = tmp_path / "db"
    run(path, "create table t (id integer primary key, a text)")
    assert put(path, row(key, value), **INSERT | config) == []
    assert run(path, "select id, a from t") == [found]
