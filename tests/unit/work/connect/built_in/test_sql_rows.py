"""Rows of a database as records: which come, which come again, and which must not."""

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from penstock.work.connect.api import RetriableError, SourceContext, Support
from penstock.work.connect.built_in.sql_sink import SqlSinkConnector
from penstock.work.connect.built_in.sql_source import SqlSourceConnector, SqlSourceTask, plain
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


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, None),
        (True, True),
        (b"x", b"x"),
        (memoryview(b"x"), b"x"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        ({"a": [1]}, '{"a": [1]}'),
        ([1, "x"], '[1, "x"]'),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_what_a_row_has_is_plain(content: Any, found: Any) -> None:
    assert (plain(content), type(plain(content))) == (found, type(found))


def test_rounds_begin_when_it_is_time(tmp_path: Path) -> None:
    path, now_s = tmp_path / "db", [100.0]
    run(path, TABLE, at((1, 1), (2, 1)))
    task = SqlSourceTask()
    config = reading(path, mode="incrementing", poll_interval_ms="5000", batch_max_rows="1", topic_prefix="of-")
    task.start(config, SourceContext(lambda _: None, now_s=lambda: now_s[0]))
    first = task.poll()
    assert [(one.topic, one.source_partition, one.source_offset) for one in first] == [
        ("of-t", {"table": "t"}, {"incrementing": 1})
    ]
    assert [one.value["id"] for one in task.poll()] == [2], "a round goes on at once"
    run(path, at((3, 1)))
    for passed_s, ids in ((0.0, []), (4.999, []), (5.0, [3]), (9.999, [])):
        now_s[0] = 100.0 + passed_s
        assert [one.value["id"] for one in task.poll()] == ids
    run(path, at((4, 1)))
    now_s[0] = 110.0
    assert [one.value["id"] for one in task.poll()] == [4]
    task.stop()


def test_each_table_goes_on_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(
        path,
        TABLE,
        at((1, 1), (2, 1)),
        TABLE.replace("table t", "table u"),
        "insert into u select * from t where id = 1",
    )
    task, offsets = SqlSourceTask(), {"t": {"incrementing": 1}, "u": None}
    config = reading(path, mode="incrementing", table_whitelist="t,u")
    task.start(config, SourceContext(lambda partition: offsets[partition["table"]]))
    assert [(one.topic, one.value["id"]) for one in task.poll()] == [("t", 2), ("u", 1)]
    run(path, "insert into u values (2, 'n', null)", at((3, 3)))
    assert [(one.topic, one.value["id"]) for one in task.poll()] == [("t", 3), ("u", 2)]


def test_rows_without_what_they_are_known_by_do_not_come(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE.replace(" primary key", ""), at((1, 1)), "insert into t values (2, 'n', null)")
    run(path, "insert into t values (null, 'n', '2020-01-01 00:00:01.000000')")
    found = {}
    for mode in ("incrementing", "timestamp", "timestamp+incrementing", "bulk"):
        found[mode] = [one.value["id"] for one in Source(reading(path, mode=mode)).task.poll()]
    assert {mode: set(ids) for mode, ids in found.items()} == {
        "incrementing": {1, 2},
        "timestamp": {1, None},
        "timestamp+incrementing": {1},
        "bulk": {1, 2, None},
    }


@pytest.mark.parametrize(
    ("mode", "support"),
    [("incrementing", True), (" timestamp+incrementing ", True), ("timestamp", False), ("bulk", False), ("", False)],
)
def test_which_modes_say_which_row_was_the_last(mode: str, support: bool) -> None:
    wanted = Support.SUPPORTED if support else Support.UNSUPPORTED
    assert SqlSourceConnector().exactly_once_support({"mode": mode}) is wanted


@pytest.mark.parametrize(
    ("mode", "fits", "wrong"),
    [
        ("incrementing", [{"incrementing": 0}], [{}, {"incrementing": True}, {"incrementing": 1, "timestamp": "x"}]),
        ("timestamp", [{}, {"timestamp": 1}, {"timestamp": 0.5}, {"timestamp": ""}], [{"timestamp": True}]),
        (
            "timestamp+incrementing",
            [{}, {"incrementing": 1, "timestamp": "x"}],
            [{"timestamp": "x"}, {"incrementing": "1", "timestamp": "x"}, {"incrementing": 1, "timestamp": None}],
        ),
        ("bulk", [{}], [{"incrementing": 1}]),
    ],
)
def test_offsets_have_what_the_mode_needs(mode: str, fits: list[Any], wrong: list[Any]) -> None:
    config, connector = reading(Path("db"), mode=mode), SqlSourceConnector()
    for offset in fits:
        connector.alter_offsets(config, [({"table": "t"}, offset)])
    for offset in wrong:
        with pytest.raises(ValueError, match=r"a partition is \{table: text\}, and its offset"):
            connector.alter_offsets(config, [({"table": "t"}, None), ({"table": "t"}, offset)])
    for partition in ({}, {"table": 1}):
        if mode != "bulk" and fits[-1]:
            with pytest.raises(ValueError, match="not so"):
                connector.alter_offsets(config, [(partition, fits[-1])])


@pytest.mark.parametrize(
    ("kind", "moments"),
    [
        ("text", ("8", "9")),
        ("integer", (8, 9)),
        ("", (8, 9)),
        ("real", (8.5, 9.5)),
        ("date", ("2020-01-01", "2020-01-02")),
    ],
)
def test_columns_of_any_kind_go_on_behind_the_last_row(tmp_path: Path, kind: str, moments: Any) -> None:
    path = tmp_path / "db"
    first, second = moments
    rows = ", ".join(f"({number}, 'n', {moment!r})" for number, moment in enumerate((first, first, second), start=1))
    run(path, TABLE.replace("timestamp", kind), f"insert into t values {rows}")
    for mode, last, left in (
        ("timestamp", {"timestamp": first}, [3]),
        ("timestamp+incrementing", {"incrementing": 1, "timestamp": first}, [2, 3]),
    ):
        assert [number for number, _ in Source(reading(path, mode=mode)).poll()] == [1, 2, 3]
        assert [number for number, _ in Source(reading(path, mode=mode), last).poll()] == left


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_a_round_that_a_restart_cuts_costs_no_row_of_its_moment(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "db"
    moments = ("2020-01-01", "2020-01-01", "2020-01-01", "2020-01-02")
    rows = ", ".join(
        f"({number}, 'n', '{moment}{' 00:00:00' if kind == 'timestamp' else ''}')"
        for number, moment in enumerate(moments, start=1)
    )
    run(path, TABLE.replace("timestamp", kind), f"insert into t values {rows}")
    got: list[int] = []
    offset: Any = None
    for _ in moments:
        ((number, offset),) = Source(reading(path, mode="timestamp+incrementing", batch_max_rows="1"), offset).poll()
        got.append(number)
    assert got == [1, 2, 3, 4]
    assert Source(reading(path, mode="timestamp+incrementing"), offset).poll() == []
