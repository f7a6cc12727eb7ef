"""Connectors and tables of pipelines, with databases that are servers (where they are here).

What SQLite shows stands in `tests/unit/work/connect/built_in`; here is what only a server does: types of its own, rules
that are looked at late, tables that two make at once, connections that are cut, transactions beside each other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import create_engine
from tests.databases import mariadb, postgresql
from tests.spark.changes import history, last_rows, shuffled_and_doubled, versions_of
from tests.unit.work.connect.built_in.test_sql_written import REFUSED, UPSERT, row

from penstock.pipeline.running.database_tables import ready, storing
from penstock.pipeline.spec.changes import TableTarget
from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord, SourceContext
from penstock.work.connect.built_in.sql_sink import SqlSinkTask
from penstock.work.connect.built_in.sql_source import SqlSourceTask

pytestmark = pytest.mark.soak
SERVERS = {"postgresql": postgresql, "mariadb": mariadb}
TOGETHER = 6
LIMIT_S = 60


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with SERVERS[request.param]() as found:
        yield found


@pytest.fixture(autouse=True)
def _without_tables(request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("url" if "url" in request.fixturenames else "postgres")
    run(url, *(f"drop table if exists {name}" for name in ("t", "copy", "customers")))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgresql() as found:
        yield found


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    engine, rows = create_engine(url), list[tuple[Any, ...]]()
    with engine.begin() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
            rows = [tuple(one) for one in result.fetchall()] if result.returns_rows else []
    engine.dispose()
    return rows


class Sink:
    """A task of the sink, by hand."""

    def __init__(self, url: str, **config: str) -> None:
        self.context = SinkContext(tolerates=config.get("errors_tolerance") != "none")
        self.task = SqlSinkTask()
        self.task.start(
            {"connection.url": url, **{key.replace("_", "."): said for key, said in config.items()}}, self.context
        )

    def put(self, *records: SinkRecord) -> list[str]:
        """What it says of those that it cannot take."""
        self.task.put(records)
        return [str(error) for _, error in self.context.reported]


def put(url: str, *records: SinkRecord, **config: str) -> list[str]:
    sink = Sink(url, **config)
    reasons = sink.put(*records)
    sink.task.stop()
    return reasons


def test_a_row_that_is_its_key_alone_may_come_again(url: str) -> None:
    run(url, "create table t (id integer primary key)")
    for _ in range(2):
        assert put(url, row(1, {}), row(2, {}), **UPSERT, errors_tolerance="none") == []
    assert run(url, "select id from t order by id") == [(1,), (2,)]


def test_the_last_record_of_a_key_is_its_row(url: str) -> None:
    for _ in range(2):
        put(url, row(1, {"a": "x"}), row(2, {"a": "y"}), row(1, {"a": "z"}), **UPSERT)
    put(url, row(1, None), row({"id": 3}, {"a": "new"}), **UPSERT, delete_enabled="true")
    assert run(url, "select id, a from t order by id") == [(2, "y"), (3, "new")]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_what_the_database_refuses_is_left_out_and_all_else_is_written(url: str, mode: str) -> None:
    run(url, "create table t (id integer primary key, a integer not null check (a < 100))")
    wrong = [*REFUSED, row(8, {"a": "x"}), row(9, {}), row(10, {"a": 1.5})]
    reasons = put(url, *wrong, **UPSERT | {"insert_mode": mode})
    assert len(reasons) == 8
    assert "column a holds whole numbers, and 1.5 is none" in reasons
    assert run(url, "select id, a from t order by id") == [(1, 1), (4, 4)]


def test_a_table_that_a_bad_row_would_have_made_is_made_by_the_others(url: str) -> None:
    """Making it belongs to the transaction that was given up."""
    too_large = row(1, {"a": 1}), row(2, {"a": 10**30}), row(3, {"a": 3})
    assert len(put(url, *too_large, **UPSERT)) == 1
    assert run(url, "select id, a from t order by id") == [(1, 1), (3, 3)]


def test_tasks_that_make_a_table_at_once(url: str) -> None:
    for number in range(5):
        run(url, "drop table if exists t")
        sinks = [Sink(url, **UPSERT, errors_tolerance="none") for _ in range(TOGETHER)]
        records = [[row(10 * number + one, {"a": "x"})] for one in range(TOGETHER)]
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(lambda sink, mine: sink.put(*mine), sinks, records))
        assert run(url, "select count(*) from t") == [(TOGETHER,)]
        for sink in sinks:
            sink.task.stop()


def test_values_go_into_columns_of_their_kind(url: str) -> None:
    kinds = {"j": "json", "ts": "timestamp", "d": "date", "n": "numeric(10, 2)", "tm": "time", "b": "boolean"}
    run(url, f"create table t (id integer primary key, {', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
    value = {
        "j": {"c": [2]},
        "ts": "2026-01-01T02:00:01+02:00",
        "d": "2026-01-31",
        "n": 1.25,
        "tm": "10:11:12",
        "b": True,
    }
    assert put(url, row(1, value), row(2, {"j": None}), **UPSERT) == []
    text = "cast(j as char(8))" if "mysql" in url else "j::text"
    shown = f"{text}, cast(ts as char(19)), cast(d as char(10)), cast(n as char(4)), cast(tm as char(8)), b"
    assert run(url, f"select {shown} from t where id = 1") == [
        ('{"c": [2', "2026-01-01 00:00:01", "2026-01-31", "1.25", "10:11:12", True)
        if "mysql" in url
        else ('{"c": [2]}', "2026-01-01 00:00:01", "2026-01-31", "1.25", "10:11:12", True)
    ]
    assert run(url, "select id from t where j is null") == [(2,)]


def test_keys_are_as_different_as_those_of_records(url: str) -> None:
    """MySQL's own order of texts takes these for one; and its TEXT ends at 64 KB."""
    keys = ("A", "a", "a ", "ä")
    records = [row(key, {"text": "x" * 100_000, "bytes": b"y" * 100_000}) for key in keys]
    assert put(url, *records, **UPSERT) == []
    assert sorted(run(url, "select id, length(text), length(bytes) from t")) == [
        (key, 100_000, 100_000) for key in keys
    ]


