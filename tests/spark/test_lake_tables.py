"""Tables of Delta Lake without a package of Spark's: batches that come again, in any order, and histories of rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.spark.changes import Change, history, last_rows, shuffled_and_doubled, versions_of

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.frames import sink_frame
from penstock.pipeline.running.lake_sinks import batch_function
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import SinkSpec

COLUMNS = "id BIGINT, name STRING, amount DOUBLE, __position STRING, __deleted BOOLEAN"


def sink_of(**options: Any) -> SinkSpec:
    return pipeline_spec("p", {"source": {"subscribe": "t"}, "sink": {"format": "delta", **options}}).sinks[0]


def frame_of(spark: SparkSession, changes: Iterable[Change]) -> DataFrame:
    rows = [(*one["row"].values(), f"{one['lsn']:020}", one["op"] == "d") for one in changes]
    return spark.createDataFrame(rows, COLUMNS).coalesce(1)


def batches_into(sink: SinkSpec, spark: SparkSession, given: list[Change], numbers: Iterable[int]) -> pd.DataFrame:
    """What is in the table when these batches were written, of the three that the changes make."""
    third = -(-len(given) // 3)
    for number in numbers:
        batch = sink_frame(frame_of(spark, given[number * third : (number + 1) * third]), sink)
        write = batch_function(batch, sink)
        assert write is not None
        write(batch, number)
    return DeltaTable(sink.options["path"]).to_pandas()


def test_the_newest_row_of_a_key_is_there(spark: SparkSession, tmp_path: Path) -> None:
    changes = history(5, rows=20, length=120)
    sink = sink_of(path=str(tmp_path / "table"), keys="id")
    batches_into(sink, spark, shuffled_and_doubled(changes, 6), [0, 1, 2])
    version = DeltaTable(sink.options["path"]).version()
    found = batches_into(sink, spark, shuffled_and_doubled(changes, 6), [2])  # as after a crash
    assert DeltaTable(sink.options["path"]).version() == version
    alive = found[~found["__deleted"]].sort_values("id")
    assert list(alive[["id", "name", "amount"]].itertuples(index=False, name=None)) == last_rows(changes)


def test_each_version_of_a_row_is_there(spark: SparkSession, tmp_path: Path) -> None:
    changes = history(8, rows=10, length=90)
    sink = sink_of(path=str(tmp_path / "table"), keys=["id"], stored_as_scd_type=2)
    found = batches_into(sink, spark, shuffled_and_doubled(changes, 9), [0, 1, 2, 2])
    assert list(found.columns) == ["id", "name", "amount", "__deleted", "__START_AT", "__END_AT"]
    kept = found[["id", "name", "__START_AT", "__END_AT", "__deleted"]].astype(object)
    assert sorted(kept.where(kept.notna(), "").itertuples(index=False, name=None)) == versions_of(changes)


def test_rows_are_added_once_in_directories_of_their_values(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_of(path=str(tmp_path / "table"), partitionBy="name")
    write = batch_function(frame_of(spark, []), sink)
    assert write is not None
    names = ["a", "b/c d", None, "a"]
    for number, _ in ((0, "first"), (1, "next"), (1, "again"), (0, "again")):
        rows: list[Change] = [
            {"row": {"id": key, "name": name, "amount": 0.5}, "lsn": number, "op": "c"}
            for key, name in enumerate(names)
        ]
        write(frame_of(spark, rows), number)
    table = DeltaTable(sink.options["path"])
    rows_in = table.to_pandas().sort_values(["__position", "id"])
    assert [(one.id, one.name or None) for one in rows_in.astype(object).itertuples(name="Row", index=False)] == [
        (key, name) for _ in range(2) for key, name in enumerate(names)
    ]
    assert table.metadata().partition_columns == ["name"]
    with pytest.raises(PipelineError, match=r"has id long, name string, .* by name, and not id long"):
        write(frame_of(spark, []).selectExpr("id", "name"), 2)


def test_a_column_and_a_format_that_are_not_there_are_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of(spark, [])
    with pytest.raises(PipelineError, match="there is no column region to find rows by; there are id, name, amount"):
        sink_frame(frame, sink_of(path="/out", keys="id, region"))
    with pytest.raises(PipelineError, match="no format iceberg here: take the newest Spark that Iceberg has a package"):
        batch_function(frame, sink_of(format="iceberg", table="shop.customers"))
    monkeypatch.setattr("penstock.pipeline.running.lake_sinks.find_spec", lambda name: None)
    with pytest.raises(PipelineError, match="no format delta here: pip install deltalake, which needs no package"):
        batch_function(frame, sink_of(path="/out"))
