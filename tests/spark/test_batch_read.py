import json
import sys
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.topics import T0_MS, batch_frame, filled_topic, new_topic, numbered, values_of, write
from tests.unit.pipeline.options.test_java_pattern import NAMES, PATTERNS

from penstock.pipeline.warm_workers import WRITER
from penstock.protocol.compression import Compression
from penstock.protocol.records import Record


def named(numbers: range) -> list[str]:
    return [f"v{number}" for number in numbers]


def test_columns_are_those_of_the_jvm_connector(spark: SparkSession, servers: str) -> None:
    topic = new_topic(servers, 1)
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None)]
    write(servers, topic, 0, [Record(0, T0_MS + 5, None, b"x", headers), Record(0, T0_MS + 7, b"k", None)])
    frame = batch_frame(spark, servers, topic, {"includeHeaders": "true"})
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    first, second = frame.orderBy("offset").collect()
    assert (first.key, bytes(first.value), first.topic, first.partition, first.offset) == (None, b"x", topic, 0, 0)
    assert first.timestamp == datetime.fromtimestamp((T0_MS + 5) / 1000)
    assert first.timestampType == 0
    assert [(header.key, header.value and bytes(header.value)) for header in first.headers] == [
        ("a", b"1"),
        ("a", None),
    ]
    assert (bytes(second.key), second.value, second.offset, second.headers) == (b"k", None, 1, None)


@pytest.mark.parametrize("compression", list(Compression))
def test_every_codec_is_read(spark: SparkSession, servers: str, compression: Compression) -> None:
    topic = new_topic(servers, 1)
    write(servers, topic, 0, numbered(range(50)), compression=compression)
    assert values_of(batch_frame(spark, servers, topic)) == named(range(50))


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, [*range(100)]),
        ({"startingOffsets": '{"%s": {"0": 3, "1": -2}}'}, [*range(3, 100)]),
        ({"endingOffsets": '{"%s": {"0": 10, "1": 1}}'}, [*range(10), 60]),
        ({"startingTimestamp": str(T0_MS + 58_500), "endingTimestamp": str(T0_MS + 62_000)}, [59, 60, 61]),
        ({"startingOffsetsByTimestamp": '{"%s": {"0": 1700000059000, "1": 1700000099000}}'}, [59, 99]),
        ({"minPartitions": "9"}, [*range(100)]),
        ({"maxRecordsPerPartition": "11"}, [*range(100)]),
        ({"kafka.isolation.level": "read_committed"}, [*range(100)]),
        ({"kafka.max.partition.fetch.bytes": "100"}, [*range(100)]),
    ],
)
def test_ranges(
    spark: SparkSession, servers: str, hundred_records: str, options: dict[str, str], numbers: list[int]
) -> None:
    named_options = {key: value.replace("%s", hundred_records) for key, value in options.items()}
    assert values_of(batch_frame(spark, servers, hundred_records, named_options)) == [f"v{n}" for n in numbers]


@pytest.fixture(scope="module")
def hundred_records(servers: str) -> str:
    """60 records in partition 0, the next 40 in partition 1."""
    return filled_topic(servers, [60, 40])


def test_large_ranges_become_many_tasks(spark: SparkSession, servers: str, hundred_records: str) -> None:
    assert batch_frame(spark, servers, hundred_records).rdd.getNumPartitions() == 1
    frame = batch_frame(spark, servers, hundred_records, {"maxRecordsPerPartition": "20"})
    assert frame.rdd.getNumPartitions() == 5


def test_topics_by_pattern_and_partitions_by_name(spark: SparkSession, servers: str, hundred_records: str) -> None:
    reader = spark.read.format("penstock").option("bootstrap.servers", servers)
    assert values_of(reader.option("assign", json.dumps({hundred_records: [1]})).load()) == named(range(60, 100))
    reader = spark.read.format("penstock").option("bootstrap.servers", servers)
    assert reader.option("subscribePattern", hundred_records[:-1] + ".").load().count() == 100


def test_an_empty_topic_has_no_rows(spark: SparkSession, servers: str) -> None:
    assert batch_frame(spark, servers, new_topic(servers)).count() == 0


def test_sql_alone_is_enough(spark: SparkSession, servers: str, hundred_records: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW hundred USING penstock OPTIONS "
        f"(`kafka.bootstrap.servers` '{servers}', subscribe '{hundred_records}')"
    )
    row = spark.sql("SELECT count(*) AS n, max(offset) AS last FROM hundred WHERE partition = 1").first()
    assert row is not None
    assert (row.n, row.last) == (40, 39)


def test_a_table_is_made_and_says_that_spark_keeps_no_options_of_it(spark: SparkSession, servers: str) -> None:
    topic = new_topic(servers)
    spark.sql(
        f"CREATE TABLE of_topic USING penstock OPTIONS (`kafka.bootstrap.servers` '{servers}', subscribe '{topic}')"
    )
    try:
        assert spark.table("of_topic").columns[:3] == ["key", "value", "topic"]
        with pytest.raises(PySparkException, match="Spark keeps none of a table"):
            spark.table("of_topic").count()
    finally:
        spark.sql("DROP TABLE of_topic")


def test_patterns_find_what_java_itself_finds(spark: SparkSession) -> None:
    assert spark._jvm is not None
    compile_in_java = spark._jvm.java.util.regex.Pattern.compile
    for java in PATTERNS:
        found = tuple(name for name in NAMES if compile_in_java(java).matcher(name).find())
        assert (java, found) == (java, PATTERNS[java])


def test_workers_are_forked_from_a_daemon_that_has_imported(spark: SparkSession) -> None:
    def main_module(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            names = [str(sys.modules["__main__"].__spec__), str(WRITER in sys.modules), *sys.path]
            yield pa.RecordBatch.from_pydict({"name": names})

    told = spark.range(1).mapInArrow(main_module, "name string").collect()
    (daemon, has_writer, *places) = [row.name for row in told]
    assert "penstock.pipeline.warm_workers" in daemon
    assert has_writer == "True"
    assert not [place for place in places if place.endswith("pyspark.zip")]