@pytest.mark.parametrize("made", ["", "create table t (id integer primary key auto_increment, a text)"])
def test_a_key_that_is_zero_is_zero(url: str, made: str) -> None:
    """MySQL takes it for the next number that is free, which is another key's."""
    if made:
        run(url, made if "mysql" in url else made.replace("integer primary key auto_increment", "serial primary key"))
    assert put(url, *(row(key, {"a": str(key)}) for key in (1, 0, 2)), **UPSERT) == []
    assert run(url, "select id, a from t order by id") == [(0, "0"), (1, "1"), (2, "2")]


def test_what_is_too_long_is_refused_by_a_server_that_is_not_strict(url: str) -> None:
    run(url, "create table t (id integer primary key, a varchar(3))")
    if "mysql" in url:
        run(url, "set global sql_mode = ''")
    try:
        assert len(put(url, row(1, {"a": "long"}), row(2, {"a": "x"}), **UPSERT)) == 1
    finally:
        if "mysql" in url:
            run(url, "set global sql_mode = default")
    assert run(url, "select id from t") == [(2,)]


def test_a_table_that_is_made_ends_no_transaction_with_rows_in_it(url: str) -> None:
    run(url, "drop table if exists other")
    config = {"insert_mode": "insert", "auto_create": "true", "table_name_format": "${topic}"}
    first = row(1, {"a": 1})
    others = [SinkRecord("other", value={"a": content}) for content in (2, 10**30)]
    assert len(put(url, first, *others, **config)) == 1
    assert run(url, "select a from t") == [(1,)]
    assert run(url, "select a from other") == [(2,)]


def test_a_row_that_a_trigger_or_an_index_refuses_is_left_out(url: str) -> None:
    run(url, "create table t (id integer primary key, a text)")
    if "mysql" in url:
        refusing = "if new.a <> 'x' then signal sqlstate '45000' set message_text = 'no'; end if"
        run(url, f"create trigger only_x before insert on t for each row {refusing}")
    else:
        run(url, "create index on t (a)")
    too_large = "".join(map(str, random.Random(1).choices(range(10), k=50_000)))  # nothing that is compressed
    assert len(put(url, row(1, {"a": too_large}), row(2, {"a": "x"}), **UPSERT)) == 1
    assert run(url, "select id from t") == [(2,)]


def test_a_moment_is_the_same_one_in_whichever_zone_the_server_is(url: str) -> None:
    kind, seconds = ("timestamp", "unix_timestamp(at)") if "mysql" in url else ("timestamptz", "extract(epoch from at)")
    zone = "set global time_zone = {}" if "mysql" in url else "alter role postgres set timezone = {}"
    run(url, f"create table t (id integer primary key, at {kind} null)", zone.format("'+05:00'"))
    try:
        assert put(url, row(1, {"at": "2026-01-01T02:00:00+02:00"}), **UPSERT) == []
    finally:
        run(url, zone.format("'+00:00'"))
    assert [int(at) for (at,) in run(url, f"select {seconds} from t")] == [1767225600]


