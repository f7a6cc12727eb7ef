"""What a running query says of itself after each batch."""

import json
from collections.abc import Iterator

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.offset_ranges import lag
from penstock.pipeline.stream_position import from_json
from penstock.protocol.value import Value


class BatchProgress(Value):
    """One finished batch. `lag` is how many records wait in the source, None where the source does not say."""

    query: str
    batch_id: int
    input_rows: int
    duration_ms: int
    lag: int | None

    @property
    def rows_per_second(self) -> float:
        """The rate within the batch."""
        return self.input_rows * 1000 / self.duration_ms if self.duration_ms else 0.0


class ProgressFeed:
    """Yields each batch of a query once, however often it is asked."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last_batch_id = -1

    def new_batches(self) -> Iterator[BatchProgress]:
        """The batches since the last call; Spark also reports idle spells, which are left out."""
        for progress in self._query.recentProgress:
            if progress.batchId > self._last_batch_id and progress.numInputRows:
                self._last_batch_id = progress.batchId
                yield batch_progress(progress)


def batch_progress(progress: StreamingQueryProgress) -> BatchProgress:
    """What a person wants to know of a batch, from what Spark says of it."""
    return BatchProgress(
        query=progress.name or "",
        batch_id=progress.batchId,
        input_rows=progress.numInputRows,
        duration_ms=progress.batchDuration,
        lag=_lag(progress.sources),
    )


def _lag(sources: list[SourceProgress]) -> int | None:
    lags = [_lag_of(source.endOffset, source.latestOffset) for source in sources]
    known = [value for value in lags if value is not None]
    return sum(known) if known else None


def _lag_of(end: str | None, latest: str | None) -> int | None:
    try:
        return lag(from_json(json.loads(end or "")).offsets, from_json(json.loads(latest or "")).offsets)
    except (ValueError, AttributeError, TypeError):  # another kind of source, with offsets of its own
        return None
