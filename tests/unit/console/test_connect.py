"""What a worker tells: its address without a password, and of pipelines' queries what can be relied upon."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.wire.stub_worker import PIPELINE, stub_worker

from penstock.console.errors import ConsoleError
from penstock.console.looks import Looks
from penstock.console.query import MAX_ROWS
from penstock.console.views.connect import MAX_TASKS, ConnectWorker, without_user
from penstock.console.views.queries import NAME, queries
from penstock.console.watched import WatchedCluster
from penstock.pipeline.jobs.report import JobReport

BATCH = {
    "event": "batch",
    "query": "flights: late",
    "input_rows": 2**60,
    "output_rows": 7,
    "duration_ms": 250,
    "rows_per_second": 28.0,
    "lag": 3,
    "lags": {"a-b-0": 3},
    "read": {"a-b": 7},
    "began_ms": 1_750_000_000_000,
}


def watched() -> WatchedCluster:
    return cast("WatchedCluster", SimpleNamespace(looks=Looks(lambda: 0.0, lambda: 0.0)))


@asynccontextmanager
async def worker_of(
    tasks: Mapping[str, int], report: Callable[[str], Any], plugin: str = PIPELINE
) -> AsyncIterator[ConnectWorker]:
    async with stub_worker(tasks, report, plugin) as server:
        yield ConnectWorker(str(server.make_url("/")))


async def test_a_worker_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(ConsoleError, match=r"no worker at http://127\.0\.0\.1:1 ") as caught:
        await ConnectWorker("http://ada:s3cret@127.0.0.1:1/").connectors(watched(), {})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://connect:8083", "https://[::1]:8083/a@b", "connect"])
def test_an_address_without_one_stays(address: str) -> None:
    assert without_user(address) == address


async def test_each_sink_of_a_pipeline_says_what_it_reads_and_writes_and_how_it_is() -> None:
    said = JobReport(("late", "plain"), ("it fell\nat line 3",), 2, {"read": ["a", "b"], "writes": {"plain": "out"}})
    for event in ({"event": "running"}, BATCH, {"event": "failing", "query": "flights: late", "error": "no disk"}):
        said.event(event)
    async with worker_of({"x/y": 1}, lambda name: {"report": said.as_json(1)} if name == "x/y" else {}) as worker:
        found = await worker.pipelines(watched(), {})
        (reader,) = (await worker.pipelines(watched(), {"topic": "out"}))["queries"]
    late, plain = found["queries"]
    assert (found["pipelines"], found["total"], reader) == (1, 2, plain)
    assert late == {
        "pipeline": "x/y",
        "sink": "late",
        "state": "failing",
        "worker": "w:1",
        "reads": ["a-b"],
        "writes": None,
        "rows_in": str(2**60),
        "rows_out": "7",
        "rate": 28.0,
        "lag": "3",
        "batches": "1",
        "took_ms": "250",
        "began": "1750000000000",
        "restarts": "3",
        "failure": "no disk",
    }
    assert (plain["state"], plain["reads"], plain["writes"]) == ("running", ["a", "b"], "out")
    assert (plain["lag"], plain["restarts"], plain["failure"]) == (None, "2", "it fell")


@pytest.mark.parametrize(
    "report",
    [None, [], {"report": 1}, {"report": {"sinks": 5, "queries": {"a: ": 3}, "topics": {"read": "all", "writes": []}}}],
)
async def test_a_report_that_is_none_is_a_row_without_figures(report: Any) -> None:
    async with worker_of({"odd": 1}, lambda _: report) as worker:
        (row,) = (await worker.pipelines(watched(), {}))["queries"]
    assert (row["pipeline"], row["sink"], row["state"], row["reads"], row["lag"]) == ("odd", "", "RUNNING", [], None)


async def test_figures_that_no_page_could_read_are_none() -> None:
    for figure in (float("nan"), float("inf"), True, 10**4_200, "7", [7]):
        query = {"last": {"rows_per_second": figure, "lag": figure}, "input_rows": figure, "restarts": figure}
        report = {"sinks": ["s" * 9_000], "queries": {"p: " + "s" * NAME: query}, "restarts": figure}
        async with worker_of({"odd": 1}, lambda _, report=report: {"report": report}) as worker:  # type: ignore[misc]
            found = await worker.pipelines(watched(), {})
        (row,) = found["queries"]
        assert (row["rate"], row["lag"], row["rows_in"], row["restarts"]) == (None, None, None, "0")
        assert row["sink"] == "s" * NAME
        json.dumps(found, allow_nan=False)


def test_of_a_report_of_very_much_only_so_much_is_looked_at() -> None:
    names = {f"{'n' * 2_000 * (number % 2)}{number}-0": 1 for number in range(3 * MAX_ROWS)}
    report = {
        "sinks": [str(number) for number in range(3 * MAX_ROWS)],
        "queries": {f"p: {number}": {"read": names, "last": {"lags": names}} for number in range(3)},
        "topics": {"read": list(names)},
    }
    found = queries("p", {"id": "0", "state": "RUNNING", "worker": "w", "trace": ""}, report)
    assert len(found) == MAX_ROWS
    assert all(0 < len(row["reads"]) <= MAX_ROWS and len(max(row["reads"])) <= NAME for row in found)


async def test_other_connectors_are_no_pipelines_and_not_all_tasks_are_asked() -> None:
    async with worker_of({"sink": 1}, lambda _: {}, "file") as worker:
        assert (await worker.pipelines(watched(), {}))["pipelines"] == 0
    async with worker_of({"many": MAX_TASKS + 9}, lambda _: {}) as worker:
        assert (await worker.pipelines(watched(), {}))["total"] == MAX_TASKS
