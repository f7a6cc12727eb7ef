"""Rows of small micro-batches, read where the batch is planned: then no task needs a Python worker for its scan.

A worker costs a small batch more than its rows: one that was idle for a minute is gone, and the next one imports for a
second. Spark takes rows along with the plan from the readers of its own simple sources; `RowsWithPlan` makes a reader
one of them for that moment. It keeps them in its block manager, and has a task read them where they are lost.
"""

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from penstock.client.blocking import BlockingCluster
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.range_reader import read_ranges_from
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.source import SourceOptions
from penstock.protocol.errors import KafkaError

try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
except ImportError:  # a Spark that has no such way: tasks read all rows
    _SimpleStreamReaderWrapper = None  # type: ignore[assignment, misc]

MOST_OFFSETS = 1_000
MOST_BYTES = 1 << 20
PAUSE_S = 60.0
"""After a batch whose rows were too large, or could not be read here: a task says what is wrong."""


class SmallBatches:
    """Reads the rows of a batch that is small enough, unless the user has set a size of tasks."""

    def __init__(self, source: SourceOptions) -> None:
        self._source = source.replace(fetch_bytes=min(source.fetch_bytes, MOST_BYTES))
        has_size = source.min_partitions or source.max_records_per_partition or source.max_partitions_per_task
        self._most = 0 if has_size else MOST_OFFSETS
        self._not_before_s = 0.0

    def rows(self, cluster: BlockingCluster, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch] | None:
        """None where tasks are to read them."""
        if not 0 < sum(wanted.size for wanted in ranges) <= self._most or time.monotonic() < self._not_before_s:
            return None
        rows: list[pa.RecordBatch] = []
        size = 0
        try:
            for batch in read_ranges_from(cluster, self._source, ranges):
                size += batch.nbytes
                if size > MOST_BYTES:
                    break
                rows.append(batch)
            else:
                return rows
        except (OSError, KafkaError, PipelineError):
            cluster.forget_everything()
        self._not_before_s = time.monotonic() + PAUSE_S
        return None


class RowsWithPlan(DataSourceStreamReader):
    """A reader that has rows for Spark, of the batch whose partition it has just named, takes after Spark's own."""

    _rows: list[pa.RecordBatch] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if self._rows is None or _SimpleStreamReaderWrapper is None else _SimpleStreamReaderWrapper

    def getCache(self, start: object, end: object) -> Iterator[pa.RecordBatch] | None:  # noqa: N802 - Spark's name
        """Hand over the rows."""
        rows, self._rows = self._rows, None
        return None if rows is None else iter(rows)
