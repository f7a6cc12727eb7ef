"""Sources, tables, dead letters, backfills and checks of pipelines; the examples run here."""

import json
import struct
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml
from deltalake import DeltaTable
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import SparkSession
from tests.spark.topics import batch_frame, json_records, new_topic, write
from tests.unit.pipeline.values.descriptors import events_file, orders_file
from tests.wire.schema_registry import served

from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.backfill import run_backfill
from penstock.pipeline.running.check import problems_of
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_spec, load_yaml
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import PipelineSpec
from penstock.protocol.records import Record
from penstock.testing.pipeline import Message, outcome

EXAMPLES = Path("examples/pipelines")
HOUR_MS = 3_600_000


def moved(example: str, servers: str, names: Mapping[str, str], folder: Path) -> PipelineSpec:
    """An example, once, on this cluster, with other names of topics and files."""
    text = (EXAMPLES / example).read_text().replace("127.0.0.1:9092", servers)
    for old, new in names.items():
        text = text.replace(old, new)
    parts: dict[str, Any] = yaml.safe_load(text)
    return pipeline_spec("example", parts | {"trigger": "available-now", "checkpoint": str(folder / "checkpoint")})


@pytest.fixture
def few_batches(spark: SparkSession) -> Iterator[None]:
    """A join has a store of its state for each partition, and more batches than there are rows for."""
    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, old in before.items():
        spark.conf.set(key, str(old))


