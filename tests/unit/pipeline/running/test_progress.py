"""Which batches of a query are told, each once."""

from types import SimpleNamespace
from typing import Any

from penstock.pipeline.running.progress import ProgressFeed


def batch(batch_id: int, rows_in: int, rows_out: int) -> Any:
    sink = SimpleNamespace(numOutputRows=rows_out)
    return SimpleNamespace(
        name="q",
        batchId=batch_id,
        numInputRows=rows_in,
        batchDuration=5,
        sources=[],
        sink=sink,
        observedMetrics={},
    )


def test_a_window_that_closes_without_input_has_rows_out() -> None:
    query: Any = SimpleNamespace(recentProgress=[batch(0, 10, 0), batch(1, 0, 3), batch(1, 0, 3), batch(2, 0, -1)])
    told = [(one.batch_id, one.input_rows, one.output_rows) for one in ProgressFeed(query).new_batches()]
    assert told == [(0, 10, 0), (1, 0, 3)]
