"""What `penstock pipeline status` says below its table, of the reports of tasks (`pipeline/jobs/report.py`)."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from penstock.cli.terminal.output import show_bytes


def sink_lines(query: Mapping[str, Any]) -> Iterator[str]:
    """Each goes on behind the sink's name."""
    for rule, rows in query.get("broken", {}).items():
        yield f": {rows} rows broke the rule {rule}"
    last = query.get("last", {})
    if (watermark_ms := last.get("watermark_ms")) is not None:
        late = f", {query['late_rows']} rows came later" if query.get("late_rows") else ""
        yield f": its watermark is {_time(watermark_ms)}{late}"
    if state := last.get("state"):
        sizes = f"{show_bytes(state['disk_bytes'])} on disk, {show_bytes(state['memory_bytes'])} in memory"
        yield f": its state has {state['rows']} rows, {sizes}"
    if "failing" in query:
        yield f" is begun again after: {query['failing']}"
    elif query.get("restarts"):
        yield f" was begun again {_times(query['restarts'])}, last after: {query['last_failure']}"


def task_lines(task: Mapping[str, Any]) -> Iterator[list[str]]:
    """A paragraph for each thing that there is to say of a task."""
    who, report = f"task {task['id']}", task["report"]
    if at := report.get("driver"):
        yield [f"{who}: its queries are at {at['server']}, in session {at['session']}"]
    if report.get("ui"):
        yield [f"{who}: Spark's own page is {report['ui']}"]
    if report.get("code"):
        yield [f"{who} has brought code along: {report['code']}"]
    if (again_in_s := report.get("again_in_s")) is not None:
        yield [f"{who} is run again in {again_in_s:.0f} s"]
    if why := task.get("trace") or report.get("unknown"):
        yield [f"{who}:", *why.split("\n")]
    before = [failure.partition("\n")[0] for failure in report.get("failures", [])]
    if before:
        yield [f"{who} was begun again {_times(report.get('restarts', len(before)))}, last after:", *before]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
