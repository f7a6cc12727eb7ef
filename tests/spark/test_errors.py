"""What a person gets wrong is said in one sentence on the first line of Spark's text, without a traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topics import batch_frame, filled_topic, offsets_json, stream_frame

from penstock.pipeline.errors import message_in

CLOSED_PORT = "127.0.0.1:1"


def first_line(raised: pytest.ExceptionInfo[PySparkException]) -> str:
    text = str(raised.value)
    assert "Traceback" not in text
    line = text.strip().splitlines()[0]
    assert message_in(text) == message_in(line)
    return line


def one_row(spark: SparkSession) -> DataFrame:
    return spark.range(1).selectExpr("CAST(id AS STRING) AS value")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (lambda spark, at: batch_frame(spark, at, "nowhere").count(), "has no topic 'nowhere'."),
        (
            lambda spark, at: batch_frame(spark, at, "a", {"startingOfsets": "latest"}).count(),
            "has no option 'startingofsets'. Did you mean startingOffsets?",
        ),
        (
            lambda spark, at: batch_frame(spark, at, "a", {"startingOffsets": "latest"}).count(),
            "startingOffsets=latest (or -1) is for streams",
        ),
        (
            lambda spark, at: (
                spark.read.format("penstock").schema("value binary").options(**{"bootstrap.servers": at}).load().count()
            ),
            "are always key, value, topic, partition, offset, timestamp, timestampType; leave .schema(…) out.",
        ),
        (
            lambda spark, at: batch_frame(spark, CLOSED_PORT, "a").count(),
            "No broker answers at 127.0.0.1:1 (Connection refused). Check that the cluster is running",
        ),
        (lambda spark, at: batch_frame(spark, at, "a", {"failOnDataLoss": "no"}).count(), "failOnDataLoss=no: it must"),
        (
            lambda spark, at: one_row(spark).write.format("penstock").mode("append").option("topic", "a").save(),
            "Option kafka.bootstrap.servers is missing",
        ),
        (
            lambda spark, at: spark.range(1).write.format("penstock").mode("append").option("topic", "a").save(),
            "needs a column value; it has id.",
        ),
        (
            lambda spark, at: (
                one_row(spark)
                .write.format("penstock")
                .mode("append")
                .option("bootstrap.servers", at)
                .option("topic", "no/topic")
                .save()
            ),
            "INVALID_TOPIC_EXCEPTION",
        ),
    ],
)
def test_a_batch_query_says_what_is_wrong(
    spark: SparkSession, servers: str, query: Callable[[SparkSession, str], object], sentence: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        query(spark, servers)
    assert sentence in first_line(raised)


def test_a_stream_says_what_is_wrong(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    frame = stream_frame(spark, servers, "nowhere")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(PySparkException) as raised:
        query.awaitTermination()
    assert "has no topic 'nowhere'." in first_line(raised)


def test_spark_itself_asks_for_the_mode_append(spark: SparkSession, servers: str) -> None:
    writer = one_row(spark).write.format("penstock").option("bootstrap.servers", servers).option("topic", "a")
    with pytest.raises(PySparkException, match=r'SAVE_MODE.*use either the "Append"'):
        writer.save()


@pytest.mark.parametrize("option", [{"subscribePattern": "(a"}, {"minPartitions": "0"}, {"startingOfsets": "latest"}])
def test_a_frame_with_a_wrong_option_is_not_made(spark: SparkSession, servers: str, option: dict[str, str]) -> None:
    reader = spark.readStream.format("penstock").option("bootstrap.servers", servers)
    if "subscribePattern" not in option:
        reader = reader.option("subscribe", "a")
    with pytest.raises(PySparkException) as raised:
        reader.options(**option).load()
    assert next(iter(option)).lower() in first_line(raised).lower()


@pytest.mark.parametrize("trigger", [{}, {"availableNow": True}, {"once": True}])
def test_an_option_that_is_wrong_for_streams_is_said_when_the_query_starts(
    spark: SparkSession, servers: str, tmp_path: Path, trigger: dict[str, bool]
) -> None:
    writer = stream_frame(spark, servers, "a", {"endingOffsets": "latest"}).writeStream.format("noop")
    if trigger:
        writer = writer.trigger(**trigger)
    with pytest.raises(PySparkException) as raised:
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert message_in(str(raised.value)) == "Option endingOffsets is for batch queries: a stream has no end."


def test_lost_data_is_said_or_skipped(spark: SparkSession, servers: str) -> None:
    topic = filled_topic(servers, [20])
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        done.result()
    options = {"startingOffsets": offsets_json(topic, 5)}
    with pytest.raises(PySparkException) as raised:
        batch_frame(spark, servers, topic, options).count()
    assert f"Data is lost: offsets 5 to 9 of partition 0 of topic '{topic}'" in first_line(raised)
    assert batch_frame(spark, servers, topic, options | {"failOnDataLoss": "false"}).count() == 10


def test_what_never_comes_is_not_waited_for_without_end(spark: SparkSession, servers: str) -> None:
    topic = filled_topic(servers, [10])
    options = {"endingOffsets": offsets_json(topic, 20), "kafkaConsumer.pollTimeoutMs": "1"}
    with pytest.raises(PySparkException) as raised:
        batch_frame(spark, servers, topic, options).count()
    assert "No records came from partition 0" in (message_in(str(raised.value)) or "")
