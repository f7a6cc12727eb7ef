"""Queries of pipelines as tasks report them. The worker may be anybody's: of each value its type is looked at."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from penstock.console.query import MAX_ROWS

TRACE: Final = 2_000
"""Characters of a failure."""
NAME: Final = 500
"""Those of a name; a topic's has 249 at most."""
MOST_READ: Final = 100
"""Topics of a query that a page is told."""
LARGEST: Final = 2**63 - 1
"""Of a count, and of a rate."""


Task = dict[str, str]
Row = dict[str, Any]


def queries(pipeline: str, task: Task, report: Mapping[str, Any]) -> list[Row]:
    """A row for each sink of a task."""
    sinks = report.get("sinks")
    names = [str(sink)[:NAME] for sink in (sinks if isinstance(sinks, list) else [""])[:MAX_ROWS]]
    topics = part_of(report, "topics")
    reads, writes = _texts(topics.get("read")), part_of(topics, "writes")
    return [{"pipeline": pipeline, "sink": sink, **_row(sink, task, report, reads, writes.get(sink))} for sink in names]


def _row(sink: str, task: Task, report: Mapping[str, Any], reads: list[str], writes: Any) -> Row:
    found = part_of(report, "queries") if task["state"] == "RUNNING" else {}
    known = islice(found.items(), MAX_ROWS)
    query = next((one for name, one in known if name.endswith(f": {sink}") and isinstance(one, dict)), {})
    last = part_of(query, "last")
    process = "failing" if "failing" in query else str(report.get("state", ""))
    return {
        "state": process if task["state"] == "RUNNING" and process else task["state"],
        "worker": task["worker"],
        "reads": _read(query, last) or reads,
        "writes": None if writes is None else str(writes)[:NAME],
        "rows_in": _count(query.get("input_rows")),
        "rows_out": _count(query.get("output_rows")),
        "rate": _rate(last.get("rows_per_second")),
        "lag": _count(last.get("lag")),
        "batches": _count(query.get("batches")),
        "began": _count(last.get("began_ms")),
        "took_ms": _count(last.get("duration_ms")),
        "restarts": str(sum(int(_count(one.get("restarts")) or 0) for one in (query, report))),
        "failure": _failure(query, task, report)[:TRACE],
    }


def _read(query: Mapping[str, Any], last: Mapping[str, Any]) -> list[str]:
    """What a query has read, and what waits there by partitions; nothing before its first batch."""
    waits = (name.rpartition("-")[0] for name in islice(part_of(last, "lags"), MAX_ROWS))
    return _texts([*islice(part_of(query, "read"), MAX_ROWS), *waits])


def _texts(names: Any) -> list[str]:
    known = names[: 2 * MAX_ROWS] if isinstance(names, list) else ()
    return sorted({name for name in known if isinstance(name, str) and len(name) <= NAME})[:MAX_ROWS]


def _rate(value: Any) -> float | None:
    """What Python knows beside JSON (NaN, infinity) no page could read."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= LARGEST else None


def _count(value: Any) -> str | None:
    """With all its digits."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
    return str(value) if is_count else None


def _failure(query: Mapping[str, Any], task: Task, report: Mapping[str, Any]) -> str:
    """The last one, also of a process before."""
    before = report.get("failures")
    known = [query.get("last_failure"), task["trace"], report.get("unknown"), report.get("error")]
    known += before[-1:] if isinstance(before, list) else []
    return next((str(one).partition("\n")[0] for one in known if one), "")


def part_of(found: Any, name: str) -> dict[str, Any]:
    """Of JSON; empty where there is no such object."""
    part = found.get(name) if isinstance(found, dict) else None
    return part if isinstance(part, dict) else {}
