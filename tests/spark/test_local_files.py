"""By which of Hadoop's ways a query writes its checkpoint."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.jvm import BY_FILE_SYSTEM, CHECKPOINT_FILES, local_files_written_quickly

OWN = f"{BY_FILE_SYSTEM[0].rpartition('.')[0]}.FileContextBasedCheckpointFileManager"


def way_of_a_query(spark: SparkSession, folder: Path, places: Sequence[str]) -> str:
    """The class that writes its offsets, by its simple name."""
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    with local_files_written_quickly(spark, places):
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.processAllAvailable()
        manager = query._jsq.streamingQuery().offsetLog().fileManager()
        return str(manager.getClass().getSimpleName())
    finally:
        query.stop()


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_checkpoint_on_a_local_disk_needs_few_processes(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    assert way_of_a_query(spark, tmp_path, [f"{scheme}{tmp_path}"]) == "FileSystemBasedCheckpointFileManager"
    assert spark.conf.get(CHECKPOINT_FILES, None) is None, "the session is the user's"


def test_one_that_is_elsewhere_is_written_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    where = [str(tmp_path), "hdfs://names/output"]
    assert way_of_a_query(spark, tmp_path, where) == "FileContextBasedCheckpointFileManager"


def test_what_a_user_has_set_stays(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(CHECKPOINT_FILES, OWN)
    try:
        assert way_of_a_query(spark, tmp_path, [str(tmp_path)]) == "FileContextBasedCheckpointFileManager"
        assert spark.conf.get(CHECKPOINT_FILES) == OWN
    finally:
        spark.conf.unset(CHECKPOINT_FILES)
