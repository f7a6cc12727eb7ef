"""Changes of databases come in as Debezium writes them, and go out by keys; shuffled and doubled they end the same."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast
from sqlalchemy import create_engine
from tests.databases import postgresql
from tests.spark.changes import COLUMNS, as_records, history, last_rows, shuffled_and_doubled, versions_of
from tests.spark.topics import new_topic, write

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import moved_by
from penstock.pipeline.running.keyed_sinks import keyed_rows
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import ChangesSpec, PipelineSpec, SinkSpec
from penstock.testing.pipeline import Message, outcome


def mirror(servers: str, topic: str, folder: Path, sink: dict[str, Any]) -> PipelineSpec:
    """A pipeline from a topic of changes to a table, in batches of 150 records."""
    source = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    source |= {"changes": "debezium", "json": COLUMNS, "maxOffsetsPerTrigger": "150"}
    parts = {"source": source, "sink": sink, "trigger": "available-now", "checkpoint": str(folder / "checkpoint")}
    return pipeline_spec("mirror", parts)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Its URL."""
    with nullcontext(f"sqlite:///{tmp_path / 'shop.db'}") if request.param == "sqlite" else postgresql() as url:
        yield url


def rows_of(database: str, query: str) -> list[tuple[Any, ...]]:
    with create_engine(database).connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


@pytest.mark.soak
def test_a_table_is_mirrored(spark: SparkSession, servers: str, tmp_path: Path, database: str) -> None:
    changes = history(3, rows=20, length=150)
    topic = new_topic(servers, 2)
    given = as_records(shuffled_and_doubled(changes, 4))
    write(servers, topic, 0, given[::2])
    write(servers, topic, 1, given[1::2])
    sink = {"format": "sql", "connection.url": database, "table": "customers", "keys": ["id"]}
    spec = mirror(servers, topic, tmp_path, sink | {"auto.create": "true"})
    assert run_pipeline(spec, session=spark).batches["mirror: customers"] > 1
    query = "SELECT id, name, amount FROM customers WHERE NOT __deleted ORDER BY id"
    assert rows_of(database, query) == last_rows(changes)


@pytest.mark.soak
def test_a_table_has_each_version(spark: SparkSession, servers: str, tmp_path: Path, database: str) -> None:
    changes = history(3, rows=20, length=150)
    topic = new_topic(servers, 1)
    write(servers, topic, 0, as_records(shuffled_and_doubled(changes, 4)))
    sink = {"format": "sql", "connection.url": database, "table": "customers", "keys": ["id"]}
    run_pipeline(
        mirror(servers, topic, tmp_path, sink | {"auto.create": "true", "stored_as_scd_type": "2"}), session=spark
    )
    columns = """id, "__START_AT", coalesce("__END_AT", ''), __deleted"""
    rows = rows_of(database, f'SELECT {columns} FROM customers ORDER BY id, "__START_AT"')
    assert rows == sorted((key, begin, end, gone) for key, _, begin, end, gone in versions_of(changes))


def test_where_rows_are_removed_none_are_handed_from_task_to_task(spark: SparkSession) -> None:
    """A change that comes after a later deletion would bring its row back."""
    rows = spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS __position")
    table, again = spark.range(3), spark.readStream.format("rate").load().selectExpr("value AS id")
    small = broadcast(table)
    rows.createOrReplaceTempView("rows")
    table.createOrReplaceTempView("small")
    joined = "id FROM rows JOIN small USING (id)"
    for stays in (
        rows,
        rows.where("id > 1").coalesce(1),
        rows.join(small, "id"),
        rows.join(small.where("id > 1").select("id"), "id", "left"),
        rows.join(broadcast(table.groupBy("id").count().join(table, "id")), "id"),
        rows.join(table.hint("merge").hint("broadcast"), "id"),
        spark.sql(f"SELECT /*+ BROADCAST(small) */ {joined}"),
        spark.sql("SELECT id, (SELECT max(id) FROM small) FROM rows"),
        rows.union(rows),
        table.join(table, "id"),
    ):
        assert moved_by(stays) == []
    for moves in (
        rows.join(table, "id"),
        rows.join(small.hint("merge"), "id"),
        broadcast(rows).join(table, "id"),
        broadcast(rows).join(small, "id"),
        spark.sql(f"SELECT /*+ MERGE(small) */ {joined}"),
    ):
        assert moved_by(moves) == ["Join"], "by the key, where the table is large"
    for where in ("id IN (SELECT id FROM small)", "EXISTS (SELECT 1 FROM small WHERE small.id = rows.id)"):
        assert moved_by(spark.sql(f"SELECT * FROM rows WHERE {where}")) == ["Subquery"]
    moving = {
        "Repartition": rows.repartition(2),
        "RepartitionByExpression": rows.repartition(2, "id").where("id > 1"),
        "Join": rows.join(again, "id"),
        "Deduplicate": rows.dropDuplicates(["id"]),
        "Aggregate": rows.groupBy("id").count(),
    }
    assert {name: moved_by(frame) for name, frame in moving.items()} == {name: [name] for name in moving}
    changes = ChangesSpec(("id",), "__position", removes=True)
    with pytest.raises(
        PipelineError, match=r"Sink t: deletes: remove .* a Join, which .* as broadcast\(table\), .* say deletes: mark"
    ):
        keyed_rows(moving["Join"], SinkSpec({"table": "t"}, "sql"), changes)
    for sink, kind in (("sql", changes.replace(removes=False)), ("delta", changes)):
        keyed_rows(moving["Join"], SinkSpec({"table": "t"}, sink), kind)


