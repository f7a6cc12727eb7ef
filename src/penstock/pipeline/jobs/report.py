"""What is known of a job's process: what it said of its batches, and the last lines that it printed.

starting --running--> running --ended--> done
    +--------------------+------------failed--> failed
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.work.connect.metrics import Metric

LINES: Final = 500
LINE_LENGTH: Final = 2000
TAIL: Final = 20
NOTHING_YET: Final[Mapping[str, Any]] = {
    "input_rows": None,
    "output_rows": None,
    "batches": 0,
    "restarts": 0,
    "last": {},
}
"""Of a query."""
COUNTED: Final = ("input_rows", "output_rows", "late_rows")
ABOUT: Final = {
    "running": "1 while the process runs queries",
    "process_restarts_total": "How often the process failed and was begun again",
    "failing": "1 from a failure on until a batch succeeds",
    "restarts_total": "How often the query was begun again within its process",
    "input_rows_total": "Rows in since the process began",
    "output_rows_total": "Rows out since the process began",
    "late_rows_total": "Rows that came after their watermark, and were left out",
    "batches_total": "Batches with rows since the process began",
    "last_batch_seconds": "How long the last batch with rows took",
    "rows_per_second": "Rows in per second of the last batch with rows",
    "watermark_seconds": "The watermark, since 1970",
    "state_rows": "Rows that the query remembers",
    "state_memory_bytes": "What they take in memory",
    "state_disk_bytes": "What they take on the disk",
    "broken_rows_total": "Rows that broke a rule",
    "read_offsets_total": "Offsets of a topic that were read",
    "read_bytes_total": "Bytes of keys and values that were read, without their compression",
    "last_batch_phase_seconds": "How long a part of the last batch with rows took",
    "lag_records": "What waited in a partition at the end of the last batch with rows",
}
"""Figures, without the beginning of their names."""
COUNTED_BY_NAME: Final = ("broken", "read", "read_bytes")


class JobReport:
    """What one process has said, and what ended those before it. Its calls come from threads; each change is a single
    step.
    """

    def __init__(
        self,
        sinks: tuple[str, ...],
        failures: Sequence[str] = (),
        restarts: int = 0,
        topics: Mapping[str, Any] | None = None,
    ) -> None:
        self.state = "starting"
        self.error = ""
        self.closed: tuple[str, ...] = ()
        """Sessions at servers of Spark Connect."""
        self.is_out_of_reach = False
        """Of the server at which its queries run."""
        self._why_open: Mapping[str, str] = {}
        self._sinks = sinks
        self._failures = tuple(failures)
        self._restarts = restarts
        self._topics = topics or {}
        self._ui: str | None = None
        self._queries: dict[str, dict[str, Any]] = {}
        self._lines: deque[str] = deque(maxlen=LINES)

    def event(self, said: Mapping[str, Any]) -> None:
        """A line of JSON of `penstock pipeline run --json`."""
        match said.get("event"):
            case "running":
                self.state, self._ui = "running", said.get("ui")
            case "batch":
                self._add(said)
            case "failing":
                self._begun_again(str(said.get("query")), str(said.get("error", "")))
            case "failed":
                self.state, self.error = "failed", str(said.get("error", ""))
            case "ended" if said.get("was_stopped"):
                self.error = "the pipeline's process was stopped by somebody else"
            case "ended":
                self.state = "done"
            case "closed" if said.get("error"):
                self._why_open = {**self._why_open, str(said["session"]): str(said["error"])}
            case "closed":
                self.closed = (*self.closed, str(said["session"]))
            case "out of reach":
                self.is_out_of_reach = True

    def why_open(self, session: str) -> str:
        return self._why_open.get(session, "there was no answer in time")

    def line(self, line: str) -> None:
        self._lines.append(line[:LINE_LENGTH])

    def as_json(self, pid: int) -> dict[str, Any]:
        return {
            "state": self.state,
            "error": self.error,
            "pid": pid,
            "ui": self._ui,
            "sinks": list(self._sinks),
            "topics": dict(self._topics),
            "restarts": self._restarts,
            "failures": list(self._failures),
            "queries": dict(self._queries),
            "log": list(self._lines),
        }

    def metrics(self) -> list[Metric]:
        figures = [
            _figure("running", int(self.state == "running")),
            _figure("process_restarts_total", self._restarts),
        ]
        for name, query in self._queries.items():
            figures += figures_of(query, {"query": name})
        return figures

    def failed(self, exit_code: int | None) -> str:
        """The process has ended without being told to; returns the cause, and below it the last lines."""
        self.state = "failed"
        how = "was killed" if exit_code is None else f"ended with code {exit_code}"
        last = list(self._lines)[-TAIL:]
        said = "".join(f"; it last said: {line}" for line in last[-1:])
        return "\n".join([self.error or f"the pipeline's process {how}{said}", *last])

    def _begun_again(self, name: str, why: str) -> None:
        known = {**NOTHING_YET, **self._queries.get(name, {})}
        now = {"failing": why, "last_failure": why, "restarts": known["restarts"] + 1}
        self._queries = {**self._queries, name: {**known, **now}}

    def _add(self, batch: Mapping[str, Any]) -> None:
        name = str(batch.get("query"))
        before = {**NOTHING_YET, **self._queries.get(name, {})}
        before.pop("failing", None)
        counts = {**batch, "late_rows": (batch.get("state") or {}).get("late_rows")}
        totals = {rows: counts[rows] + (before.get(rows) or 0) for rows in COUNTED if counts.get(rows) is not None}
        for part in COUNTED_BY_NAME:
            added: Counter[str] = Counter(before.get(part)) + Counter(batch.get(part))
            totals |= {part: dict(added)} if added else {}
        last = {key: value for key, value in batch.items() if key not in ("event", "query")}
        now = {**totals, "batches": before["batches"] + 1, "last": last}
        self._queries = {**self._queries, name: {**before, **now}}


def figures_of(query: Mapping[str, Any], of: Mapping[str, str]) -> Iterator[Metric]:
    """Of one query, with these labels."""
    last: Mapping[str, Any] = query["last"]
    state: Mapping[str, Any] = last.get("state") or {}
    watermark_ms = last.get("watermark_ms")
    known = {
        "failing": int("failing" in query),
        "restarts_total": query["restarts"],
        "input_rows_total": query["input_rows"],
        "output_rows_total": query["output_rows"],
        "late_rows_total": query.get("late_rows"),
        "batches_total": query["batches"],
        "last_batch_seconds": last.get("duration_ms", 0) / 1000,
        "rows_per_second": last.get("rows_per_second"),
        "watermark_seconds": None if watermark_ms is None else watermark_ms / 1000,
        "state_rows": state.get("rows"),
        "state_memory_bytes": state.get("memory_bytes"),
        "state_disk_bytes": state.get("disk_bytes"),
    }
    yield from (_figure(figure, value, of) for figure, value in known.items() if value is not None)
    for rule, rows in query.get("broken", {}).items():
        yield _figure("broken_rows_total", rows, {**of, "rule": rule})
    for topic, offsets in query.get("read", {}).items():
        yield _figure("read_offsets_total", offsets, {**of, "topic": topic})
    for source, count in query.get("read_bytes", {}).items():
        yield _figure("read_bytes_total", count, {**of, "source": source})
    for phase, took_ms in (last.get("phases_ms") or {}).items():
        yield _figure("last_batch_phase_seconds", took_ms / 1000, {**of, "phase": phase})
    for partition, lag in (last.get("lags") or {}).items():
        of_partition = {"partition": partition, "topic": partition.rpartition("-")[0]}
        yield _figure("lag_records", lag, {**of, **of_partition})


def _figure(name: str, value: float, of: Mapping[str, str] | None = None) -> Metric:
    return Metric(f"pipeline_{name}", value, of or {}, ABOUT[name])
