"""Streaming reads where Spark says where a batch begins, and how much it may take: from Spark 4.2 on."""

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.pipeline.datasource.stream_position import PositionJson, StreamPosition, from_json, to_json
from penstock.pipeline.datasource.stream_reader import PenstockStreamReader
from penstock.pipeline.errors import plain_errors
from penstock.pipeline.options.source import SourceOptions

NO_LIMIT = (1 << 63) - 1


class LimitedStreamReader(PenstockStreamReader, SupportsTriggerAvailableNow):
    """Limits the batches of a stream, and ends it at what is there where that is asked for."""

    def __init__(self, source: SourceOptions) -> None:
        super().__init__(source)
        self._is_available_now = False
        self._available: StreamPosition | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What Spark hands back with each call; `ReadAllAvailable` then comes from Trigger.Once alone."""
        if self._source.max_offsets_per_trigger:
            return ReadMaxRows(self._source.max_offsets_per_trigger)
        return ReadMaxBytes(self._source.max_bytes_per_trigger or NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on the query ends at what is there when `latestOffset` is called next."""
        self._is_available_now = True

    def latestOffset(self, start: PositionJson, limit: ReadLimit) -> PositionJson:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Where the next batch ends; `start` itself where there is nothing to do."""
        with plain_errors():
            self._commit_to_group(from_json(start) if start else self._first_position())
            return self._next_end(start, takes_all=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> PositionJson | None:  # noqa: N802 - Spark's name
        """The ends of the partitions, for the lag in the query's progress."""
        return to_json(self._latest) if self._latest.offsets else None

    def _end(self, begin: StreamPosition, takes_all: bool, wait_ms: int) -> StreamPosition | None:
        if not self._is_available_now:
            return super()._end(begin, takes_all, wait_ms)
        if self._available is None:
            self._available = super()._end(begin, True, 0) or self._latest
        return self._available
