"""What a worker's connectors and pipelines are on a page, row by row and field by field."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from penstock.console.errors import ConsoleError
from penstock.console.looks import Looks
from penstock.console.query import MAX_ROWS
from penstock.console.views import connect
from penstock.console.views.connect import ConnectWorker, tasks_of, without_user
from penstock.console.views.queries import LARGEST, MOST_READ, NAME, TRACE, part_of, queries
from penstock.console.watched import WatchedCluster

RUNNING = {"id": "0", "state": "RUNNING", "worker": "w:1", "trace": ""}
QUERY = {
    "input_rows": 5,
    "output_rows": 4,
    "batches": 3,
    "restarts": 2,
    "read": {"b": 1, "a": 1},
    "last": {"rows_per_second": 1.5, "lag": 7, "lags": {"a-0": 1, "c-d-1": 2}, "began_ms": 8, "duration_ms": 9},
}
REPORT: dict[str, Any] = {
    "sinks": ["late", "plain"],
    "state": "running",
    "restarts": 1,
    "topics": {"read": ["y", "x"], "writes": {"plain": "out"}},
    "queries": {"p: late": QUERY},
}
ROW = {
    "pipeline": "p",
    "sink": "late",
    "state": "running",
    "worker": "w:1",
    "reads": ["a", "b", "c-d"],
    "writes": None,
    "rows_in": "5",
    "rows_out": "4",
    "rate": 1.5,
    "lag": "7",
    "batches": "3",
    "began": "8",
    "took_ms": "9",
    "restarts": "3",
    "failure": "",
}


def rows(report: Any = None, **task: str) -> list[dict[str, Any]]:
    return queries("p", {**RUNNING, **task}, REPORT if report is None else report)


def with_query(**changed: Any) -> dict[str, Any]:
    (row, _) = rows({**REPORT, "queries": {"p: late": {**QUERY, **changed}}})
    return row


def test_each_sink_has_a_row() -> None:
    late, plain = rows()
    nothing = dict.fromkeys(("rows_in", "rows_out", "rate", "lag", "batches", "began", "took_ms"))
    assert late == ROW
    assert plain == {**ROW, **nothing, "sink": "plain", "reads": ["x", "y"], "writes": "out", "restarts": "1"}


@pytest.mark.parametrize(
    ("state", "said", "shown"),
    [
        ("RUNNING", "running", "running"),
        ("RUNNING", "", "RUNNING"),
        ("RUNNING", None, "None"),
        ("FAILED", "running", "FAILED"),
        ("PAUSED", "", "PAUSED"),
    ],
)
def test_the_state_of_a_task_that_runs_is_that_of_its_process(state: str, said: Any, shown: str) -> None:
    (row, _) = rows({**REPORT, "state": said}, state=state)
    assert row["state"] == shown
    assert row["lag"] == ("7" if state == "RUNNING" else None), "figures of one that does not run are old"


def test_a_query_that_fails_says_so() -> None:
    assert with_query(failing=1)["state"] == "failing"
    assert rows({**REPORT, "state": "RUNNING"})[0]["state"] == "RUNNING"
    without = {name: it for name, it in REPORT.items() if name != "state"}
    assert rows(without)[0]["state"] == "RUNNING"


@pytest.mark.parametrize("value", [0, -1, LARGEST, -LARGEST, LARGEST + 1, True, False, None, "7", 1.5, [1], {}])
def test_counts(value: Any) -> None:
    is_count = type(value) is int and abs(value) <= LARGEST
    assert with_query(input_rows=value)["rows_in"] == (str(value) if is_count else None)


@pytest.mark.parametrize(
    "value", [0, 7, -1.5, float(LARGEST), LARGEST + 1, float("nan"), float("inf"), True, "7", None]
)
def test_rates(value: Any) -> None:
    is_rate = type(value) in (int, float) and value == value and abs(value) <= LARGEST
    found = with_query(last={"rows_per_second": value})["rate"]
    assert (found, type(found)) == ((value, type(value)) if is_rate else (None, type(None)))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (None, []),
        ("ab", []),
        ({"a": 1}, []),
        (["b", "a", "b"], ["a", "b"]),
        (["a", 5, None, ["b"]], ["a"]),
        (["x" * NAME, "y" * (NAME + 1)], ["x" * NAME]),
        ([f"{n:04}" for n in range(MAX_ROWS + 1)], [f"{n:04}" for n in range(MAX_ROWS)]),
        (["same"] * (2 * MAX_ROWS - 1) + ["last", "gone"], ["last", "same"]),
    ],
    ids=range(8),
)
def test_names_of_topics(names: Any, shown: list[str]) -> None:
    assert rows({**REPORT, "topics": {"read": names}})[1]["reads"] == shown


@pytest.mark.parametrize(
    ("query", "task", "report", "shown"),
    [
        ({}, "", {}, ""),
        ({"last_failure": "q\nat line 3"}, "t", {"unknown": "u", "error": "e", "failures": ["f"]}, "q"),
        ({"last_failure": ""}, "t\nat", {"unknown": "u", "error": "e", "failures": ["f"]}, "t"),
        ({}, "", {"unknown": "u", "error": "e", "failures": ["f"]}, "u"),
        ({}, "", {"error": "e", "failures": ["f"]}, "e"),
        ({}, "", {"failures": ["f", "g"]}, "g"),
        ({}, "", {"failures": []}, ""),
        ({}, "", {"failures": "f"}, ""),
        ({}, "x" * (TRACE + 1), {}, "x" * TRACE),
    ],
    ids=range(9),
)
def test_the_failure_that_is_told(query: Any, task: str, report: Any, shown: str) -> None:
    told = {**REPORT, **report, "queries": {"p: late": {**QUERY, **query}}}
    assert rows(told, trace=task)[0]["failure"] == shown


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ({"sinks": [5, "a" * (NAME + 1)]}, ["5", "a" * NAME]),
        ({"sinks": "ab"}, [""]),
        ({}, [""]),
        ({"sinks": [str(n) for n in range(MAX_ROWS + 1)]}, [str(n) for n in range(MAX_ROWS)]),
    ],
    ids=range(4),
)
def test_names_of_sinks(found: Any, names: list[str]) -> None:
    assert [row["sink"] for row in rows(found)] == names


def test_the_query_of_a_sink_is_the_one_of_its_name() -> None:
    for name, is_it in (("p: late", True), ("late", False), ("p: late ", False), ("p:late", False)):
        assert (rows({**REPORT, "queries": {name: QUERY}})[0]["lag"] == "7") is is_it
    many = {f"{n}": QUERY for n in range(MAX_ROWS - 1)}
    assert rows({**REPORT, "queries": {**many, "p: late": QUERY}})[0]["lag"] == "7"
    assert rows({**REPORT, "queries": {**many, "x": {}, "p: late": QUERY}})[0]["lag"] is None
    assert rows({**REPORT, "queries": {"q: late": 5, "p: late": QUERY}})[0]["lag"] == "7"
    assert rows({**REPORT, "topics": {"writes": {"late": "w" * (NAME + 1)}}})[0]["writes"] == "w" * NAME


@pytest.mark.parametrize(
    ("found", "part"), [({"a": {"b": 1}}, {"b": 1}), ({"a": [1]}, {}), ({}, {}), (None, {}), ("a", {}), (["a"], {})]
)
def test_parts_of_json(found: Any, part: Any) -> None:
    assert part_of(found, "a") == part


def test_tasks_of_a_connector() -> None:
    told = [{"id": 1, "state": "RUNNING", "worker_id": "w", "trace": "x" * (TRACE + 1)}, 5, {}]
    full = {"id": "1", "state": "RUNNING", "worker": "w", "trace": "x" * TRACE}
    assert tasks_of({"status": {"tasks": told}}) == [full, {"id": "", "state": "", "worker": "", "trace": ""}]
    assert len(tasks_of({"status": {"tasks": [{}] * (MAX_ROWS + 1)}})) == MAX_ROWS
    for odd in (None, {}, {"status": 5}, {"status": {"tasks": {"id": 1}}}):
        assert tasks_of(odd) == []


class Worker:
    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path_qs)
        answer = self.answers.get(request.path_qs, web.HTTPNotFound())
        if isinstance(answer, Exception):
            raise answer
        return web.Response(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def watched() -> WatchedCluster:
    return cast("WatchedCluster", SimpleNamespace(looks=Looks(lambda: 0.0, lambda: 0.0)))


EXPANDED = "/connectors?expand=status&expand=info"


def pipeline(count: int, state: str = "RUNNING", plugin: str = "penstock.pipeline") -> dict[str, Any]:
    tasks = [{"id": number, "state": state, "worker_id": "w:1"} for number in range(count)]
    told = {
        "connector": {"state": state, "worker_id": "w:2", "trace": "t" * (TRACE + 1)},
        "tasks": tasks,
        "type": "sink",
    }
    return {"info": {"config": {"connector.class": plugin}}, "status": told}


async def test_connectors_have_rows() -> None:
    worker = Worker({EXPANDED: {"b": pipeline(1), "a": {}}})
    async with worker.server:
        url = str(worker.server.make_url("/")).replace("//", "//ada:secret@")
        found = await ConnectWorker(url).connectors(watched(), {})
    task = {"id": "0", "state": "RUNNING", "worker": "w:1", "trace": ""}
    assert found == {
        "worker": without_user(url).rstrip("/"),
        "total": 2,
        "connectors": [
            {"name": "a", "type": "", "state": "", "worker": "", "trace": "", "tasks": []},
            {
                "name": "b",
                "type": "sink",
                "state": "RUNNING",
                "worker": "w:2",
                "trace": "t" * TRACE,
                "tasks": [task],
            },
        ],
    }


async def test_pipelines_have_a_window() -> None:
    reads = {
        "report": {"sinks": ["s"], "topics": {"read": [f"t{n}" for n in range(MOST_READ + 1)], "writes": {"s": "o"}}}
    }
    answers = {
        EXPANDED: {"b c": pipeline(2), "a": pipeline(1), "file": pipeline(1, plugin="file")},
        "/connectors/a/tasks/0/report": reads,
        "/connectors/b%20c/tasks/1/report": {"report": {"sinks": ["x", "y"]}},
    }
    worker = Worker(answers)
    async with worker.server:
        there = ConnectWorker(str(worker.server.make_url("")))
        whole = await there.pipelines(watched(), {})
        windows = [
            await there.pipelines(watched(), query)
            for query in (
                {"from": "1", "limit": "2"},
                {"limit": "0"},
                {"topic": "o"},
                {"topic": "t100"},
                {"topic": "no"},
            )
        ]
        with pytest.raises(ConsoleError):
            await there.pipelines(watched(), {"limit": str(MAX_ROWS + 1)})
    assert (whole["total"], whole["from"], whole["pipelines"]) == (4, 0, 2)
    assert [(row["pipeline"], row["sink"]) for row in whole["queries"]] == [
        *(("a", "s"), ("b c", ""), ("b c", "x"), ("b c", "y"))
    ]
    assert len(whole["queries"][0]["reads"]) == MOST_READ
    assert whole["queries"][1]["failure"] == f"the worker at {there._shown} answers 404"
    assert [(one["total"], one["from"], [row["sink"] for row in one["queries"]]) for one in windows] == [
        *((4, 1, ["", "x"]), (4, 0, []), (1, 0, ["s"]), (1, 0, ["s"]), (0, 0, []))
    ]
    assert worker.asked.count("/connectors/a/tasks/0/report") == 7


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "what answers at {} is no worker"),
        (b"{", "what answers at {} is no worker"),
        (b"[" * 100_000, "what answers at {} is no worker"),
        (web.HTTPServiceUnavailable(), "the worker at {} answers 503"),
        ({"a": "x" * 200}, "what answers at {} is no worker"),
    ],
    ids=range(5),
)
async def test_what_is_no_worker_is_told(monkeypatch: pytest.MonkeyPatch, answer: Any, words: str) -> None:
    monkeypatch.setattr(connect, "MOST_BYTES", 200)
    worker = Worker({EXPANDED: answer})
    async with worker.server:
        there = ConnectWorker(str(worker.server.make_url("")))
        with pytest.raises(ConsoleError) as told:
            await there.connectors(watched(), {})
    assert (str(told.value), told.value.status) == (words.format(there._shown), 502)


async def test_a_large_answer_is_read_to_its_end() -> None:
    worker = Worker({EXPANDED: {f"{n:0200}": {} for n in range(2_000)}})
    async with worker.server:
        found = await ConnectWorker(str(worker.server.make_url(""))).connectors(watched(), {})
    assert (found["total"], len(found["connectors"])) == (2_000, MAX_ROWS)


async def test_without_a_worker_there_is_nothing() -> None:
    there = ConnectWorker(None)
    assert await there.connectors(watched(), {}) == {"worker": None, "connectors": [], "total": 0}
    assert await there.pipelines(watched(), {}) == {"worker": None, "queries": [], "total": 0, "pipelines": 0}
