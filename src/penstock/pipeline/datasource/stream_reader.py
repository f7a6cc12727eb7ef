"""Streaming reads: `spark.readStream.format("penstock")`.

On the driver one process per query calls, over and over: `latestOffset` (where does the next batch end?) and
`partitions` (which ranges are that?). `latestOffset` is called after each finished batch: there the offsets of a named
group are committed. When nothing is new, and the query is idle, it waits for a while itself, as Spark would ask 94
times a second. The reader is pickled for the executors before its first use, so it connects only when it is asked.

This is the reader of Spark 4.0 and 4.1, which do not say where a batch begins, so that it cannot be limited: a batch
takes all that is there. `limited_reader` is that of later ones.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.client.blocking import BlockingCluster, TopicPartition
from penstock.client.blocking.offsets import commit_offsets
from penstock.pipeline.datasource.batch_reader import RangePartition, tasks_of
from penstock.pipeline.datasource.cluster_offsets import SourceCluster
from penstock.pipeline.datasource.offset_ranges import Offsets, lag, ranges_between, take_fraction
from penstock.pipeline.datasource.range_reader import read_ranges
from penstock.pipeline.datasource.record_sizes import RecordSizes
from penstock.pipeline.datasource.small_batches import RowsWithPlan, SmallBatches
from penstock.pipeline.datasource.stream_position import (
    UNBEGUN,
    PositionJson,
    StreamPosition,
    beginning_of,
    from_json,
    to_json,
    with_beginning,
)
from penstock.pipeline.errors import PipelineError, plain_errors
from penstock.pipeline.options.source import SourceOptions
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

IDLE_WAIT_MS = 500
IDLE_SHARE = 4
"""No other source of the query is asked meanwhile, so it waits at most a quarter of the time that it was idle."""
JUST_NOW_MS = 100
"""Spark asks a query that has nothing to do again after ten. Where more passes it was at work, perhaps for another
source.
"""
FIRST_LOOK_MS, LONGEST_LOOK_MS, LOOKS_SHARE = 5, 20, 10
"""Between two looks for data; a look that takes long, as there are many partitions, is followed by a pause that is ten
times as long.
"""


class Listing(Value):
    partitions: list[TopicPartition]
    topic_ids: Mapping[str, UUID]


class PenstockStreamReader(RowsWithPlan):
    """Planned on the driver, read on the executors."""

    def __init__(self, source: SourceOptions) -> None:
        self._source = source
        self._opened: BlockingCluster | None = None
        self._sizes = RecordSizes(source)
        self._small_batches = SmallBatches(source)
        self._latest = StreamPosition({})
        self._first: StreamPosition | None = None
        self._ended: PositionJson = {}
        self._is_unbegun = False
        self._committed: Offsets = {}
        self._last_batch_ms: int | None = None
        self._answered_ms = self._idle_since_ms = 0

    @property
    def _cluster(self) -> BlockingCluster:
        if self._opened is None:
            self._opened = BlockingCluster(self._source.settings)
        return self._opened

    @property
    def _seen(self) -> SourceCluster:
        return SourceCluster(self._cluster, self._source)

    def initialOffset(self) -> PositionJson:  # noqa: N802 - Spark's name
        """Always empty. The first `latestOffset` finds where the query begins and stores it with its answer.

        Spark calls this before each batch until there has been one, and again when the first batch is repeated after a
        restart, and stores nothing: with `startingOffsets=latest` the answer would be a later place each time.
        """
        return {}

    def latestOffset(self) -> PositionJson:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Where the next batch ends. The first call cannot know whether the query goes on from a checkpoint."""
        with plain_errors():
            if self._ended:
                self._commit_to_group(from_json(self._ended))
                self._ended = self._next_end(self._ended, takes_all=False)
            else:
                self._ended = self._marked(self._first_end())
            return self._ended

    def partitions(self, start: PositionJson, end: PositionJson) -> Sequence[InputPartition]:
        """The ranges of a batch; also of one that was planned before the query was stopped."""
        with plain_errors():
            seen, until = self._seen, from_json(end)
            begin = beginning_of(start, self._marked(end)) or self._beginning_until(until)
            if self._source.fail_on_data_loss:  # elsewhere `latestOffset` has told of it
                seen.report_losses(begin, until)
            ranges = ranges_between(seen.starts(begin, until), until.offsets, until.topic_ids)
            kept = seen.without_lost(seen.still_there(ranges)) if ranges else []
            self._rows = self._small_batches.rows(self._cluster, kept)
            return tasks_of(self._source, kept) if self._rows is None else [RangePartition(tuple(kept))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            with plain_errors():
                yield from read_ranges(self._source, partition.ranges)

    def commit(self, end: PositionJson) -> None:
        """Called one batch late, and never for the last; `latestOffset` mostly has committed this already."""
        with plain_errors():
            self._commit_to_group(from_json(end))

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _first_position(self) -> StreamPosition:
        if self._first is None:
            self._first = self._seen.first_position()
        return self._first

    def _first_end(self) -> PositionJson:
        """What is wrong with the beginning counts only where the query has no checkpoint: `partitions` knows, and tells
        of it, where nothing says where the batch begins. Spark has noted this end by then.
        """
        try:
            self._first_position()
        except PipelineError:
            end = self._end(StreamPosition({}), True, 0)
            if end is None:
                raise
            return to_json(end)
        return self._next_end({}, takes_all=False)

    def _beginning_until(self, end: StreamPosition) -> StreamPosition:
        """Of a first batch whose end was noted when no beginning was found. That end may lie before the beginning, and
        nothing is lost for that: the end that `latestOffset` finds next says that its batch begins there.
        """
        first, ends = self._first_position(), end.offsets
        self._is_unbegun, self._ended = True, {}
        return first.replace(offsets={item: min(at, ends[item]) for item, at in first.offsets.items() if item in ends})

    def _marked(self, end: PositionJson) -> PositionJson:
        return end | {UNBEGUN: True} if self._is_unbegun else end

    def _listing(self, *, is_restart: bool) -> Listing:
        """With failOnDataLoss=false, topics that were there at the start may be gone."""
        partitions = self._seen.partitions(may_be_missing=is_restart and not self._source.fail_on_data_loss)
        return Listing(partitions, self._seen.topic_ids(partitions))

    def _next_end(self, start: PositionJson, *, takes_all: bool) -> PositionJson:
        """Where a batch ends that begins at `start`; `start` itself where there is nothing to do."""
        asked_ms = _now_ms()
        if asked_ms - self._answered_ms >= JUST_NOW_MS:
            self._idle_since_ms = asked_ms
        wait_ms = min((asked_ms - self._idle_since_ms) // IDLE_SHARE, IDLE_WAIT_MS)
        begin = from_json(start) if start else self._first_position()
        end = self._end(begin, takes_all, wait_ms if start else 0)
        self._answered_ms = _now_ms()
        if end is None or end == begin:
            return start or with_beginning(begin, begin)
        self._seen.report_losses(begin, end)
        if not takes_all:
            end = end.replace(offsets=self._limited(self._seen.starts(begin, end), end.offsets))
        self._last_batch_ms = _now_ms()
        return to_json(end) if start else with_beginning(end, begin)

    def _end(self, begin: StreamPosition, takes_all: bool, wait_ms: int) -> StreamPosition | None:
        """The ends of all partitions; None if there is not enough to read."""
        is_restart = bool(begin.offsets)
        listing = self._listing(is_restart=is_restart)
        deadline_ms, pause_ms = _now_ms() + (wait_ms or IDLE_WAIT_MS), float(FIRST_LOOK_MS)
        while True:
            looked_ms = _now_ms()
            ends = self._seen.latest(listing.partitions, begin.carried(listing.topic_ids))
            self._latest = StreamPosition(ends, listing.topic_ids)
            if self._is_enough(begin, takes_all):
                again = self._listing(is_restart=is_restart)
                if again == listing:
                    return self._latest
                listing = again  # a topic came, went or was created again meanwhile: the ends may be of another topic
            elif takes_all or not wait_ms:
                return None
            if _now_ms() >= deadline_ms:
                return None
            time.sleep(pause_between_looks(pause_ms, _now_ms() - looked_ms) / 1000)
            pause_ms = min(pause_ms * 1.5, LONGEST_LOOK_MS)

    def _is_enough(self, begin: StreamPosition, takes_all: bool) -> bool:
        latest = self._latest
        if latest.offsets == begin.offsets and not begin.recreated(latest.topic_ids):
            return False
        source = self._source
        if takes_all or not source.min_offsets_per_trigger or self._last_batch_ms is None:
            return True
        if _now_ms() - self._last_batch_ms >= source.max_trigger_delay_ms:
            return True
        return lag(self._seen.starts(begin, latest), latest.offsets) >= source.min_offsets_per_trigger

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        source = self._source
        if source.max_offsets_per_trigger:
            total = lag(begin, end)
            if total > source.max_offsets_per_trigger:
                end = take_fraction(begin, end, source.max_offsets_per_trigger / total)
        if source.max_bytes_per_trigger:
            end = self._sizes.limit(self._cluster, begin, end, source.max_bytes_per_trigger)
        return end

    def _commit_to_group(self, position: StreamPosition) -> None:
        """A failed commit must not fail the query: the checkpoint is what counts."""
        source = self._source
        if not source.commits_offsets or source.group is None or position.offsets == self._committed:
            return
        self._committed = position.offsets
        try:
            there = self._seen.partitions(may_be_missing=True)
            carried = position.carried(self._seen.topic_ids(there))
            offsets = {partition: carried[partition] for partition in there if partition in carried}
            if offsets:
                commit_offsets(self._cluster, source.group, offsets)
        except (KafkaError, OSError) as error:
            logger.warning("the offsets of group %s could not be committed: %s", source.group, error)


class RefusedStreamReader(PenstockStreamReader):
    """A reader with wrong options: Spark reports only errors that are raised when the reader is used."""

    def __init__(self, why: str) -> None:
        self._why = why

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        self._refuse()

    def latestOffset(self) -> NoReturn:  # type: ignore[override]  # noqa: N802 - Spark's name
        self._refuse()

    def _refuse(self) -> NoReturn:
        with plain_errors():
            raise PipelineError(self._why)

    def stop(self) -> None:
        """Nothing was opened that could be closed."""


def pause_between_looks(shortest_ms: float, look_ms: int) -> float:
    return min(max(shortest_ms, LOOKS_SHARE * look_ms), IDLE_WAIT_MS)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
