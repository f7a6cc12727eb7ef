"""Connectors, tables of pipelines and positions beside results, with databases that are servers (where they are here).

What SQLite shows stands in `test_sql_connectors.py`; here is what only a server does: types of its own, rules that are
looked at late, tables that two make at once, connections that are cut, transactions beside each other.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from tests.databases import mariadb, postgresql
from tests.spark.changes import history, last_rows, shuffled_and_doubled, versions_of
from tests.unit.client.consumer.test_stored_positions import ONE, ZERO, member, store
from tests.wire.test_sql_connectors import REFUSED, UPSERT, row

from penstock.client.consumer.stored_positions import AsyncStoredPositions, StoredPositions
from penstock.client.errors import PositionsTakenError
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
    run(url, *(f"drop table if exists {name}" for name in ("t", "copy", "customers", "totals", "penstock_positions")))


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
    values = ", ".join(f"({one}, 'n', '2026-01-01 00:00:{one // 3:02}.123456')" for one in ROWS)
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
    run(url, "insert into t values " + ", ".join(f"({one}, 'n', '2026-01-01')" for one in ROWS))
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


def by_psycopg(url: str) -> StoredPositions:
    psycopg: Any = import_module("psycopg")
    connect = partial(psycopg.connect, make_url(url).set(drivername="postgresql").render_as_string(hide_password=False))
    return StoredPositions("totals", connect, paramstyle=psycopg.paramstyle)


def by_psycopg_async(url: str) -> AsyncStoredPositions:
    psycopg: Any = import_module("psycopg")
    where = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return AsyncStoredPositions("totals", partial(psycopg.AsyncConnection.connect, where), paramstyle="format")


def by_sqlalchemy(url: str) -> StoredPositions:
    return StoredPositions("totals", create_engine(url).connect, paramstyle="format")


def by_sqlalchemy_async(url: str) -> AsyncStoredPositions:
    return AsyncStoredPositions("totals", create_async_engine(url).connect, paramstyle="format")


def by_pymysql(url: str) -> StoredPositions:
    pymysql: Any = import_module("pymysql")
    at = make_url(url)
    connect = partial(pymysql.connect, host=at.host, port=at.port or 0, user=at.username, database=at.database)
    return StoredPositions("totals", connect, paramstyle=pymysql.paramstyle)


WAYS: dict[str, tuple[Callable[[str], StoredPositions | AsyncStoredPositions], ...]] = {
    "postgresql": (by_psycopg, by_psycopg_async, by_sqlalchemy, by_sqlalchemy_async),
    "mysql": (by_pymysql, by_sqlalchemy),
}


async def test_positions_beside_their_results(url: str) -> None:
    for way in WAYS[make_url(url).get_backend_name()]:
        run(url, "drop table if exists penstock_positions")
        first = way(url)
        reader = await member(first, ZERO, ONE)
        await store(first, await reader.poll(3))
        await store(first, await reader.poll(2))
        await store(first, await reader.poll(9), commits=False)
        second = way(url)
        assert (await member(second, ONE)).at == {ONE: 10}, way
        await first.reload()
        records = await reader.poll()
        quick = await member(second, ZERO)
        with pytest.raises(PositionsTakenError, match="belongs to another member of totals"):
            await store(first, records)
        await store(second, await quick.poll())


async def test_members_that_begin_at_once_make_one_table(url: str) -> None:
    """A database may refuse `CREATE TABLE IF NOT EXISTS` to one of two who say it at the same moment."""
    (way, *_) = WAYS[make_url(url).get_backend_name()]
    for _ in range(5):
        run(url, "drop table if exists penstock_positions")
        await asyncio.gather(*(member(way(url)) for _ in range(TOGETHER)))