def test_rows_are_found_by_moments_as_they_are_stored(postgres: str) -> None:
    run(postgres, "create table customers (at timestamp primary key, __position text)")
    target = TableTarget(
        "shop", f"{postgres}?options=-c%20timezone%3DAsia/Tokyo", "customers", ("at",), "__position", removes=True
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for position, is_deleted in (("1", False), ("2", True)):
        changed = {"at": at, "__position": position, "__deleted": is_deleted}
        list(storing(target)(iter([pa.RecordBatch.from_pylist([changed])])))
        assert run(postgres, "select at from customers") == ([] if is_deleted else [(datetime(2026, 1, 1),)])


def test_kinds_that_only_postgresql_has(postgres: str) -> None:
    run(postgres, "create table t (id integer primary key, j jsonb, a integer[], u uuid, at timestamptz)")
    value = {
        "j": [{"c": 2}],
        "a": [1, 2],
        "u": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        "at": "2026-01-01T02:00:00+02:00",
    }
    assert put(postgres, row(1, value), **UPSERT) == []
    ((nested, numbers, name, at),) = run(
        postgres, "select j->0->>'c', a, u::text, extract(epoch from at)::bigint from t"
    )
    assert (nested, numbers, name, at) == ("2", [1, 2], value["u"], 1767225600)


def test_a_rule_that_is_looked_at_late_leaves_out_its_row_alone(postgres: str) -> None:
    run(postgres, "create table t (id integer primary key, a integer, unique (a) deferrable initially deferred)")
    reasons = put(postgres, row(1, {"a": 1}), row(2, {"a": 1}), row(3, {"a": 3}), **UPSERT)
    assert [reason.splitlines()[0].endswith('constraint "t_a_key"') for reason in reasons] == [True]
    assert run(postgres, "select id, a from t order by id") == [(1, 1), (3, 3)]


def test_a_database_that_only_reads_for_now_is_asked_again(postgres: str) -> None:
    """No row is bad since it is a stand-by."""
    run(postgres, "create table t (id integer primary key, a text)")
    sink = Sink(f"{postgres}?options=-c%20default_transaction_read_only%3Don", **UPSERT)
    with pytest.raises(RetriableError, match="read-only"):
        sink.put(row(1, {"a": "x"}))
    assert sink.context.reported == []
    sink.task.stop()


def _kept(offset: Any, _: object) -> Any:
    return offset


READING = {"incrementing.column.name": "id", "timestamp.column.name": "at", "poll.interval.ms": "0"}
ROWS = range(1, 21)


@pytest.mark.parametrize("number", ["bigint", "numeric(20, 0)"])
@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_rows_come_and_after_a_crash_none_is_missing(url: str, mode: str, number: str) -> None:
    run(url, f"create table t (id {number} primary key, name text, at timestamp(6))")
    values = ", ".join(f"({one}, 'n', '2020-01-01 00:00:{one // 3:02}.123456')" for one in ROWS)
    run(url, f"insert into t values {values}")
    config = {"connection.url": url, "table.whitelist": "t", "mode": mode, "batch.max.rows": "7", **READING}
    got, offset = list[int](), None
    for _ in range(10):
        task = SqlSourceTask()
        task.start(config, SourceContext(partial(_kept, offset)))
        records = task.poll()
        got += [int(one.value["id"]) for one in records]
        offset = json.loads(json.dumps(dict(records[-1].source_offset))) if records else offset  # as it is kept
        task.stop()
    assert sorted(set(got)) == list(ROWS)
    assert mode == "timestamp" or len(got) == len(ROWS)


def test_connections_that_the_server_cuts_cost_no_row(url: str) -> None:
    run(url, "create table t (id integer primary key, name text, at timestamp(6))")
    run(url, "insert into t values " + ", ".join(f"({one}, 'n', '2020-01-01')" for one in ROWS))
    config = {"connection.url": url, "table.whitelist": "t", "mode": "incrementing", "batch.max.rows": "3", **READING}
    source, sink = SqlSourceTask(), Sink(url, **UPSERT, table_name_format="copy")
    source.start(config, SourceContext(lambda _: None))
    chance, failures, waiting, seen = random.Random(5), 0, list[SinkRecord](), 0
    for _ in range(200):
        if chance.random() < 0.4:
            cut_others(url)
        try:
            if not waiting:
                waiting = [row(one.value["id"], {"name": "n"}) for one in source.poll()]
            sink.put(*waiting)
            seen, waiting = seen + len(waiting), []
        except RetriableError:
            failures += 1
        if seen == len(ROWS):
            break
    assert run(url, "select id from copy order by id") == [(one,) for one in ROWS]
    assert failures
    source.stop()
    sink.task.stop()


def cut_others(url: str) -> None:
    if "mysql" in url:
        for (number,) in run(
            url, "select id from information_schema.processlist where id <> connection_id() and user = 'root'"
        ):
            run(url, f"kill soft connection {number}")
        return
    others = "pid <> pg_backend_pid() and usename is not null"
    run(url, f"select pg_terminate_backend(pid, 1000) from pg_stat_activity where {others}")


COLUMNS = {"id": "bigint", "name": "string", "amount": "double", "__position": "string", "__deleted": "boolean"}


def apply(target: TableTarget, changes: Sequence[Any]) -> None:
    """As many tasks do it at once, each with a part of what is there."""
    rows = [{**one["row"], target.sequence: f"{one['lsn']:020}", "__deleted": one["op"] == "d"} for one in changes]
    parts = [rows[number::TOGETHER] for number in range(TOGETHER)]

    def task(mine: list[dict[str, Any]]) -> None:
        left = iter(mine)
        batches = iter(lambda: list(islice(left, 10)), [])
        for _ in storing(target)(pa.RecordBatch.from_pylist(batch) for batch in batches):
            pass

    with ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(task, parts))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("removes", [False, True])
