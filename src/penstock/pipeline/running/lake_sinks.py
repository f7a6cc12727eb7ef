"""Tables of Delta Lake and Iceberg, for whoever reads files: which way a sink has to them in this session.

Spark writes them where their packages are there for its version. Tables of Delta are written by `deltalake` otherwise,
in any Spark: tasks write files, the driver commits them once with the query's id and the number of the batch.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Final

from pyspark import __version__ as spark_version
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import file_lister, has_format
from penstock.pipeline.running.lake_merges import (
    in_spark,
    merge_of_newest,
    merge_of_versions,
    newest,
    statement,
    versions,
    with_ends,
)
from penstock.pipeline.spec.changes import END_AT, START_AT
from penstock.pipeline.spec.pipeline import DELTA, ICEBERG, ChangesSpec, SinkSpec

WriteBatch = Callable[[DataFrame, int], None]
CURES: Final = {
    DELTA: "pip install deltalake, which needs no package of Spark's, or take the newest Spark that Delta has one for "
    "(pyspark 4.2 with spark.jars.packages: io.delta:delta-spark_4.2_2.13:4.4.0, "
    "spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog: org.apache.spark.sql.delta.catalog.DeltaCatalog)",
    ICEBERG: "take the newest Spark that Iceberg has a package for (pyspark 4.1 with "
    "spark.jars.packages: org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0, and the settings of its catalog)",
}
"""As of the end of 2026."""
LOGS: Final = {DELTA: "_delta_log", ICEBERG: "metadata"}
"""The folder by which a place is a table."""
VIEW: Final = "penstock_batch"
"""Each query has a session of its own for its batches."""


def batch_function(frame: DataFrame, sink: SinkSpec) -> WriteBatch | None:
    """A function for `foreachBatch`; None where Spark's own sink does it. PipelineError where there is no way."""
    session = frame.sparkSession
    if has_format(session, sink.format):
        return None if sink.changes is None else partial(_merge_by_spark, sink, sink.changes)
    if sink.format == DELTA and find_spec("deltalake") is not None:
        from penstock.pipeline.running.delta_tables import DeltaTarget, append, merge

        target = DeltaTarget.of(sink)
        return partial(append, target) if sink.changes is None else partial(merge, target, sink.changes)
    raise PipelineError(f"Spark {spark_version} has no format {sink.format} here: {CURES[sink.format]}.")


def _merge_by_spark(sink: SinkSpec, changes: ChangesSpec, batch: DataFrame, batch_id: int) -> None:
    session, table = batch.sparkSession, sink.option("table")
    place = f"{sink.format}.{in_spark(sink.option('path') or '')}" if table is None else table
    if changes.keeps_history:
        new = versions(batch, changes)
        _make(session, sink, new.withColumn(END_AT, sf.col(START_AT)))
        known = session.table(place).join(new.select(*changes.keys).distinct(), list(changes.keys), "left_semi")
        rows = with_ends(new, known.localCheckpoint(), changes)  # MERGE does not plan a source that reads its target
        how = merge_of_versions(changes, rows.columns, in_spark)
    else:
        rows = newest(batch, changes)
        how = merge_of_newest(changes, rows.columns, in_spark)
        _make(session, sink, rows.select(*how.columns))
    rows.createOrReplaceTempView(VIEW)
    session.sql(statement(place, VIEW, how))


def _make(session: SparkSession, sink: SinkSpec, frame: DataFrame) -> None:
    """The table with the frame's columns, if it is not there."""
    table, path = sink.option("table"), sink.option("path")
    writer = frame.limit(0).write.format(sink.format).partitionBy(*sink.partitioned_by).mode("append")
    if table is not None and not session.catalog.tableExists(table):
        writer.saveAsTable(table)
    elif table is None and not file_lister(session)(f"{path}/{LOGS[sink.format]}"):
        writer.save(path)
