"""What a running query says of itself after each batch."""

import json
from collections.abc import Iterator, Mapping

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.datasource.offset_ranges import lag
from penstock.pipeline.datasource.stream_position import from_json
from penstock.pipeline.running.rules import COUNTS
from penstock.protocol.value import Value, fresh


class BatchProgress(Value):
    """One finished batch. `lags` are how many records wait in each partition, None where no source reports it."""

    query: str
    batch_id: int
    input_rows: int
    duration_ms: int
    lags: Mapping[str, int] | None
    output_rows: int | None = None
    """None where the sink does not count."""
    broken: Mapping[str, int] = fresh(dict)
    """How many rows broke each rule of the sink."""

    @property
    def lag(self) -> int | None:
        return None if self.lags is None else sum(self.lags.values())

    @property
    def rows_per_second(self) -> float:
        return self.input_rows * 1000 / self.duration_ms if self.duration_ms else 0.0


class ProgressFeed:
    """Yields each batch of a query once, however often it is asked, if it has rows in or out."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last_batch_id = -1

    def new_batches(self) -> Iterator[BatchProgress]:
        """The batches since the last call; Spark also reports idle spells, which are left out."""
        for progress in self._query.recentProgress:
            has_rows = progress.numInputRows or progress.sink.numOutputRows > 0 or any(_broken(progress).values())
            if progress.batchId > self._last_batch_id and has_rows:
                self._last_batch_id = progress.batchId
                yield _batch(progress)


def _batch(progress: StreamingQueryProgress) -> BatchProgress:
    return BatchProgress(
        query=progress.name or "",
        batch_id=progress.batchId,
        input_rows=progress.numInputRows,
        duration_ms=progress.batchDuration,
        lags=_lags(progress.sources),
        output_rows=None if progress.sink.numOutputRows < 0 else progress.sink.numOutputRows,
        broken=_broken(progress),
    )


def _broken(progress: StreamingQueryProgress) -> dict[str, int]:
    counted = progress.observedMetrics.get(COUNTS)
    return {} if counted is None else counted.asDict()


def _lags(sources: list[SourceProgress]) -> dict[str, int] | None:
    known = [
        lags for lags in (_lags_of(source.endOffset, source.latestOffset) for source in sources) if lags is not None
    ]
    return {partition: lag for lags in known for partition, lag in lags.items()} if known else None


def _lags_of(end: str | None, latest: str | None) -> dict[str, int] | None:
    try:
        offsets, newest = from_json(json.loads(end or "")).offsets, from_json(json.loads(latest or "")).offsets
    except (ValueError, AttributeError, TypeError):  # another kind of source, with offsets of its own
        return None
    return {f"{partition[0]}-{partition[1]}": lag(offsets, {partition: newest[partition]}) for partition in newest}