def test_rows_are_replaced_by_newer_ones_of_their_keys(postgres: str, seed: int, removes: bool) -> None:
    changes = history(seed, rows=10, length=240)
    target = TableTarget("shop", postgres, "public.customers", ("id",), "__position", removes=removes)
    ready(target, COLUMNS, may_create=True)
    ready(target, COLUMNS, may_create=True)
    if removes:  # for changes of a key in their order
        for part in (changes[:180], changes[120:]):  # from some way back, as after a crash
            list(storing(target)(iter([pa.RecordBatch.from_pylist([as_row(one) for one in part])])))
    else:
        apply(target, shuffled_and_doubled(changes, seed))
    alive = "" if removes else "where not __deleted"
    assert run(postgres, f"select id, name, amount from customers {alive} order by id") == last_rows(changes)


def as_row(change: Any) -> dict[str, Any]:
    return {**change["row"], "__position": f"{change['lsn']:020}", "__deleted": change["op"] == "d"}


@pytest.mark.parametrize("seed", range(3))
def test_each_version_is_there_whoever_adds_it(postgres: str, seed: int) -> None:
    changes = history(seed, rows=5, length=240)
    target = TableTarget("shop", postgres, "customers", ("id",), "__START_AT", removes=False, keeps_history=True)
    columns = {"__START_AT" if name == "__position" else name: kind for name, kind in COLUMNS.items()}
    ready(target, columns, may_create=True)
    apply(target, shuffled_and_doubled(changes, seed))
    shown = """id, name, "__START_AT", coalesce("__END_AT", ''), __deleted"""
    assert sorted(run(postgres, f"select {shown} from customers")) == versions_of(changes)


def test_positions_are_compared_as_bytes(postgres: str) -> None:
    """Where people sort, `b.2/` comes before `b-1/`; in the log of a database it does not."""
    target = TableTarget("shop", postgres, "customers", ("id",), "__position", removes=False)
    ready(target, COLUMNS, may_create=True)
    for position, name in (("a-9", "older"), ("a.1", "newer"), ("a-95", "older")):
        changed = {"id": 1, "name": name, "amount": 1.0, "__position": position, "__deleted": False}
        list(storing(target)(iter([pa.RecordBatch.from_pylist([changed])])))
    assert run(postgres, "select name from customers") == [("newer",)]


def test_rows_of_a_pipeline_go_into_a_table_that_was_there(postgres: str) -> None:
    run(
        postgres,
        "create table customers (id bigint primary key, tags jsonb, names text[], __position text, __deleted boolean)",
    )
    target = TableTarget("shop", postgres, "customers", ("id",), "__position", removes=False)
    ready(target, {"id": "bigint", "tags": "struct<a:bigint>", "names": "array<string>"}, may_create=False)
    changed = {"id": 1, "tags": {"a": 1}, "names": ["x"], "__position": "1", "__deleted": False}
    list(storing(target)(iter([pa.RecordBatch.from_pylist([changed])])))
    assert run(postgres, "select tags->>'a', names from customers") == [("1", ["x"])]
