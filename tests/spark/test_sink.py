from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.topics import batch_frame, filled_topic, new_topic, stream_frame, values_of

from penstock.protocol.hashing import partition_for_key

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_rows_go_to_the_partitions_of_their_keys(spark: SparkSession, servers: str, compression: str) -> None:
    topic = new_topic(servers, 3)
    rows = spark.range(500).selectExpr("concat('k', id % 20) AS key", "concat('v', id) AS value")
    options = {"bootstrap.servers": servers, "topic": topic, "kafka.compression.type": compression}
    rows.write.format("penstock").mode("append").options(**options).save()
    back = batch_frame(spark, servers, topic).collect()
    assert sorted(bytes(row.value) for row in back) == sorted(b"v%d" % number for number in range(500))
    assert all(row.partition == partition_for_key(bytes(row.key), 3) for row in back)


def test_columns_say_topic_partition_headers_and_timestamp(spark: SparkSession, servers: str) -> None:
    first, second = new_topic(servers, 2), new_topic(servers, 2)
    rows = spark.range(0, 10, 1, 1).selectExpr(
        f"if(id < 6, '{first}', '{second}') AS topic",
        "CAST(1 AS INT) AS partition",
        "CAST(NULL AS BINARY) AS key",
        "CAST(id AS STRING) AS value",
        "array(named_struct('key', 'h', 'value', encode(CAST(id AS STRING), 'utf-8'))) AS headers",
        "timestamp_seconds(1700000000 + id) AS timestamp",
    )
    rows.write.format("penstock").mode("append").option("bootstrap.servers", servers).save()
    assert values_of(batch_frame(spark, servers, first)) == ["0", "1", "2", "3", "4", "5"]
    back = batch_frame(spark, servers, second, {"includeHeaders": "true"}).orderBy("offset").collect()
    assert [(row.partition, row.key, bytes(row.value)) for row in back] == [(1, None, b"%d" % n) for n in range(6, 10)]
    assert [[(item.key, bytes(item.value)) for item in row.headers] for row in back] == [
        [("h", b"%d" % n)] for n in range(6, 10)
    ]
    assert [row.timestamp for row in back] == [datetime.fromtimestamp(1_700_000_000 + n) for n in range(6, 10)]


def test_small_batches_keep_the_order_of_a_partition(spark: SparkSession, servers: str) -> None:
    topic = new_topic(servers, 1)
    rows = spark.range(0, 3000, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    options = {"bootstrap.servers": servers, "topic": topic, "kafka.batch.size": "1000"}
    rows.write.format("penstock").mode("append").options(**options).save()
    assert values_of(batch_frame(spark, servers, topic)) == [str(number) for number in range(3000)]


def test_from_topic_to_topic_as_a_stream(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source, target = filled_topic(servers, [30, 20]), new_topic(servers, 1)
    frame = stream_frame(spark, servers, source, {"maxOffsetsPerTrigger": "20"})
    options = {"bootstrap.servers": servers, "topic": target, "checkpointLocation": str(tmp_path)}
    frame.select("key", "value").writeStream.format("penstock").options(**options).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(values_of(batch_frame(spark, servers, target))) == sorted(f"v{number}" for number in range(50))