def test_what_is_no_change_goes_to_the_dead_letters(spark: SparkSession) -> None:
    parts = {
        "source": {"subscribe": "t", "changes": "debezium", "json": COLUMNS, "dead_letter": "dead"},
        "sink": {"topic": "out", "kafka.bootstrap.servers": "a:1"},
    }
    good, gone, *_ = as_records([{"lsn": 9, "op": "c", "row": {"id": 1, "name": "a", "amount": 2.0}}] * 2)
    rows: list[Any] = [
        Message(good.value, key=good.key),
        Message(None, key=good.key),
        {"id": 1},
        {"op": "t", "source": {}},
        {"op": "u", "after": None},
        b"{",
        Message(b'{"op": "d", "before": null, "source": {"file": "b.3", "pos": 7, "row": 0}}', key=b'{"id": 5}'),
    ]
    out = outcome(pipeline_spec("changes", parts), {"source": rows}, session=spark)
    assert [one["value"] for one in out["out"]] == [
        {"id": 1, "name": "a", "amount": 2.0, "__op": "c", "__deleted": False}
        | {"__source_ts": "2023-11-14T22:13:20.000Z", "__position": "00000000000000000009"},
        {"id": 5, "__op": "d", "__deleted": True, "__position": "b.3/00000000000000000007/00000000000000000000"},
    ]
    why = [dict(one["headers"])["__connect.errors.exception.message"] for one in out["dead"]]
    assert why == [
        "the value is no change as Debezium writes them: it has no op",
        "this is no change of a row: op t",
        "the change has no row: after is missing",
        f"the value is not of {COLUMNS}",
    ]
    assert gone.key != good.key


def test_envelopes_of_a_registry_have_positions_of_their_database(spark: SparkSession) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
    row = {"type": "record", "name": "Value", "fields": fields}
    places = {"file": "string", "pos": "long", "row": "int", "ts_ms": "long"}
    source = {"type": "record", "name": "Source", "fields": [{"name": one, "type": of} for one, of in places.items()]}
    envelope = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
    ]
    schema = {"type": "record", "name": "Envelope", "fields": envelope}
    given = {"subscribe": "customers", "changes": "debezium", "avro": "latest", "schema.registry.url": "http://a:1"}
    sink = {"format": "sql", "connection.url": "sqlite://", "table": "customers", "keys": "id", "deletes": "remove"}
    spec = pipeline_spec("changes", {"source": given, "sink": sink, "sql": "SELECT *, 'x' AS of FROM source"})
    at = {"file": "binlog.000003", "pos": 154, "row": 1, "ts_ms": 1000}
    changed: dict[str, Any] = {"before": None, "after": {"id": 1, "name": "a"}, "source": at, "op": "u"}
    deleted = {"before": {"id": 2, "name": None}, "after": None, "source": at | {"pos": 1540}, "op": "d"}
    out = outcome(spec, {"source": [changed, deleted]}, schemas={"customers-value": schema}, session=spark)
    position = "binlog.000003/{:020}/00000000000000000001"
    assert out["customers"] == [
        {"id": 1, "name": "a", "__deleted": False, "__position": position.format(154), "of": "x"},
        {"id": 2, "name": None, "__deleted": True, "__position": position.format(1540), "of": "x"},
    ]
    nothing = {**changed, "after": {"id": 1, "name": None}, "op": "c"}
    without = spec.replace(sinks=(spec.sinks[0].replace(changes=spec.sinks[0].changes.replace(keys=("name",))),))  # type: ignore[union-attr]
    with pytest.raises(Exception, match="Sink customers: a row has no name or no __position"):
        outcome(without, {"source": [nothing]}, schemas={"customers-value": schema}, session=spark)
