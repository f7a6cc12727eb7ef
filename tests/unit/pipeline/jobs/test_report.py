"""What is told of a job's process: each event it says, each figure of its queries, and why it ended."""

from typing import Any

import pytest

from penstock.pipeline.jobs.report import ABOUT, LINE_LENGTH, LINES, TAIL, JobReport, figures_of

BATCH: dict[str, Any] = {
    "event": "batch",
    "query": "q",
    "input_rows": 10,
    "output_rows": 4,
    "duration_ms": 1_500,
    "rows_per_second": 6.5,
    "watermark_ms": 2_500,
    "state": {"rows": 7, "memory_bytes": 8, "disk_bytes": 9, "late_rows": 2},
    "broken": {"id > 0": 1},
    "read": {"t": 10},
    "read_bytes": {"s": 100},
    "phases_ms": {"addBatch": 250},
    "lags": {"a-b-0": 3},
}
LAST = {key: value for key, value in BATCH.items() if key not in ("event", "query")}
STARTING = {
    "state": "starting",
    "error": "",
    "pid": 7,
    "ui": None,
    "sinks": ["one", "two"],
    "topics": {"read": ["a"]},
    "restarts": 3,
    "failures": ["broken"],
    "queries": {},
    "log": [],
}
NOTHING: dict[str, Any] = {"input_rows": None, "output_rows": None, "batches": 0, "restarts": 0, "last": {}}


def report(*events: dict[str, Any]) -> JobReport:
    made = JobReport(("one", "two"), ["broken"], 3, {"read": ["a"]})
    for event in events:
        made.event(event)
    return made


def figures(one: JobReport) -> dict[str, float]:
    """By the name and the labels."""
    found: dict[str, float] = {}
    for metric in one.metrics():
        name = metric.name.removeprefix("pipeline_")
        assert metric.help == ABOUT[name]
        labels = " ".join(f"{key}={value}" for key, value in metric.labels.items())
        found[f"{name} {labels}".strip()] = metric.value
    return found


def test_nothing_is_known_at_first() -> None:
    assert report().as_json(7) == STARTING
    assert figures(report()) == {"running": 0, "process_restarts_total": 3}
    assert JobReport(()).as_json(1) == STARTING | {"pid": 1, "sinks": [], "topics": {}, "restarts": 0, "failures": []}


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        ({"event": "running", "ui": "http://u"}, {"state": "running", "ui": "http://u"}),
        ({"event": "running"}, {"state": "running"}),
        ({"event": "failed", "error": "no topic"}, {"state": "failed", "error": "no topic"}),
        ({"event": "failed"}, {"state": "failed"}),
        ({"event": "ended"}, {"state": "done"}),
        ({"event": "ended", "was_stopped": False}, {"state": "done"}),
        ({"event": "ended", "was_stopped": True}, {"error": "the pipeline's process was stopped by somebody else"}),
        ({"event": "something else"}, {}),
        ({}, {}),
        (
            {"event": "failing", "query": "q", "error": "why"},
            {"queries": {"q": NOTHING | {"failing": "why", "last_failure": "why", "restarts": 1}}},
        ),
        (
            {"event": "failing", "query": "q"},
            {"queries": {"q": NOTHING | {"failing": "", "last_failure": "", "restarts": 1}}},
        ),
        ({"event": "batch", "query": "q"}, {"queries": {"q": NOTHING | {"batches": 1}}}),
        (
            {"event": "batch", "query": "q", "input_rows": 0},
            {"queries": {"q": NOTHING | {"input_rows": 0, "batches": 1, "last": {"input_rows": 0}}}},
        ),
    ],
)
def test_each_event_changes_what_it_is_about(event: dict[str, Any], changes: dict[str, Any]) -> None:
    assert report(event).as_json(7) == STARTING | changes
    assert figures(report(event))["running"] == (event.get("event") == "running")


