"""What is known of a job's process: what it said of its batches, and the last lines that it printed.

starting --running--> running --ended--> done
    +--------------------+------------failed--> failed
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.work.connect.metrics import Metric

LINES: Final = 500
LINE_LENGTH: Final = 2000
TAIL: Final = 20
NOTHING_YET: Final[Mapping[str, Any]] = {"input_rows": None, "output_rows": None, "batches": 0, "last": {}}
"""Of a query."""


class JobReport:
    """What one process has said, and what ended those before it. Its calls come from threads; each change is a single
    step.
    """

    def __init__(self, sinks: tuple[str, ...], failures: Sequence[str] = ()) -> None:
        self.state = "starting"
        self.error = ""
        self._sinks = sinks
        self._failures = tuple(failures)
        self._queries: dict[str, dict[str, Any]] = {}
        self._lines: deque[str] = deque(maxlen=LINES)

    def event(self, said: Mapping[str, Any]) -> None:
        """A line of JSON of `penstock pipeline run --json`."""
        match said.get("event"):
            case "running":
                self.state = "running"
            case "batch":
                self._add(said)
            case "failing":
                query = str(said.get("query"))
                known = {**NOTHING_YET, **self._queries.get(query, {})}
                self._queries = {**self._queries, query: {**known, "failing": str(said.get("error", ""))}}
            case "failed":
                self.state, self.error = "failed", str(said.get("error", ""))
            case "ended" if said.get("was_stopped"):
                self.error = "the pipeline's process was stopped by somebody else"
            case "ended":
                self.state = "done"

    def line(self, line: str) -> None:
        self._lines.append(line[:LINE_LENGTH])

    def as_json(self, pid: int) -> dict[str, Any]:
        return {
            "state": self.state,
            "error": self.error,
            "pid": pid,
            "sinks": list(self._sinks),
            "failures": list(self._failures),
            "queries": dict(self._queries),
            "log": list(self._lines),
        }

    def metrics(self) -> list[Metric]:
        figures = [Metric("pipeline_running", int(self.state == "running"))]
        for name, query in self._queries.items():
            last: Mapping[str, Any] = query["last"]
            of = {"query": name}
            known = {
                "pipeline_failing": int("failing" in query),
                "pipeline_input_rows_total": query["input_rows"],
                "pipeline_output_rows_total": query["output_rows"],
                "pipeline_batches_total": query["batches"],
                "pipeline_last_batch_seconds": last.get("duration_ms", 0) / 1000,
                "pipeline_rows_per_second": last.get("rows_per_second"),
            }
            figures += [Metric(figure, value, of) for figure, value in known.items() if value is not None]
            for rule, rows in query.get("broken", {}).items():
                figures.append(Metric("pipeline_broken_rows_total", rows, {**of, "rule": rule}))
            for partition, lag in (last.get("lags") or {}).items():
                figures.append(Metric("pipeline_lag_records", lag, {**of, "partition": partition}))
        return figures

    def failed(self, exit_code: int | None) -> str:
        """The process has ended without being told to; returns the cause."""
        self.state = "failed"
        if self.error:
            return self.error
        how = "was killed" if exit_code is None else f"ended with code {exit_code}"
        return "\n".join([f"the pipeline's process {how}", *list(self._lines)[-TAIL:]])

    def _add(self, batch: Mapping[str, Any]) -> None:
        query = str(batch.get("query"))
        before = self._queries.get(query, {})
        known = {rows: batch[rows] for rows in ("input_rows", "output_rows") if batch.get(rows) is not None}
        totals: dict[str, Any] = {rows: count + (before.get(rows) or 0) for rows, count in known.items()}
        batches = before.get("batches", 0) + 1
        broken = Counter(before.get("broken", {})) + Counter(batch.get("broken") or {})
        totals |= {"broken": dict(broken)} if broken else {}
        before = {key: value for key, value in before.items() if key != "failing"}
        last = {key: value for key, value in batch.items() if key not in ("event", "query")}
        self._queries = {**self._queries, query: {**NOTHING_YET, **before, **totals, "batches": batches, "last": last}}
