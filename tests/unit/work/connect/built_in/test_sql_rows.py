"""Rows of a database as records and back: which come, which come again, and which must not."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError

from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord, SourceContext
from penstock.work.connect.built_in.sql_sink import SqlSinkConnector, SqlSinkTask
from penstock.work.connect.built_in.sql_source import SqlSourceConnector, SqlSourceTask
from penstock.work.connect.config import ConfigError


def run(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


def reading(path: Path, **more: str) -> dict[str, str]:
    return {
        "connection.url": f"sqlite:///{path}",
        "table.whitelist": "t",
        "incrementing.column.name": "id",
        "timestamp.column.name": "at",
        "poll.interval.ms": "0",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class Source:
    """A task of the source, by hand: what it reads, and where it would go on after each record."""

    def __init__(self, config: dict[str, str], offset: Any = None) -> None:
        self.task = SqlSourceTask()
        self.task.start(config, SourceContext(lambda _: offset))

    def poll(self) -> list[tuple[int, Any]]:
        return [(record.value["id"], dict(record.source_offset)) for record in self.task.poll()]


TABLE = "create table t (id integer primary key, name text, at timestamp)"


def at(*rows: tuple[int, int]) -> str:
    values = ", ".join(f"({number}, 'n', '2020-01-01 00:00:0{second}.000000')" for number, second in rows)
    return f"insert into t values {values}"


def moment(second: int) -> dict[str, str]:
    return {"timestamp": f"2020-01-01 00:00:0{second}.000000"}


def test_new_rows_come_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE, at((1, 1), (2, 1), (3, 1)))
    source = Source(reading(path, mode="incrementing", batch_max_rows="2"))
    assert source.poll() == [(1, {"incrementing": 1}), (2, {"incrementing": 2})]
    assert source.poll() == [(3, {"incrementing": 3})]
    assert source.poll() == []
    run(path, at((4, 1)), "update t set name = 'changed' where id = 1")
    assert source.poll() == [(4, {"incrementing": 4})]
    assert [number for number, _ in Source(reading(path, mode="incrementing"), {"incrementing": 2}).poll()] == [3, 4]


def test_changed_rows_come_by_their_moment_and_none_of_the_same_moment_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE, at((1, 1), (2, 2), (3, 2), (4, 3)))
    source = Source(reading(path, mode="timestamp", batch_max_rows="2"))
    first = source.poll()
    assert first == [(1, {}), (2, moment(1))]
    after_a_crash = Source(reading(path, mode="timestamp"), first[-1][1])
    assert [number for number, _ in after_a_crash.poll()] == [2, 3, 4]
    assert source.poll() == [(3, moment(1)), (4, moment(2))]
    assert source.poll() == []
    run(path, "update t set at = '2020-01-01 00:00:05.000000' where id = 1")
    assert source.poll() == [(1, moment(3))]


def test_both_tell_rows_of_one_moment_apart(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE, at((1, 1), (2, 2), (3, 2)))
    config = reading(path, mode="timestamp+incrementing")
    assert [number for number, _ in Source(config).poll()] == [1, 2, 3]
    assert [number for number, _ in Source(config, {"incrementing": 2, **moment(2)}).poll()] == [3]


FORMS = ("{} {}", "{} {}.5", "{} {}.500", "{} {}.000000", "{}T{}", "{}T{}.5", "{}T{}Z", "{}T{}+02:00")
"""In which SQLite's columns of moments have them."""


