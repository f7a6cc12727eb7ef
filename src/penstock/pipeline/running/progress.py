"""What a running query says of itself after each batch; Spark calls, nobody asks."""

import json
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from penstock.pipeline.datasource.offset_ranges import lag
from penstock.pipeline.datasource.stream_position import beginning_of, from_json
from penstock.pipeline.running.read_bytes import bytes_read
from penstock.pipeline.running.rules import COUNTS
from penstock.protocol.value import Value, fresh

MOST_WAITING: Final = 10_000
"""Batches that nobody has taken yet; of more the oldest are forgotten."""
LAST_WORDS_S: Final = 10.0
LOOK_EVERY_S: Final = 0.05
DISK_BYTES: Final = "rocksdbSstFileSize"


class StateProgress(Value):
    """The state of a query, of all its operators, and how many rows came too late for it in this batch."""

    rows: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    late_rows: int = 0


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
    read: Mapping[str, int] = fresh(dict)
    """How many offsets of each topic are in it."""
    read_bytes: Mapping[str, int] = fresh(dict)
    """Of keys and values, by the names of sources."""
    phases_ms: Mapping[str, int] = fresh(dict)
    """How long its parts took, as Spark names them."""
    watermark_ms: int | None = None
    state: StateProgress | None = None
    """None for a query that remembers nothing."""
    began_ms: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.lags is None else sum(self.lags.values())

    @property
    def rows_per_second(self) -> float:
        return self.input_rows * 1000 / self.duration_ms if self.duration_ms else 0.0


class ProgressFeed(StreamingQueryListener):
    """The batches of all queries of a session, from its `added_to` on. Spark calls in a thread of its own."""

    def __init__(self) -> None:
        self._waiting: deque[StreamingQueryProgress] = deque(maxlen=MOST_WAITING)
        self._last: dict[str, int] = {}
        self._ended: set[str] = set()
        self._session: SparkSession | None = None

    def added_to(self, session: SparkSession) -> "ProgressFeed":
        self._session = session
        session.streams.addListener(self)
        return self

    def close(self) -> None:
        if self._session is not None:
            self._session.streams.removeListener(self)

    def new_batches(self) -> Iterator[BatchProgress]:
        """Each once, if it has rows in or out; Spark also tells of idle spells, which are left out."""
        while self._waiting:
            progress = self._waiting.popleft()
            has_rows = progress.numInputRows or progress.sink.numOutputRows > 0 or any(_broken(progress).values())
            run = str(progress.runId)
            if has_rows and progress.batchId > self._last.get(run, -1):
                self._last[run] = progress.batchId
                yield _batch(progress)

    def wait_for_ends(self, runs: Collection[str]) -> None:
        """Until all has been told of these runs, which have ended; Spark tells a moment later."""
        deadline_s = time.monotonic() + LAST_WORDS_S
        while not self._ended.issuperset(runs) and time.monotonic() < deadline_s:
            threading.Event().wait(LOOK_EVERY_S)

    # Called by Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        self._waiting.append(event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self._ended.add(str(event.runId))


def _batch(progress: StreamingQueryProgress) -> BatchProgress:
    return BatchProgress(
        query=progress.name or "",
        batch_id=progress.batchId,
        input_rows=progress.numInputRows,
        duration_ms=progress.batchDuration,
        lags=_lags(progress.sources),
        output_rows=None if progress.sink.numOutputRows < 0 else progress.sink.numOutputRows,
        broken=_broken(progress),
        read=_read(progress.sources),
        read_bytes=bytes_read(progress.observedMetrics),
        phases_ms=dict(progress.durationMs),
        watermark_ms=_watermark_ms(progress),
        state=_state(progress),
        began_ms=_milliseconds(progress.timestamp),
    )


def _broken(progress: StreamingQueryProgress) -> dict[str, int]:
    counted = progress.observedMetrics.get(COUNTS)
    return {} if counted is None else counted.asDict()


def _watermark_ms(progress: StreamingQueryProgress) -> int | None:
    """None where there is none, or no row has moved it yet."""
    text = progress.eventTime.get("watermark")
    return None if text is None else _milliseconds(text) or None


def _milliseconds(text: str) -> int:
    """Since 1970."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _state(progress: StreamingQueryProgress) -> StateProgress | None:
    operators = progress.stateOperators
    if not operators:
        return None
    return StateProgress(
        rows=sum(one.numRowsTotal for one in operators),
        memory_bytes=sum(one.memoryUsedBytes for one in operators),
        disk_bytes=sum(int(one.customMetrics.get(DISK_BYTES, 0)) for one in operators),
        late_rows=sum(one.numRowsDroppedByWatermark for one in operators),
    )


def _read(sources: list[SourceProgress]) -> dict[str, int]:
    """Of the topics that are read; those whose offsets did not move are left out."""
    read: dict[str, int] = {}
    for source in sources:
        end = _position(source.endOffset)
        begin = beginning_of(_position(source.startOffset), end)
        until, since = from_json(end).offsets, begin.offsets if begin is not None else {}
        for partition, offset in until.items():
            count = offset - since.get(partition, 0)
            if count > 0:
                read[partition[0]] = read.get(partition[0], 0) + count
    return read


def _lags(sources: list[SourceProgress]) -> dict[str, int] | None:
    known = [lags for source in sources if (lags := _lags_of(source)) is not None]
    return {partition: lag for lags in known for partition, lag in lags.items()} if known else None


def _lags_of(source: SourceProgress) -> dict[str, int] | None:
    offsets, newest = from_json(_position(source.endOffset)).offsets, from_json(_position(source.latestOffset)).offsets
    if not newest:
        return None
    return {f"{partition[0]}-{partition[1]}": lag(offsets, {partition: newest[partition]}) for partition in newest}


def _position(text: str | None) -> dict[str, Any]:
    """Empty for another kind of source, with offsets of its own."""
    try:
        read = json.loads(text or "")
        from_json(read)
    except (ValueError, AttributeError, TypeError):
        return {}
    return dict(read)
