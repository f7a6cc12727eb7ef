"""Queries of pipelines as tasks report them. The worker may be anybody's: of each value its type is looked at."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.console.query import MAX_ROWS

TRACE: Final = 2_000
"""Characters of a failure."""


Task = dict[str, str]
Row = dict[str, Any]


def queries(pipeline: str, task: Task, report: Mapping[str, Any]) -> list[Row]:
    """A row for each sink of a task."""
    sinks = report.get("sinks")
    names = [str(sink) for sink in (sinks if isinstance(sinks, list) else [""])[:MAX_ROWS]]
    return [{"pipeline": pipeline, "sink": sink, **_row(sink, task, report)} for sink in names]


def _row(sink: str, task: Task, report: Mapping[str, Any]) -> Row:
    found = part_of(report, "queries") if task["state"] == "RUNNING" else {}
    query = next((one for name, one in found.items() if name.endswith(f": {sink}") and isinstance(one, dict)), {})
    last, topics = part_of(query, "last"), part_of(report, "topics")
    writes = part_of(topics, "writes").get(sink)
    process = "failing" if "failing" in query else str(report.get("state", ""))
    return {
        "state": process if task["state"] == "RUNNING" and process else task["state"],
        "worker": task["worker"],
        "reads": _read(query, last) or _texts(topics.get("read")),
        "writes": None if writes is None else str(writes),
        "rows_in": _count(query.get("input_rows")),
        "rows_out": _count(query.get("output_rows")),
        "rate": last["rows_per_second"] if isinstance(last.get("rows_per_second"), int | float) else None,
        "lag": _count(last.get("lag")),
        "batches": _count(query.get("batches")),
        "began": _count(last.get("began_ms")),
        "took_ms": _count(last.get("duration_ms")),
        "restarts": str(sum(int(_count(one.get("restarts")) or 0) for one in (query, report))),
        "failure": _failure(query, task, report)[:TRACE],
    }


def _read(query: Mapping[str, Any], last: Mapping[str, Any]) -> list[str]:
    """What a query has read, and what waits there by partitions; nothing before its first batch."""
    return _texts([*part_of(query, "read"), *(name.rpartition("-")[0] for name in part_of(last, "lags"))])


def _texts(names: Any) -> list[str]:
    return sorted({str(name) for name in names})[:MAX_ROWS] if isinstance(names, list) else []


def _count(value: Any) -> str | None:
    """With all its digits."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


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