def test_rows_of_batches_are_added_up() -> None:
    once = report(BATCH).as_json(7)["queries"]["q"]
    counted = {"broken": {"id > 0": 1}, "read": {"t": 10}, "read_bytes": {"s": 100}}
    assert once == NOTHING | counted | {
        "input_rows": 10, "output_rows": 4, "late_rows": 2, "batches": 1, "last": LAST,
    }  # fmt: skip
    more = {"event": "batch", "query": "q", "input_rows": 1, "broken": {"id > 0": 2, "x": 0, "y": 5}, "read": {"u": 6}}
    twice = report(BATCH, more, {"event": "batch", "query": "other", "output_rows": 9}).as_json(7)["queries"]
    assert twice["q"] == once | {
        "input_rows": 11,
        "batches": 2,
        "broken": {"id > 0": 3, "y": 5},
        "read": {"t": 10, "u": 6},
        "last": {key: value for key, value in more.items() if key not in ("event", "query")},
    }
    assert twice["other"] == NOTHING | {"output_rows": 9, "batches": 1, "last": {"output_rows": 9}}


def test_a_batch_that_succeeds_ends_a_failure() -> None:
    failing = {"event": "failing", "query": "q", "error": "why"}
    known = report(BATCH, failing, failing).as_json(7)["queries"]["q"]
    assert (known["failing"], known["last_failure"], known["restarts"], known["batches"]) == ("why", "why", 2, 1)
    assert figures(report(failing))["failing query=q"] == 1
    after = report(BATCH, failing, failing, BATCH).as_json(7)["queries"]["q"]
    assert "failing" not in after
    assert (after["last_failure"], after["restarts"], after["batches"], after["input_rows"]) == ("why", 2, 2, 20)
    assert figures(report(BATCH, failing, BATCH))["failing query=q"] == 0


def test_every_figure_of_a_query() -> None:
    assert figures(report({"event": "running"}, BATCH)) == {
        "running": 1,
        "process_restarts_total": 3,
        "failing query=q": 0,
        "restarts_total query=q": 0,
        "input_rows_total query=q": 10,
        "output_rows_total query=q": 4,
        "late_rows_total query=q": 2,
        "batches_total query=q": 1,
        "last_batch_seconds query=q": 1.5,
        "rows_per_second query=q": 6.5,
        "watermark_seconds query=q": 2.5,
        "state_rows query=q": 7,
        "state_memory_bytes query=q": 8,
        "state_disk_bytes query=q": 9,
        "broken_rows_total query=q rule=id > 0": 1,
        "read_offsets_total query=q topic=t": 10,
        "read_bytes_total query=q source=s": 100,
        "last_batch_phase_seconds query=q phase=addBatch": 0.25,
        "lag_records query=q partition=a-b-0 topic=a-b": 3,
    }
    plain = {metric.name: metric.value for metric in figures_of(NOTHING | {"last": {"watermark_ms": 0}}, {})}
    assert plain == {
        "pipeline_failing": 0,
        "pipeline_restarts_total": 0,
        "pipeline_batches_total": 0,
        "pipeline_last_batch_seconds": 0,
        "pipeline_watermark_seconds": 0,
    }


def test_sessions_at_servers() -> None:
    one = report({"event": "closed", "session": "a"}, {"event": "closed", "session": 5, "error": ""})
    assert one.closed == ("a", "5")
    one.event({"event": "closed", "session": "b", "error": "gone"})
    one.event({"event": "closed", "session": "c", "error": "lost"})
    assert one.closed == ("a", "5")
    assert [one.why_open(name) for name in "bca"] == ["gone", "lost", "there was no answer in time"]
    assert not one.is_out_of_reach
    one.event({"event": "out of reach"})
    assert one.is_out_of_reach


@pytest.mark.parametrize(
    ("events", "lines", "code", "why"),
    [
        ((), (), 0, "the pipeline's process ended with code 0"),
        ((), (), None, "the pipeline's process was killed"),
        ((), ("a", "b"), 1, "the pipeline's process ended with code 1; it last said: b\na\nb"),
        (({"event": "failed", "error": "no topic"},), ("a",), 1, "no topic\na"),
    ],
)
def test_why_a_process_has_ended(events: Any, lines: tuple[str, ...], code: int | None, why: str) -> None:
    one = report({"event": "running"}, *events)
    for line in lines:
        one.line(line)
    assert one.failed(code) == why
    assert one.state == "failed"


def test_of_many_lines_the_last_ones_are_kept() -> None:
    one = report()
    for number in range(LINES + 5):
        one.line(f"{number} " + "x" * LINE_LENGTH)
    kept = one.as_json(7)["log"]
    assert [line.split()[0] for line in kept] == [str(number) for number in range(5, LINES + 5)]
    assert {len(line) for line in kept} == {LINE_LENGTH}
    assert one.failed(1).splitlines()[1:] == kept[-TAIL:]
