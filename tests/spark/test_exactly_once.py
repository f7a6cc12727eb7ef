"""Rows that are written once, with Spark itself: what fails, and where, is in the simulation (`simulation/once`).

Batch writes are in what `docs/spark.md` tells readers to type.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topics import batch_frame, filled_topic, new_topic, stream_frame, values_of

from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.datasource.foreach_batch import write_once
from penstock.pipeline.once.deciding import End, Fence, ListOpen, Look, Step, Write
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_yaml

ONCE = {"penstock.sink.delivery": "exactly-once"}
COMMITTED = {"isolation.level": "read_committed"}
STEPS = (Fence, Look, ListOpen, Write, End)


def committed(spark: SparkSession, servers: str, topic: str) -> list[str]:
    return sorted(values_of(batch_frame(spark, servers, topic, COMMITTED)))


def numbered(count: int) -> list[str]:
    return sorted(f"v{number}" for number in range(count))


def forget(checkpoint: Path) -> None:
    """As after a crash between the decision about the only batch and Spark's note that it is over."""
    for path in (checkpoint / "commits").iterdir():
        path.unlink()


def test_a_stream_that_forgets_what_it_has_done_writes_nothing_again(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    source, target = filled_topic(servers, [12]), new_topic(servers, 1)
    options = {"bootstrap.servers": servers, "topic": target, "checkpointLocation": str(tmp_path), **ONCE}
    for _ in range(2):
        rows = stream_frame(spark, servers, source).select("key", "value")
        rows.writeStream.format("penstock").options(**options).trigger(once=True).start().awaitTermination()
        forget(tmp_path)
    assert committed(spark, servers, target) == numbered(12)
    assert len(values_of(batch_frame(spark, servers, target))) == 24


@pytest.mark.soak
def test_whatever_step_fails_the_function_writes_each_batch_once(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = filled_topic(servers, [len(STEPS)]), new_topic(servers, 2)
    options = {"kafka.bootstrap.servers": servers, "topic": target}
    to_fail, take = list(STEPS), Decider._take

    def taken(decider: Decider, step: Step) -> object:
        """The first step of each kind is taken, and its answer is lost."""
        answer = take(decider, step)
        if to_fail and isinstance(step, to_fail[0]):
            to_fail.pop(0)
            raise OSError("no answer")
        return answer

    def write(batch: DataFrame, batch_id: int) -> None:
        assert write_once(batch, batch_id, options) == 1

    monkeypatch.setattr(Decider, "_take", taken)
    frame = stream_frame(spark, servers, source, {"maxOffsetsPerTrigger": "1"}).select("key", "value")
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
    for _ in STEPS:
        with pytest.raises(Exception, match="no answer"):
            writer.trigger(availableNow=True).start().awaitTermination()
    writer.trigger(availableNow=True).start().awaitTermination()
    assert committed(spark, servers, target) == numbered(len(STEPS))


def test_a_function_that_writes_twice_gives_each_write_a_name(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    source, target = filled_topic(servers, [2]), new_topic(servers, 1)
    options = {"kafka.bootstrap.servers": servers, "topic": target}
    names: list[dict[str, str]] = [{}, {}]

    def write(batch: DataFrame, batch_id: int) -> None:
        for name in names:
            write_once(batch, batch_id, {**options, **name})

    frame = stream_frame(spark, servers, source).select("key", "value")
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match="would leave these rows out"):
        writer.trigger(availableNow=True).start().awaitTermination()
    names[1] = {"penstock.sink.id": "again"}
    writer.trigger(availableNow=True).start().awaitTermination()
    assert committed(spark, servers, target) == sorted(numbered(2) * 2)


def test_a_pipeline_says_so_and_writes_once(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source, target = filled_topic(servers, [6]), new_topic(servers, 1)
    spec = load_yaml(
        f"source: {{bootstrap.servers: '{servers}', subscribe: {source}, startingOffsets: earliest}}\n"
        "sql: SELECT key, count(*) AS n FROM source GROUP BY key\n"
        f"sink: {{bootstrap.servers: '{servers}', topic: {target}, key: key, mode: update, delivery: exactly-once, "
        "expect: [{rule: n > 1, name: many, on_fail: warn}]}\n"
        f"trigger: once\ncheckpoint: {tmp_path}\n",
        "counts",
    )
    broken: list[int] = []
    for _ in range(2):
        run_pipeline(spec, lambda batch: broken.extend(batch.broken.values()), session=spark)
        forget(tmp_path / target)
    assert len(committed(spark, servers, target)) == 6
    assert broken == [6, 6]
