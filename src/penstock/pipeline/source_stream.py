"""Streaming reads: `spark.readStream.format("penstock")`.

On the driver one process per query calls, over and over: `latestOffset` (where does the next batch end?) and
`partitions` (which ranges are that?). `latestOffset` is called after each finished batch with that batch's end: there
the offsets of a named group are committed. When nothing is new it waits for a while itself, as Spark would ask 94 times
a second. The reader is pickled for the executors before its first use, so it connects only when it is asked.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.blocking import BlockingCluster, TopicPartition
from penstock.client.blocking_offsets import commit_offsets
from penstock.pipeline.cluster_offsets import (
    at_boundary,
    earliest,
    latest,
    partitions_of,
    report_loss,
    without_lost,
)
from penstock.pipeline.errors import plain_errors
from penstock.pipeline.offset_ranges import (
    Offsets,
    from_json,
    lag,
    ranges_between,
    split_ranges,
    take_fraction,
    to_json,
)
from penstock.pipeline.range_reader import read_range
from penstock.pipeline.record_sizes import RecordSizes
from penstock.pipeline.source_batch import RangePartition
from penstock.pipeline.source_options import SourceOptions
from penstock.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

IDLE_WAIT_MS = 500
FIRST_LOOK_MS, LONGEST_LOOK_MS = 5, 50
NO_LIMIT = (1 << 63) - 1


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on the executors."""

    def __init__(self, source: SourceOptions) -> None:
        self._source = source
        self._opened: BlockingCluster | None = None
        self._sizes = RecordSizes(source)
        self._latest: Offsets = {}
        self._available: Offsets | None = None
        self._committed: Offsets = {}
        self._last_batch_ms: int | None = None

    @property
    def _cluster(self) -> BlockingCluster:
        if self._opened is None:
            self._opened = BlockingCluster(self._source.settings)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the first batch of a new query starts."""
        with plain_errors():
            cluster, source = self._cluster, self._source
            partitions = partitions_of(cluster, source.subscription)
            return to_json(at_boundary(cluster, source, partitions, source.starting, is_start=True))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What Spark hands back with each call; `ReadAllAvailable` then comes from Trigger.Once alone."""
        if self._source.max_offsets_per_trigger:
            return ReadMaxRows(self._source.max_offsets_per_trigger)
        return ReadMaxBytes(self._source.max_bytes_per_trigger or NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on the query ends at what is there at this moment."""
        with plain_errors():
            partitions = self._partitions(is_restart=True)
            self._available = self._latest = latest(self._cluster, self._source, partitions)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next batch ends; `start` itself where there is nothing to do."""
        with plain_errors():
            begin = from_json(start)
            self._commit_to_group(begin)
            takes_all = isinstance(limit, ReadAllAvailable)
            if self._available is not None:
                end: Offsets | None = {
                    partition: max(offset, begin.get(partition, offset))
                    for partition, offset in self._available.items()
                }
            else:
                end = self._wait_for_data(begin, takes_all)
            if end is None:
                return start
            self._report_losses(begin, end)
            if not takes_all:
                end = self._limited(self._with_new_partitions(begin, end), end)
            self._last_batch_ms = _now_ms()
            return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The ends of the partitions, for the lag in the query's progress."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a batch."""
        with plain_errors():
            begin, until = from_json(start), from_json(end)
            ranges = ranges_between(self._with_new_partitions(begin, until), until)
            kept = without_lost(self._cluster, self._source, ranges) if ranges else []
            parts = split_ranges(kept, self._source.min_partitions, self._source.max_records_per_partition)
        return [RangePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: Arrow record batches."""
        if isinstance(partition, RangePartition):
            with plain_errors():
                yield from read_range(self._source, partition.wanted)

    def commit(self, end: dict[str, Any]) -> None:
        """Called one batch late, and never for the last; `latestOffset` mostly has committed this already."""
        with plain_errors():
            self._commit_to_group(from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()

    def _partitions(self, *, is_restart: bool) -> list[TopicPartition]:
        """What the subscription is about now; topics that were there at the start may be gone where that is allowed."""
        may_be_missing = is_restart and not self._source.fail_on_data_loss
        return partitions_of(self._cluster, self._source.subscription, may_be_missing=may_be_missing)

    def _wait_for_data(self, begin: Offsets, takes_all: bool) -> Offsets | None:
        """The ends of all partitions once there is enough to do, None if that does not come about for a while."""
        partitions = self._partitions(is_restart=bool(begin))
        deadline_ms, pause_ms = _now_ms() + IDLE_WAIT_MS, float(FIRST_LOOK_MS)
        while True:
            self._latest = latest(self._cluster, self._source, partitions)
            if self._is_enough(begin, takes_all):
                return self._latest
            if takes_all or _now_ms() >= deadline_ms:
                return None
            time.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 1.5, LONGEST_LOOK_MS)

    def _is_enough(self, begin: Offsets, takes_all: bool) -> bool:
        if self._latest == begin:
            return False
        source = self._source
        if takes_all or not source.min_offsets_per_trigger or self._last_batch_ms is None:
            return True
        if _now_ms() - self._last_batch_ms >= source.max_trigger_delay_ms:
            return True
        return lag(self._with_new_partitions(begin, self._latest), self._latest) >= source.min_offsets_per_trigger

    def _report_losses(self, begin: Offsets, end: Offsets) -> None:
        for (topic, partition), offset in sorted(begin.items()):
            now = end.get((topic, partition))
            if now is None:
                report_loss(self._source, topic, partition, f"all from offset {offset} on")
            elif now < offset:
                report_loss(self._source, topic, partition, f"offsets {now} to {offset - 1}")

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        source = self._source
        if source.max_offsets_per_trigger:
            total = lag(begin, end)
            if total > source.max_offsets_per_trigger:
                end = take_fraction(begin, end, source.max_offsets_per_trigger / total)
        if source.max_bytes_per_trigger:
            end = self._sizes.limit(self._cluster, begin, end, source.max_bytes_per_trigger)
        return end

    def _with_new_partitions(self, begin: Offsets, end: Mapping[TopicPartition, int]) -> Offsets:
        """Partitions that came after the query had started are read from their beginning."""
        new = [partition for partition in end if partition not in begin]
        return begin | earliest(self._cluster, new) if new else begin

    def _commit_to_group(self, offsets: Offsets) -> None:
        """A query must not fail because its group cannot be told: the checkpoint is what counts."""
        source = self._source
        if not source.commits_offsets or source.group is None or offsets == self._committed:
            return
        if not offsets:
            return
        self._committed = offsets
        try:
            commit_offsets(self._cluster, source.group, offsets)
        except (KafkaError, OSError) as error:
            logger.warning("the offsets of group %s could not be committed: %s", source.group, error)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