@pytest.mark.parametrize("form", FORMS)
def test_moments_are_the_same_in_whichever_form_they_are_stored(tmp_path: Path, form: str) -> None:
    path, texts = tmp_path / "db", [form.format("2020-01-01", f"00:00:0{second}") for second in range(4)]
    values = ", ".join(f"({number}, 'n', '{texts[number // 2]}')" for number in range(1, 6))
    run(path, TABLE, f"insert into t values {values}")
    both = Source(reading(path, mode="timestamp+incrementing", batch_max_rows="4"))
    alone = Source(reading(path, mode="timestamp"))
    read = both.poll()
    assert read == [(number, {"incrementing": number, "timestamp": texts[number // 2]}) for number in range(1, 5)]
    assert [number for number, _ in both.poll()] == [5]
    assert [number for number, _ in alone.poll()] == [1, 2, 3, 4, 5]
    after_a_restart = Source(reading(path, mode="timestamp+incrementing"), read[-1][1])
    assert [number for number, _ in after_a_restart.poll()] == [5]
    run(path, f"insert into t values (6, 'n', '{texts[2]}')", f"update t set at = '{texts[3]}' where id = 1")
    assert [number for number, _ in both.poll()] == [6, 1]
    assert [number for number, _ in after_a_restart.poll()] == [6, 1]
    assert [number for number, _ in alone.poll()] == [1]
    assert both.poll() == alone.poll() == after_a_restart.poll() == []


@pytest.mark.parametrize("form", ["{} {}", "{} {}.000000", "{}T{}"])
def test_offsets_as_they_were_stored_before_go_on_behind_the_same_row(tmp_path: Path, form: str) -> None:
    path, texts = tmp_path / "db", [form.format("2020-01-01", f"00:00:0{second}") for second in range(4)]
    values = ", ".join(f"({number}, 'n', '{texts[number]}')" for number in range(1, 4))
    run(path, TABLE, f"insert into t values {values}")
    before = {"timestamp": "2020-01-01T00:00:02"}
    assert [number for number, _ in Source(reading(path, mode="timestamp"), before).poll()] == [3]
    both = Source(reading(path, mode="timestamp+incrementing"), {"incrementing": 2, **before})
    assert [number for number, _ in both.poll()] == [3]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.000000", "%Y-%m-%dT%H:%M:%S"])
def test_rows_of_a_moment_to_which_more_may_come_are_left_for_later(tmp_path: Path, mode: str, form: str) -> None:
    path = tmp_path / "db"
    moments = ", ".join(
        f"({number}, 'n', strftime('{form}', 'now', '{minutes} minutes'))"
        for number, minutes in enumerate((-90, -30, 30), start=1)
    )
    run(path, TABLE.replace("timestamp", "datetime"), f"insert into t values {moments}")
    assert [number for number, _ in Source(reading(path, mode=mode)).poll()] == [1, 2]
    source = Source(reading(path, mode=mode, timestamp_delay_interval_ms="3600000"))
    assert [number for number, _ in source.poll()] == [1]
    run(path, "update t set at = (select at from t where id = 2) where id = 3")
    source.task._settings["timestamp.delay.interval.ms"] = 0
    assert [number for number, _ in source.poll()] == [2, 3], "both are of the same moment, and the second came later"


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_rows_of_today_are_left_for_later_in_a_column_of_days(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "db"
    days = ", ".join(f"({number}, 'n', date('now', '{days} days'))" for number, days in enumerate((-3, -1, 1), start=1))
    run(path, TABLE.replace("timestamp", "date"), f"insert into t values {days}")
    assert [number for number, _ in Source(reading(path, mode=mode)).poll()] == [1, 2]
    source = Source(reading(path, mode=mode, timestamp_delay_interval_ms=f"{48 * 3_600_000}"))
    assert [number for number, _ in source.poll()] == [1]
    run(path, "update t set at = (select at from t where id = 2) where id = 3")
    source.task._settings["timestamp.delay.interval.ms"] = 0
    assert [number for number, _ in source.poll()] == [2, 3], "both are of the same day, and the second came later"


@pytest.mark.parametrize(
    ("kind", "moments"), [("text", ("8", "9")), ("integer", (8, 9)), ("date", ("2020-01-01", "2020-01-02"))]
)
def test_what_is_no_time_for_the_database_is_read_at_once(tmp_path: Path, kind: str, moments: Any) -> None:
    path = tmp_path / "db"
    table = TABLE.replace("timestamp", kind)
    run(path, table, f"insert into t values (1, 'n', {moments[0]!r}), (2, 'n', {moments[1]!r})")
    source = Source(reading(path, mode="timestamp+incrementing"))
    assert [number for number, _ in source.poll()] == [1, 2]
    assert source.poll() == []


def test_all_rows_come_in_each_round(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE, at((1, 1), (2, 2)))
    source = Source(reading(path, mode="bulk"))
    assert [number for number, _ in source.poll()] == [1, 2]
    assert [number for number, _ in source.poll()] == [1, 2]


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_a_connection_that_is_cut_costs_no_row(tmp_path: Path, mode: str) -> None:
    """What had been read when it was cut was never returned, and comes again."""
    path, rows = tmp_path / "db", list(range(1, 21))
    run(path, TABLE, at(*((number, number // 3) for number in rows)), "alter table t rename to kept")
    run(path, "create index moments on kept (at, id)", "create view t as select * from kept where is_there(id)")
    source, got, cuts = Source(reading(path, mode=mode, batch_max_rows="7")), list[int](), iter((1, 2, 10, 11, 14))

    @event.listens_for(source.task._engine, "checkout")
    def cut_off(connection: Any, *_: object) -> None:
        left = iter(range(next(cuts, 1_000)))
        connection.create_function("is_there", 1, lambda _: next(left) >= 0)  # raises at the end

    for _ in range(20):
        try:
            got += [number for number, _ in source.poll()]
        except RetriableError:
            continue
    assert sorted(set(got)) == rows


def test_tables_are_spread_over_tasks(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE, "create table u (id integer)", "create table v (id integer)")
    connector = SqlSourceConnector()
    connector.start(reading(path, mode="bulk", table_whitelist=""))
    assert [one["table.whitelist"] for one in connector.task_configs(2)] == ["t,v", "u"]


@pytest.mark.parametrize(
    ("mode", "good", "wrong"),
    [
        ("incrementing", {"incrementing": 4}, {"incrementing": "four"}),
        ("timestamp", moment(1), {"timestamp": None}),
        ("timestamp", {}, {"incrementing": 4}),
        ("timestamp+incrementing", {"incrementing": 4, **moment(1)}, {"incrementing": 4}),
    ],
)
def test_offsets_that_cannot_be_are_refused(mode: str, good: dict[str, Any], wrong: dict[str, Any]) -> None:
    config, connector = reading(Path("db"), mode=mode), SqlSourceConnector()
    connector.alter_offsets(config, [({"table": "t"}, good), ({"nonsense": 1}, None)])
    for partition, offset in (({"table": "t"}, wrong), ({"other": "t"}, good or {"timestamp": "now"})):
        with pytest.raises(ValueError, match="not so"):
            connector.alter_offsets(config, [(partition, offset)])


def put(path: Path, *records: SinkRecord, **config: str) -> list[str]:
    """What a task of the sink does with these, and what it says it cannot take."""
    task, context = SqlSinkTask(), SinkContext(tolerates=config.get("errors_tolerance") != "none")
    keys = {key.replace("_", "."): value for key, value in config.items()}
    task.start({"connection.url": f"sqlite:///{path}", **keys}, context)
    task.put(records)
    task.stop()
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


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        (SqlSourceConnector, {"mode": "timestamp"}, "timestamp.column.name is missing"),
        (SqlSinkConnector, {"insert.mode": "upsert"}, "need a key"),
        (SqlSinkConnector, {"pk.mode": "record_key"}, "pk.fields is missing"),
    ],
)
def test_what_contradicts_itself(kind: type[Any], config: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        kind().start({"connection.url": "sqlite://", **config})
