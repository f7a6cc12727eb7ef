"""Each row of the table in docs/spark.md that puts our options beside those of Spark's own source and sink."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from tests.spark.query import Query, delete_records, named
from tests.spark.topics import T0_MS, cluster_at, filled_topic, new_topic, numbered, offsets_json, write

from penstock.client.blocking.offsets import committed_offsets
from penstock.pipeline.arrow.read_columns import HEADERS_TYPE
from penstock.pipeline.datasource.batch_reader import PenstockBatchReader, RangePartition
from penstock.pipeline.datasource.entry import PenstockDataSource
from penstock.pipeline.datasource.writer import write_rows
from penstock.pipeline.datasource.written_columns import check_written_columns
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.sink import sink_options
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.hashing import partition_for_key

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
TABLE = re.compile(r"^\| (?:reading|writing) \| Spark \| `penstock` \|\n\| --- .*\n((?:\|.*\n)+)", re.MULTILINE)
Case = Callable[[str], None]
CASES: dict[str, Case] = {}


def rows_of_the_page() -> list[str]:
    return [
        line.split(" | ")[0].removeprefix("| ")
        for table in TABLE.findall(PAGE.read_text())
        for line in table.splitlines()
    ]


def row(*names: str) -> Callable[[Case], Case]:
    def add(case: Case) -> Case:
        CASES.update(dict.fromkeys(names, case))
        return case

    return add


def test_each_row_has_a_case() -> None:
    assert sorted(CASES) == sorted(rows_of_the_page())


@pytest.mark.parametrize("name", rows_of_the_page())
def test_a_row_says_what_is_so(servers: str, name: str) -> None:
    CASES[name](servers)


def reader_of(servers: str, options: dict[str, str]) -> PenstockBatchReader:
    return PenstockBatchReader(source_options(read_options({"bootstrap.servers": servers} | options), streaming=False))


def read_rows(servers: str, **options: str) -> list[dict[str, Any]]:
    """What a batch query gives, in the order of partitions and offsets."""
    reader = reader_of(servers, options)
    tasks = [task for task in reader.partitions() if isinstance(task, RangePartition)]
    found = [line for task in tasks for batch in reader.read(task) for line in batch.to_pylist()]
    return sorted(found, key=lambda line: (line["topic"], line["partition"], line["offset"]))


def read(servers: str, **options: str) -> list[str]:
    return [line["value"].decode() for line in read_rows(servers, **options)]


def tasks_of(servers: str, **options: str) -> int:
    return len(reader_of(servers, options).partitions())


def refused(why: str, servers: str, **options: str) -> None:
    with pytest.raises(PipelineError, match=why):
        reader_of(servers, {"subscribe": "a"} | options)


def refused_in_a_stream(why: str, servers: str, **options: str) -> None:
    with pytest.raises(PipelineError, match=why):
        Query(servers, subscribe="a", **options)


def written(servers: str, columns: dict[str, pa.Array], **options: str) -> None:
    """Write some rows as a task does."""
    kinds = {pa.string(): StringType(), pa.binary(): BinaryType()}
    schema = StructType([StructField(name, kinds.get(array.type, StringType())) for name, array in columns.items()])
    checked = StructType([field for field in schema.fields if field.name in ("key", "value", "topic")])
    given = read_options({"bootstrap.servers": servers} | options)
    check_written_columns(checked, given.text("topic"))
    sink = sink_options(given)
    write_rows(sink, iter([pa.RecordBatch.from_pydict(columns)]))


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@row("`kafka.bootstrap.servers`")
def _(servers: str) -> None:
    with pytest.raises(PipelineError, match=r"kafka.bootstrap.servers is missing"):
        source_options(read_options({"subscribe": "a"}), streaming=True)
    topic = filled_topic(servers, [2])
    assert read(servers, subscribe=topic) == named(range(2))


@row("`assign`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [2, 3])
    assert read(servers, assign=json.dumps({topic: [1]})) == named(range(2, 5))
    with pytest.raises(PipelineError, match=r"partition 7 of topic .* does not exist"):
        read(servers, assign=json.dumps({topic: [0, 7]}))


@row("`subscribe`")
def _(servers: str) -> None:
    first, second = filled_topic(servers, [2]), filled_topic(servers, [3])
    assert sorted(read(servers, subscribe=f"{first}, {second}")) == sorted(named(range(2)) + named(range(3)))
    query = Query(servers, subscribe=first, **{"kafka.group.id": first})
    query.next()
    query.plan()
    assert read_rows(servers, subscribe="__consumer_offsets")


@row("`subscribePattern`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [2])
    assert read(servers, subscribePattern=rf"{topic[2:-1]}\p{{Alnum}}$|^__consumer_offsets$") == named(range(2))
    assert read(servers, subscribePattern="^nothing$") == []
    with pytest.raises(PipelineError, match="cannot be said in Python"):
        read(servers, subscribePattern=r"\R")


@row("`startingOffsets`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [4, 2])
    assert read(servers, subscribe=topic, startingOffsets=offsets_json(topic, 3, -2)) == named(range(3, 6))
    refused("is for streams", servers, startingOffsets="latest")
    refused("is for streams", servers, startingOffsets=offsets_json("a", -1))
    query = Query(servers, subscribe=topic, startingOffsets=offsets_json(topic, 3, -1))
    assert query.next() == ["v3"]
    with pytest.raises(PipelineError, match="says nothing about partition 1"):
        read(servers, subscribe=topic, startingOffsets=offsets_json(topic, 3))


@row("`startingTimestamp`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [5])
    other = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": json.dumps({topic: {"0": T0_MS}})}
    assert read(servers, subscribe=topic, startingTimestamp=str(T0_MS + 2500), **other) == named(range(3, 5))


@row("`startingOffsetsByTimestamp`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [5])
    times = json.dumps({topic: {"0": T0_MS + 4000}})
    assert read(servers, subscribe=topic, startingOffsetsByTimestamp=times, startingOffsets="earliest") == ["v4"]


@row("`startingOffsetsByTimestampStrategy`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [5])
    late = {"subscribe": topic, "startingTimestamp": str(T0_MS + 99_000)}
    with pytest.raises(PipelineError, match="No record is as new as the starting timestamp"):
        read(servers, **late)
    assert read(servers, **late, startingOffsetsByTimestampStrategy="latest") == []


@row("`endingOffsets`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [4, 2])
    assert read(servers, subscribe=topic, endingOffsets=offsets_json(topic, 2, -1)) == ["v0", "v1", "v4", "v5"]
    refused("nothing lies before", servers, endingOffsets="earliest")
    refused("nothing lies before", servers, endingOffsets=offsets_json("a", -2))
    refused_in_a_stream("is for batch queries", servers, endingOffsets="latest")
    backwards = {"startingOffsets": offsets_json(topic, 3, 0), "endingOffsets": offsets_json(topic, 2, 1)}
    with pytest.raises(PipelineError, match="from offset 3 to offset 2"):
        read(servers, subscribe=topic, **backwards)


@row("`endingTimestamp`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [5])
    assert read(servers, subscribe=topic, endingTimestamp=str(T0_MS + 1500)) == named(range(2))
    assert read(servers, subscribe=topic, endingTimestamp=str(T0_MS + 99_000)) == named(range(5))
    refused_in_a_stream("is for batch queries", servers, endingTimestamp="5")


@row("`endingOffsetsByTimestamp`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [5])
    times = json.dumps({topic: {"0": T0_MS + 4000}})
    assert read(servers, subscribe=topic, endingOffsetsByTimestamp=times) == named(range(4))
    refused_in_a_stream("is for batch queries", servers, endingOffsetsByTimestamp=times)


@row("`failOnDataLoss`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [5])
    delete_records(AdminClient({"bootstrap.servers": servers}), topic, 0, 3)
    from_lost = {"subscribe": topic, "startingOffsets": offsets_json(topic, 1)}
    with pytest.raises(PipelineError, match="Data is lost: offsets 1 to 2"):
        read(servers, **from_lost)
    assert read(servers, **from_lost, failOnDataLoss="false") == named(range(3, 5))


@row("`includeHeaders`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [1])
    assert "headers" not in read_rows(servers, subscribe=topic)[0]
    assert read_rows(servers, subscribe=topic, includeHeaders="true")[0]["headers"] is None


@row("`minPartitions`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [20, 5])
    assert tasks_of(servers, subscribe=topic) == 1
    assert tasks_of(servers, subscribe=filled_topic(servers, [200, 200])) == 2
    assert tasks_of(servers, subscribe=topic, minPartitions="10") == 10
    refused("minPartitions=0: it must be", servers, minPartitions="0")
    many = filled_topic(servers, [1] * 40)
    assert tasks_of(servers, subscribe=many) == 1
    assert tasks_of(servers, subscribe=many, minPartitions="40") == 40


@row("`maxRecordsPerPartition`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [20, 5])
    assert tasks_of(servers, subscribe=topic, maxRecordsPerPartition="5") == 5
    refused("maxRecordsPerPartition=0: it must be", servers, maxRecordsPerPartition="0")
    assert tasks_of(servers, subscribe=filled_topic(servers, [1] * 40), maxRecordsPerPartition="5") == 40


@row("`maxOffsetsPerTrigger`")
def _(servers: str) -> None:
    query = Query(servers, subscribe=filled_topic(servers, [20, 5]), maxOffsetsPerTrigger="10")
    assert [len(query.next()) for _ in range(4)] == [10, 10, 5, 0]


@row("`minOffsetsPerTrigger`", "`maxTriggerDelay`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic, minOffsetsPerTrigger="3")
    assert query.next() == named(range(3))
    write(servers, topic, 0, numbered(range(10, 12)))
    assert not query.plan()
    write(servers, topic, 0, numbered(range(12, 13)))
    assert query.next() == named(range(10, 13))
    query.start(maxTriggerDelay="1ms", minOffsetsPerTrigger="100")
    for number in (20, 21):
        write(servers, topic, 0, numbered([number]))
        assert query.next() == [f"v{number}"]
    refused("is more than maxOffsetsPerTrigger=8", servers, minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8")


@row("`groupIdPrefix`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [3])
    assert Query(servers, subscribe=topic, groupIdPrefix=topic).next() == named(range(3))
    admin = AdminClient({"bootstrap.servers": servers})  # one that nobody names is gone before its answer
    groups = admin.list_consumer_groups().result(30).valid
    assert not [group for group in groups if group.group_id.startswith(topic)]


@row("`kafka.group.id`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [3])
    for commits in ("false", "true"):
        query = Query(servers, subscribe=topic, commitOffsets=commits, **{"kafka.group.id": topic})
        query.next()
        query.plan()
        expected = {(topic, 0): 3} if commits == "true" else {}
        assert committed_offsets(cluster_at(servers), topic, [(topic, 0)]) == expected


@row("`fetchOffset.numRetries`", "`fetchOffset.retryIntervalMs`")
def _(servers: str) -> None:
    given = {"subscribe": "a", "fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "1"}
    source = source_options(read_options({"bootstrap.servers": servers} | given), streaming=True)
    assert source.settings.retry_timeout_ms == 2
    with pytest.raises(PipelineError, match="No broker answers"):
        read("127.0.0.1:1", **given)


@row("`kafkaConsumer.pollTimeoutMs`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [3])
    beyond = {"endingOffsets": offsets_json(topic, 9), "kafkaConsumer.pollTimeoutMs": "1"}
    with pytest.raises(PipelineError, match=r"within 1 ms \(kafkaConsumer.pollTimeoutMs\)"):
        read(servers, subscribe=topic, **beyond)


@row("`kafka.isolation.level`")
def _(servers: str) -> None:
    topic = filled_topic(servers, [3])
    assert read(servers, subscribe=topic, **{"kafka.isolation.level": "read_committed"}) == named(range(3))
    refused("it must be read_committed or read_uncommitted", servers, **{"kafka.isolation.level": "all"})


def is_refused(name: str, servers: str) -> None:
    refused(f"Option {name} is not supported", servers, **{name: "x"})


for refused_name in (
    *("auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer"),
    *("partitioner.class", "key.serializer", "value.serializer", "transactional.id"),
):
    row(f"`kafka.{refused_name}`")(partial(is_refused, f"kafka.{refused_name}"))


@row("`kafka.…` that Kafka's clients know")
def _(servers: str) -> None:
    topic = filled_topic(servers, [2])
    harmless = ("client.rack", "receive.buffer.bytes", "send.buffer.bytes", "max.block.ms", "client.dns.lookup")
    more = ("connections.max.idle.ms", "check.crcs", "retry.backoff.max.ms", "linger.ms", "fetch.min.bytes")
    assert read(servers, subscribe=topic, **{f"kafka.{name}": "x" for name in harmless + more}) == named(range(2))


@row("`kafka.security.protocol`")
def _(servers: str) -> None:
    refused("only PLAINTEXT and SSL and SASL_PLAINTEXT", servers, **{"kafka.security.protocol": "TLS"})
    refused(r"GSSAPI \(Kerberos\) is not there", servers, **{"kafka.security.protocol": "SASL_SSL"})
    topic = filled_topic(servers, [2])
    assert read(servers, subscribe=topic, **{"kafka.security.protocol": "PLAINTEXT"}) == named(range(2))


@row("any other option")
def _(servers: str) -> None:
    refused(r"no option 'minPartition'. Did you mean minPartitions\?$", servers, minPartition="3")


@row("`.schema(…)`")
def _(servers: str) -> None:
    source = PenstockDataSource({"bootstrap.servers": servers, "subscribe": "a"})
    with pytest.raises(PipelineError, match=r"leave .schema\(…\) out"):
        source.reader(StructType([StructField("value", BinaryType())]))


@row("`topic`", "column `topic`")
def _(servers: str) -> None:
    first, second = new_topic(servers, 1), new_topic(servers, 1)
    written(servers, {"value": texts("a", "b"), "topic": texts(first, second)})
    assert (read(servers, subscribe=first), read(servers, subscribe=second)) == (["a"], ["b"])
    written(servers, {"value": texts("c"), "topic": texts(first)}, topic=second)
    assert read(servers, subscribe=second) == ["b", "c"]
    with pytest.raises(PipelineError, match="Column topic is null in some rows"):
        written(servers, {"value": texts("a"), "topic": texts(None)})


@row("column `value`", "column `key`")
def _(servers: str) -> None:
    topic = new_topic(servers, 3)
    written(servers, {"key": texts("k", None), "value": pa.array([b"\xff", None], pa.binary())}, topic=topic)
    found = [(line["key"], line["value"]) for line in read_rows(servers, subscribe=topic)]
    assert sorted(found, key=str) == [(None, None), (b"k", b"\xff")]
    with pytest.raises(PipelineError, match="needs a column value; it has key"):
        written(servers, {"key": texts("k")}, topic=topic)


@row("column `headers`")
def _(servers: str) -> None:
    topic = new_topic(servers, 1)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    written(servers, {"value": texts("x"), "headers": pa.array([headers], HEADERS_TYPE)}, topic=topic)
    assert read_rows(servers, subscribe=topic, includeHeaders="true")[0]["headers"] == headers


@row("column `partition`")
def _(servers: str) -> None:
    topic, of_key = new_topic(servers, 4), partition_for_key(b"k", 4)
    other = (of_key + 1) % 4
    columns = {"key": texts("k", "k"), "value": texts("a", "b")}
    written(servers, columns | {"partition": pa.array([other, None], pa.int32())}, topic=topic)
    found = {line["value"]: line["partition"] for line in read_rows(servers, subscribe=topic)}
    assert found == {b"a": other, b"b": of_key}
    for number, why in ((-3, "is -3 in some row"), (4, "partitions end at 3")):
        with pytest.raises(PipelineError, match=why):
            written(servers, columns | {"partition": pa.array([0, number], pa.int32())}, topic=topic)


@row("column `timestamp`")
def _(servers: str) -> None:
    topic = new_topic(servers, 1)
    times = pa.array([T0_MS * 1000, None], pa.timestamp("us", tz="UTC"))
    written(servers, {"value": texts("old", "new"), "timestamp": times}, topic=topic)
    assert read(servers, subscribe=topic, endingTimestamp=str(T0_MS + 1)) == ["old"]
    assert read(servers, subscribe=topic, startingTimestamp=str(T0_MS + 1)) == ["new"]


@row("`mode(…)`")
def _(servers: str) -> None:
    source = PenstockDataSource({"bootstrap.servers": servers, "topic": new_topic(servers)})
    schema = StructType([StructField("value", BinaryType())])
    source.writer(schema, False)
    with pytest.raises(PipelineError, match=r'use mode\("append"\)'):
        source.writer(schema, True)


@row("`kafka.acks`")
def _(servers: str) -> None:
    topic = new_topic(servers, 1)
    for acks in ("all", "1", "-1"):
        written(servers, {"value": texts(acks)}, topic=topic, **{"kafka.acks": acks})
    assert read(servers, subscribe=topic) == ["all", "1", "-1"]
    with pytest.raises(PipelineError, match=r"kafka.acks=0: it must be"):
        written(servers, {"value": texts("0")}, topic=topic, **{"kafka.acks": "0"})


@row("`kafka.compression.type`")
def _(servers: str) -> None:
    topic, codecs = new_topic(servers, 1), ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        written(servers, {"value": texts(codec)}, topic=topic, **{"kafka.compression.type": codec})
    assert read(servers, subscribe=topic) == codecs
