"""Which batches of a query are told, each once, and what is told of one; Spark's calls are played."""

import json
from types import SimpleNamespace
from typing import Any

from penstock.pipeline.running.progress import ProgressFeed, StateProgress


def progress(batch_id: int, rows_in: int, rows_out: int, run: str = "1", **more: Any) -> Any:
    said = {
        "name": "q",
        "runId": run,
        "batchId": batch_id,
        "numInputRows": rows_in,
        "batchDuration": 5,
        "durationMs": {"addBatch": 3},
        "eventTime": {},
        "timestamp": "1970-01-01T00:00:20.250Z",
        "stateOperators": [],
        "sources": [],
        "sink": SimpleNamespace(numOutputRows=rows_out),
        "observedMetrics": {},
    }
    return SimpleNamespace(**said | more)


def fed(*said: Any) -> ProgressFeed:
    feed = ProgressFeed()
    for one in said:
        event: Any = SimpleNamespace(progress=one)
        feed.onQueryProgress(event)
    return feed


def test_a_window_that_closes_without_input_has_rows_out() -> None:
    feed = fed(progress(0, 10, 0), progress(1, 0, 3), progress(1, 0, 3), progress(2, 0, -1), progress(1, 4, -1, "2"))
    told = [(one.batch_id, one.input_rows, one.output_rows) for one in feed.new_batches()]
    assert told == [(0, 10, 0), (1, 0, 3), (1, 4, None)], "of a run that began again as well"
    assert list(feed.new_batches()) == []


def source(start: object, end: object, latest: object = None) -> Any:
    texts = [None if one is None else json.dumps(one) for one in (start, end, latest)]
    return SimpleNamespace(startOffset=texts[0], endOffset=texts[1], latestOffset=texts[2])


def operator(rows: int, late: int, **more: int) -> Any:
    return SimpleNamespace(
        numRowsTotal=rows, memoryUsedBytes=100, numRowsDroppedByWatermark=late, customMetrics={**more}
    )


def test_a_batch_tells_its_topics_its_phases_and_its_state() -> None:
    sources = [
        source({"a": {"0": 5, "1": 7}}, {"a": {"0": 9, "1": 7}, "b": {"0": 2}}, {"a": {"0": 19, "1": 7}}),
        source({}, {"#from": {"c": {"0": 90}}, "c": {"0": 100}}),
        source({"d": {"0": 3}}, {"#from": {"d": {"0": 5}}, "d": {"0": 6}, "#unbegun": True}),
        source(3, 4),
    ]
    feed = fed(
        progress(
            *(0, 1, 1),
            sources=sources,
            eventTime={"watermark": "1970-01-01T00:00:12.500Z"},
            stateOperators=[operator(3, 1, rocksdbSstFileSize=50), operator(4, 2)],
            observedMetrics={"penstock_bytes_of_orders": {"bytes": 70}, "penstock_bytes_of_idle": {"bytes": None}},
        )
    )
    (batch,) = feed.new_batches()
    assert batch.read == {"a": 4, "b": 2, "c": 10, "d": 1}
    assert batch.read_bytes == {"orders": 70}
    assert batch.lags == {"a-0": 10, "a-1": 0}
    assert (batch.phases_ms, batch.watermark_ms, batch.began_ms) == ({"addBatch": 3}, 12_500, 20_250)
    assert batch.state == StateProgress(rows=7, memory_bytes=200, disk_bytes=50, late_rows=3)


def test_a_watermark_that_no_row_has_moved_is_none() -> None:
    (batch,) = fed(progress(0, 1, 1, eventTime={"watermark": "1970-01-01T00:00:00.000Z"})).new_batches()
    assert batch.watermark_ms is None