@pytest.mark.usefixtures("few_batches")
def test_two_topics_are_joined(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    clicks, orders, target = (new_topic(servers, 1) for _ in range(3))
    at = [f"2026-01-01T1{hour}:00:00Z" for hour in range(4)]
    write(
        servers,
        clicks,
        0,
        json_records({"user": "a", "page": "/1", "at": at[0]}, {"user": "b", "page": "/2", "at": at[0]}),
    )
    write(
        servers,
        orders,
        0,
        json_records(
            {"user": "a", "amount": 5.0, "ordered_at": at[1]}, {"user": "b", "amount": 7.0, "ordered_at": at[3]}
        ),
    )
    names = {"subscribe: clicks": f"subscribe: {clicks}", "subscribe: orders": f"subscribe: {orders}"}
    spec = moved(
        "clicks_with_orders.yaml", servers, names | {"topic: orders_after_clicks": f"topic: {target}"}, tmp_path
    )
    assert problems_of(spark, spec) == []
    assert run_pipeline(spec, session=spark).input_rows == {f"example: {target}": 4}
    (row,) = batch_frame(spark, servers, target).collect()
    said = json.loads(row.value)
    assert (bytes(row.key), said["user"], said["page"], said["amount"]) == (b"a", "a", "/1", 5.0)


def test_rows_are_looked_up_in_a_table_and_what_is_none_is_kept(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    orders, dead = new_topic(servers, 1), new_topic(servers, 1)
    (tmp_path / "customers.csv").write_text("id,name\n1,Ann\n")
    good = [{"order": 1, "customer": 1, "amount": 2.5}, {"order": 2, "customer": 9, "amount": 3}]
    write(servers, orders, 0, json_records(good[0], b"{broken", {"order": "x"}, good[1]))
    names = {
        "subscribe: orders": f"subscribe: {orders}",
        "orders_dead": dead,
        "customers.csv": f"{tmp_path}/customers.csv",
    }
    spec = moved(
        "orders_with_customers.yaml", servers, names | {"path: orders_with": f"path: {tmp_path}/orders_with"}, tmp_path
    )
    assert problems_of(spark, spec) == []
    run_pipeline(spec, session=spark)
    out = tmp_path / "orders_with_customers"
    rows = spark.read.parquet(str(out)).collect()
    assert sorted((row.order, row.amount, row.name) for row in rows) == [(1, 2.5, "Ann"), (2, 3.0, "nobody we know")]
    assert sorted(committed_files(str(out))) == sorted(out.glob("*.parquet"))
    read = spark.read.format("penstock").option("kafka.bootstrap.servers", servers).option("subscribe", dead)
    bad = read.option("includeHeaders", "true").load().collect()
    assert [bytes(row.value) for row in bad] == [b"{broken", b'{"order": "x"}']
    where = {header.key: bytes(header.value).decode() for header in bad[1].headers}
    assert where["__connect.errors.topic"] == orders
    assert where["__connect.errors.offset"] == "2"


def test_delta_gets_each_row_once_also_when_a_batch_is_done_again(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    orders, table = new_topic(servers, 1), tmp_path / "table"
    names = {"subscribe: orders": f"subscribe: {orders}", "orders_with_tax": str(table), '"100000"': '"2"'}
    spec = moved("orders_to_delta.yaml", servers, names, tmp_path)
    assert problems_of(spark, spec) == []
    commits = Path(spec.checkpoint_of(spec.sinks[0])) / "commits"
    write(servers, orders, 0, json_records(*({"order": number, "amount": 100} for number in range(4))))
    run_pipeline(spec, session=spark)
    (commits / "1").unlink()  # as if it had been killed between the table's commit and Spark's
    (commits / ".1.crc").unlink()
    write(servers, orders, 0, json_records(*({"order": number, "amount": 100} for number in range(4, 6))))
    run_pipeline(spec, session=spark)
    assert {commit.name for commit in commits.iterdir()} >= {"0", "1", "2"}
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert sorted((row["order"], row["tax"]) for row in rows) == [(number, 19.0) for number in range(6)]


def test_an_example_is_tested_with_rows_in_and_rows_out(spark: SparkSession) -> None:
    rows: dict[str, list[object]] = {
        "source": [
            {"order": 1, "customer": 7, "amount": 1},
            "no JSON",
            {"order": 2, "customer": 7, "amount": 0},
            {"order": 1 << 70, "customer": 7},
            Message(None, key="tombstone"),
        ],
        "customers": [{"id": 7, "name": "Bob"}],
    }
    out = outcome(EXAMPLES / "orders_with_customers.yaml", rows, session=spark)
    assert {"order": 1, "amount": 1.0, "name": "Bob"} in out["orders_with_customers"]
    no_json, broken, too_big = out["orders_dead"]
    assert no_json["value"] == "no JSON"
    assert ("__connect.errors.offset", "1") in no_json["headers"]
    assert broken["value"] == {"order": 2, "customer": 7, "amount": 0}
    why = "$.amount: 0 is less than or equal to the minimum of 0 (exclusiveMinimum)"
    assert ("__connect.errors.exception.message", why) in broken["headers"]
    assert "does not fit into `order` BIGINT" in dict(too_big["headers"])["__connect.errors.exception.message"]
    with pytest.raises(PipelineError, match="has no clients; there are source, customers"):
        outcome(EXAMPLES / "orders_with_customers.yaml", {"clients": []}, session=spark)


def avro_bytes(schema: dict[str, Any], value: object, head: bytes = b"") -> bytes:
    stream = BytesIO(head)
    stream.seek(len(head))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def test_values_of_avro_are_read_by_a_stream_and_what_is_none_is_kept(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    source, target, dead = (new_topic(servers, 1) for _ in range(3))
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
        ],
    }
    at = datetime(2026, 1, 2, tzinfo=UTC)
    order = {"id": 1, "at": at, "price": Decimal("2.50"), "counts": {"x": 1}}
    with served() as registry:
        head = struct.pack(">bI", 0, registry.register("orders-value", schema))
        first = avro_bytes(schema, order, head)
        too_big = first.replace(b"\x04\x00\xfa", b"\x08\x7f\x7f\x7f\xfa")
        values = [first, b"{broken", None, too_big, avro_bytes(schema, {**order, "id": 2}, head)]
        write(servers, source, 0, [Record(0, 0, b"k", value) for value in values])
        options = {"bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"}
        typed = {"avro": "latest", "subject": "orders-value", "schema.registry.url": registry.url}
        parts = {
            "source": options | typed | {"dead_letter": dead},
            "sql": "SELECT id, hour(at) AS hour, price, counts.x AS x FROM source WHERE id IS NOT NULL",
            "sink": {"topic": target},
            "trigger": "available-now",
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        spec = pipeline_spec("typed", parts)
        with warnings.catch_warnings():  # people would read them between the lines that `check` prints
            warnings.simplefilter("error", UserWarning)
            assert problems_of(spark, spec) == []
        run_pipeline(spec, session=spark)
    said = [json.loads(row.value) for row in batch_frame(spark, servers, target).collect()]
    assert said == [{"id": number, "hour": 0, "price": 2.5, "x": 1} for number in (1, 2)]
    bad = batch_frame(spark, servers, dead, {"includeHeaders": "true"}).collect()
    assert [bytes(row.value) for row in bad] == [b"{broken", too_big]
    assert bytes(bad[0].headers[-1].value) == b"no zero byte and the id of a schema before the value"


def test_values_of_protobuf_become_columns(spark: SparkSession) -> None:
    files = FileDescriptorSet(file=[orders_file(), events_file()]).SerializeToString()
    registry = {"schema.registry.url": "http://nowhere.invalid"}
    parts = {
        "source": {"subscribe": "t", "protobuf": "latest", "dead_letter": "dead"} | registry,
        "sql": "SELECT string(duration) AS duration, struct, text, number, by_name['y'].article AS y FROM source",
        "sink": {"format": "parquet", "path": "good"},
    }
    row = {"duration": timedelta(hours=1), "struct": {"a": 1}, "text": "x", "byName": {"y": {"article": "b"}}}
    rows = {"source": [row, b"{broken"]}
    out = outcome(pipeline_spec("typed", parts), rows, schemas={"t-value": files}, session=spark)
    (good,) = out["good"]
    assert good.pop("duration") == "INTERVAL '0 01:00:00' DAY TO SECOND"
    assert good == {"struct": '{"a": 1.0}', "text": "x", "number": None, "y": "b"}
    (dead,) = out["dead"]
    assert dict(dead["headers"])["__connect.errors.exception.message"].startswith("no zero byte")


def test_a_union_of_avro_becomes_a_struct(spark: SparkSession) -> None:
    town = {"type": "record", "name": "Town", "fields": [{"name": "name", "type": "string"}]}
    fields = [{"name": "where", "type": ["null", "string", "Town", "long"]}]
    schemas = {"Town": town, "t-value": {"type": "record", "name": "Order", "fields": fields}}
    parts = {
        "source": {"subscribe": "t", "avro": "latest", "schema.registry.url": "http://nowhere.invalid"},
        "sql": "SELECT where.member0 AS text, where.member1.name AS town, where.member2 AS number FROM source",
        "sink": {"format": "parquet", "path": "good"},
    }
    rows = {"source": [{"where": one} for one in ("text", {"name": "Rome"}, 7, None)]}
    out = outcome(pipeline_spec("typed", parts), rows, schemas=schemas, session=spark)["good"]
    read = [tuple(row.values()) for row in out]
    assert read == [("text", None, None), (None, "Rome", None), (None, None, 7), (None, None, None)]


def test_a_time_is_filled_once_more(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source = new_topic(servers, 1)
    write(servers, source, 0, [Record(0, hour * HOUR_MS, None, str(hour).encode()) for hour in range(1, 6)])
    parts = {
        "source": {"bootstrap.servers": servers, "subscribe": source, "maxOffsetsPerTrigger": 1},
        "sql": "SELECT CAST(value AS STRING) AS hour FROM source",
        "sink": {"format": "parquet", "path": str(tmp_path / "hours")},
    }
    for _ in range(2):
        (place,) = run_backfill(pipeline_spec("hours", parts), 2 * HOUR_MS, 4 * HOUR_MS, session=spark).values()
        assert place == f"{tmp_path}/hours.backfill/19700101T020000_19700101T040000"
        assert sorted(row.hour for row in spark.read.parquet(place).collect()) == ["2", "3"]


NOWHERE = """
source: {bootstrap.servers: "nowhere:1", subscribe: clicks}
sink: [{format: foreachBatch, path: one}, {format: foreachBatch, function: "math:no", path: two}]
"""


def test_a_function_for_batches_that_is_not_there_is_told(spark: SparkSession) -> None:
    spec = load_yaml(NOWHERE, "nowhere")
    one, two = problems_of(spark, spec)
    assert one == "sink one: foreachBatch needs function: module:function."
    assert two.startswith("sink two: There is no function math:no: ")
    with pytest.raises(PipelineError, match="Sink one: its function is given numbers of batches"):
        run_backfill(spec, 0, session=spark)


WRONG = """
sources:
  clicks: {bootstrap.servers: "nowhere:1", subscribe: clicks, json: "user STRING"}
  orders: {bootstrap.servers: "nowhere:1", subscribe: orders, json: "user STRIN"}
sql: SELECT 1
sink:
  - {topic: out, bootstrap.servers: "nowhere:1", acks: all, compression.type: gzip}
spark:
  spark.sql.shuffle.partition: 2
"""


STREAMS = """
source: {bootstrap.servers: "nowhere:1", subscribe: clicks}
sql: SELECT CAST(count(*) AS STRING) AS value FROM source
sink: [{format: parquet, path: FOLDER/counts}, {topic: out, mode: complete}]
"""


def test_everything_that_is_wrong_is_named_and_nobody_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    misspelt, source = problems_of(spark, load_yaml(WRONG, "wrong"))
    assert misspelt.endswith("Did you mean spark.sql.shuffle.partitions?")
    assert source.startswith("source orders: ")
    assert "STRIN" in source
    counting = STREAMS.replace("FOLDER", str(tmp_path))
    (problem,) = problems_of(spark, load_yaml(counting, "counting"))
    assert problem.startswith("sink counts: ")
    assert "watermark" in problem
    problems = problems_of(spark, load_yaml(counting + "trigger: 5 sometimes", "sometimes"))
    assert [problem.partition(": ")[0] for problem in problems] == ["sink counts", "sink out"]
    with pytest.raises(PipelineError, match=r"Did you mean spark.sql.shuffle.partitions\?"):
        run_pipeline(load_yaml(WRONG, "wrong"), session=spark)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "place", "why"),
    [
        ("|\n  SELECT key,\n    nothing\n  FROM source", "line 5, column 5", "UNRESOLVED_COLUMN"),
        ("'SELECT nothing FROM source'", "line 3, column 14", "UNRESOLVED_COLUMN"),
        ("|\n  SELECT key\n  FRM source", "line 5, column 7", "PARSE_SYNTAX_ERROR"),
        ("SELECT key FROM nowhere", "line 3, column 22", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_a_mistake_in_sql_is_told_at_its_place(spark: SparkSession, sql: str, place: str, why: str) -> None:
    text = f'source: {{bootstrap.servers: "nowhere:1", subscribe: clicks}}\nsink: {{format: noop}}\nsql: {sql}\n'
    (problem,) = problems_of(spark, load_yaml(text, "job", "job.yaml"))
    assert problem.startswith(f"sql: job.yaml, {place}: [{why}")


def test_a_mistake_in_sql_within_python(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    sources = 'SOURCE = {"bootstrap.servers": "nowhere:1", "subscribe": "a"}\nSINK = {"format": "noop"}\n'
    file.write_text(sources + 'SQL = """SELECT key\n  , nothing FROM source"""\n')
    (problem,) = problems_of(spark, load_spec(file))
    assert problem.startswith(f"sql: {file}, line 4, column 5: [UNRESOLVED_COLUMN")
    file.write_text(sources + 'SQL = "SELECT * FROM a"\nSTEPS = {\n    "a": "SELECT nothing FROM source"\n}\n')
    (problem,) = problems_of(spark, load_spec(file))
    assert problem.startswith(f"step a: {file}, line 5, column 18: [UNRESOLVED_COLUMN")


def test_the_examples_are_good(spark: SparkSession) -> None:
    assert problems_of(spark, load_spec(Path("examples/flights/delays.yaml"))) == []


def test_values_and_keys_go_out_by_schemas(spark: SparkSession) -> None:
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    fields = [{"name": "id", "type": "long"}, {"name": "of", "type": {"type": "map", "values": "string"}}]
    value = {"type": "record", "name": "Value", "fields": fields}
    rules = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
    registry = {"schema.registry.url": "http://nowhere.invalid"}
    parts = {
        "source": {"subscribe": "t", "key_avro": "latest", "json": "name STRING", "dead_letter": "dead"} | registry,
        "sql": "SELECT key.id, map('name', name) AS of, CAST(key.id AS INT) AS key FROM source",
        "sink": [
            {"topic": "avro", "avro": json.dumps(value), "key_avro": json.dumps(key)} | registry,
            {"topic": "pairs", "avro": json.dumps(value), "key": "id", "key_avro": "string"} | registry,
            {"topic": "json", "json_schema": json.dumps(rules)} | registry,
        ],
    }
    with pytest.raises(PipelineError, match="key_avro of pairs: string cannot be read"):
        pipeline_spec("typed", parts)
    sinks = parts["sink"]
    assert isinstance(sinks, list)
    sinks[1]["key_avro"] = '{"type": "string"}'
    rows = {"source": [Message({"name": "a"}, key={"id": 7}), Message({"name": "b"}, key=b"{broken")]}
    spec, schemas = pipeline_spec("typed", parts), {"t-key": key}
    with pytest.raises(PipelineError, match="pairs: its key is bigint, and its schema wants string"):
        outcome(spec, rows, schemas=schemas, session=spark)
    with pytest.raises(PipelineError, match="json: column of is no field of its schema, which has id"):
        outcome(spec.only(["json"]), rows, schemas=schemas, session=spark)
    out = outcome(spec.only(["avro", "dead"]), rows, schemas=schemas, session=spark)
    assert out["avro"] == [{"key": {"id": 7}, "value": {"id": 7, "of": {"name": "a"}}}]
    (dead,) = out["dead"]
    assert (dead["key"], dead["value"]) == ("{broken", {"name": "b"})
