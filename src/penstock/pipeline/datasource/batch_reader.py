"""Batch reads: `spark.read.format("penstock")`."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.blocking import BlockingCluster
from penstock.pipeline.datasource.cluster_offsets import SourceCluster
from penstock.pipeline.datasource.offset_ranges import OffsetRange, Offsets, pack_ranges, ranges_between, split_ranges
from penstock.pipeline.datasource.range_reader import read_ranges
from penstock.pipeline.errors import PipelineError, plain_errors
from penstock.pipeline.options.source import SourceOptions


@dataclass
class RangePartition(InputPartition):
    ranges: tuple[OffsetRange, ...]


class PenstockBatchReader(DataSourceReader):
    """Planned on the driver, read on the executors: it is pickled, so it holds plain data only."""

    def __init__(self, source: SourceOptions) -> None:
        self._source = source

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges between the boundaries that the options name."""
        source = self._source
        with plain_errors(), closing(BlockingCluster(source.settings)) as cluster:
            seen = SourceCluster(cluster, source)
            partitions = seen.partitions()
            topic_ids = seen.topic_ids(partitions)
            start = seen.at_boundary(partitions, source.starting, is_start=True)
            end = seen.at_boundary(partitions, source.ending, is_start=False)
            _check_order(start, end)
            return tasks_of(source, seen.without_lost(ranges_between(start, end, topic_ids)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; Spark hands over a partition of its own where there is nothing to read."""
        if isinstance(partition, RangePartition):
            with plain_errors():
                yield from read_ranges(self._source, partition.ranges)


def tasks_of(source: SourceOptions, ranges: list[OffsetRange]) -> list[RangePartition]:
    """Large ranges are cut and small ones put together, unless the user has set a size of tasks."""
    parts = split_ranges(ranges, source.min_partitions, source.max_records_per_partition)
    most = 1 if source.max_records_per_partition else source.max_partitions_per_task
    return [RangePartition(task) for task in pack_ranges(parts, source.min_partitions, most)]


def _check_order(start: Offsets, end: Offsets) -> None:
    for (topic, partition), offset in sorted(start.items()):
        if offset > end.get((topic, partition), offset):
            raise PipelineError(
                f"Partition {partition} of topic {topic!r} would be read from offset {offset} to offset "
                f"{end[topic, partition]}, which lies before it."
            )
