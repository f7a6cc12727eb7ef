import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.topics import cluster_at, filled_topic, numbered, stream_frame, write

from penstock.client.blocking.offsets import committed_offsets


def run_to_end(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Process what is there now into Parquet, from the checkpoint on."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "rows"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def numbers_in(spark: SparkSession, folder: Path) -> list[int]:
    frame = spark.read.parquet(str(folder / "rows"))
    return sorted(int(row.value[1:]) for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


def batches_of(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_batches_are_bounded_and_a_restart_goes_on(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    topic = filled_topic(servers, [60, 20])
    frame = stream_frame(spark, servers, topic, {"maxOffsetsPerTrigger": "40"})
    assert batches_of(run_to_end(frame, tmp_path)) == [40, 40]
    write(servers, topic, 1, numbered(range(80, 90)))
    assert batches_of(run_to_end(frame, tmp_path)) == [10]
    assert numbers_in(spark, tmp_path) == list(range(90))


def test_batches_are_bounded_by_bytes(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    topic = filled_topic(servers, [300])
    frame = stream_frame(spark, servers, topic, {"maxBytesPerTrigger": "3k"})
    sizes = batches_of(run_to_end(frame, tmp_path))
    assert len(sizes) > 2
    assert sum(sizes) == 300
    assert numbers_in(spark, tmp_path) == list(range(300))


def test_a_named_group_gets_every_batch(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    topic = filled_topic(servers, [5, 7])
    frame = stream_frame(spark, servers, topic, {"kafka.group.id": topic})
    run_to_end(frame, tmp_path / "first")
    partitions = [(topic, 0), (topic, 1)]
    assert committed_offsets(cluster_at(servers), topic, partitions) == {(topic, 0): 5, (topic, 1): 7}
    write(servers, topic, 0, numbered(range(100, 103)))
    later = stream_frame(spark, servers, topic, {"kafka.group.id": topic, "startingOffsets": "committed"})
    run_to_end(later, tmp_path / "second")
    assert numbers_in(spark, tmp_path / "second") == [100, 101, 102]


def test_offsets_have_the_layout_of_the_jvm_connector(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    topic = filled_topic(servers, [3] * 11)
    query = run_to_end(stream_frame(spark, servers, topic), tmp_path)
    (source,) = query.recentProgress[0].sources
    offsets = {name: inner for name, inner in json.loads(source.endOffset).items() if not name.startswith("#")}
    assert offsets == {topic: {str(partition): 3 for partition in range(11)}}
    assert list(offsets[topic]) == [str(partition) for partition in range(11)]


def test_a_deleted_topic_is_lost_data_or_skipped(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    kept, deleted = filled_topic(servers, [5]), filled_topic(servers, [7])
    both = f"{kept},{deleted}"
    run_to_end(stream_frame(spark, servers, both), tmp_path)
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.delete_topics([deleted]).values():
        done.result()
    write(servers, kept, 0, numbered(range(100, 103)))
    with pytest.raises(PySparkException, match=f"has no topic '{deleted}'"):
        run_to_end(stream_frame(spark, servers, both), tmp_path)
    run_to_end(stream_frame(spark, servers, both, {"failOnDataLoss": "false"}), tmp_path)
    assert numbers_in(spark, tmp_path) == sorted([*range(5), *range(7), 100, 101, 102])


def test_a_query_that_is_stopped_in_mid_batch_misses_and_repeats_nothing(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = filled_topic(servers, [200, 200])
    frame = stream_frame(spark, servers, topic, {"maxOffsetsPerTrigger": "100", "minPartitions": "2"})
    reached, hold = str(tmp_path / "reached"), str(tmp_path / "hold")
    os.mkfifo(reached)
    os.mkfifo(hold)

    def stuck_in_the_third_batch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if max(batch.column("offset").to_pylist()) >= 120:
                with open(reached, "w"), open(hold) as held:  # the other side of `hold` never opens
                    held.read()
            yield batch

    stuck = frame.mapInArrow(stuck_in_the_third_batch, frame.schema)
    query = (
        stuck.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "rows"))
        .start()
    )
    with open(reached):
        query.stop()
    assert 0 < len(numbers_in(spark, tmp_path)) < 400
    run_to_end(frame, tmp_path)
    assert numbers_in(spark, tmp_path) == list(range(400))


def test_a_query_whose_worker_dies_in_mid_batch_misses_and_repeats_nothing(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = filled_topic(servers, [100])
    frame = stream_frame(spark, servers, topic, {"maxOffsetsPerTrigger": "60"})

    def dies_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if max(batch.column("offset").to_pylist()) == 99:
                os._exit(1)

    with pytest.raises(Exception, match=r"crashed|exited|EOF"):
        run_to_end(frame.mapInArrow(dies_late, frame.schema), tmp_path)
    run_to_end(frame, tmp_path)
    assert numbers_in(spark, tmp_path) == list(range(100))
