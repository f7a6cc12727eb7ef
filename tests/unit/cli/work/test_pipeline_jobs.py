"""What `penstock pipeline status` and `logs` say of tasks that tell nothing; without workers."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.work import pipeline_jobs
from penstock.cli.work.connect_client import ConnectClient
from penstock.pipeline.jobs import commands
from penstock.pipeline.jobs.code import unpacked
from penstock.pipeline.jobs.report import ABOUT, JobReport
from penstock.pipeline.spec.files import load_yaml
from penstock.work.connect.metrics import Metric

GONE = "worker http://127.0.0.1:8084/ does not answer: Cannot connect to host 127.0.0.1:8084"


class Told:
    """What a worker answers: the tasks of the job `orders`, and a report of each or why there is none."""

    def __init__(self, *reports: dict[str, Any] | str) -> None:
        self.reports = reports

    def ask(self, _: ConnectClient, verb: str, *path: str) -> Any:
        assert verb == "GET"
        if path == ("connectors", "orders", "status"):
            tasks = [{"id": n, "state": "RUNNING", "worker_id": f"w{n}"} for n in range(len(self.reports))]
            state = "RUNNING" if tasks else "STOPPED"
            return {"name": "orders", "connector": {"state": state, "worker_id": "w"}, "tasks": tasks}
        report = self.reports[int(path[3])]
        if isinstance(report, str):
            raise click.ClickException(report)
        return {"report": report}


def said(monkeypatch: pytest.MonkeyPatch, told: Told, *words: str) -> str:
    monkeypatch.setattr(ConnectClient, "ask", lambda self, *path, **_: told.ask(self, *path))
    result = CliRunner().invoke(main, ["pipeline", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_worker_that_is_gone_is_told_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(GONE, {"sinks": ["out"], "state": "running", "log": ["begins"]})
    table, below = said(monkeypatch, told, "status", "orders").split("\n\n")
    assert [line.split()[:4] for line in table.splitlines()[1:]] == [
        ["?", "RUNNING", "?", "w0"],
        ["out", "RUNNING", "running", "w1"],
    ]
    assert below == f"task 0:\n{GONE}\n"
    assert said(monkeypatch, told, "logs", "orders").splitlines() == [f"0: {GONE}", "1: begins"]


def test_why_a_task_was_begun_again_is_told_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = ["PipelineError: no topic a\na line", "OSError: b"]
    waiting = Told({"sinks": ["out"], "state": "done", "again_in_s": 29.7, "code": "0a1b"})
    told_of_it = "\n\ntask 0 has brought code along: 0a1b\n\ntask 0 is run again in 30 s\n"
    assert said(monkeypatch, waiting, "status", "orders").endswith(told_of_it)
    told = Told({"sinks": ["out"], "state": "running", "restarts": 7, "failures": failures, "ui": "http://a:4040"})
    _, page, below = said(monkeypatch, told, "status", "orders").split("\n\n")
    assert page == "task 0: Spark's own page is http://a:4040"
    assert below == "task 0 was begun again 7 times, last after:\nPipelineError: no topic a\nOSError: b\n"
    assert said(monkeypatch, told, "logs", "orders").splitlines() == [
        "0, before: PipelineError: no topic a",
        "0, before: a line",
        "0, before: OSError: b",
        "0: nothing was printed",
    ]


def test_a_sink_that_is_begun_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    report = JobReport(("out", "in"))
    report.event({"event": "running"})
    for why in ("The disk is away.", "The disk is full."):
        report.event({"event": "failing", "query": "orders: in", "error": why})
    table, below = said(monkeypatch, Told(report.as_json(1)), "status", "orders").split("\n\n")
    assert [line.split()[2] for line in table.splitlines()[1:]] == ["running", "failing"]
    assert below == "sink in is begun again after: The disk is full.\n"
    assert Metric("pipeline_failing", 1, {"query": "orders: in"}, ABOUT["failing"]) in report.metrics()
    for rows in (0, 2, 3):
        report.event({"event": "batch", "query": "orders: in", "input_rows": 4, "broken": {"id > 0": rows, "b": 0}})
    told = said(monkeypatch, Told(report.as_json(1)), "status", "orders")
    assert "failing" not in told
    assert told.endswith(
        "\n\nsink in: 5 rows broke the rule id > 0\nsink in was begun again 2 times, last after: The disk is full.\n"
    )
    assert Metric("pipeline_restarts_total", 2, {"query": "orders: in"}, ABOUT["restarts_total"]) in report.metrics()
    broken = {"query": "orders: in", "rule": "id > 0"}
    assert Metric("pipeline_broken_rows_total", 5, broken, ABOUT["broken_rows_total"]) in report.metrics()


def test_watermark_and_state_are_told_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    report = JobReport(("out",))
    state = {"rows": 3, "memory_bytes": 2048, "disk_bytes": 512, "late_rows": 2}
    for watermark_ms in (1_000, 61_000):
        report.event({"event": "batch", "query": "orders: out", "watermark_ms": watermark_ms, "state": state})
    assert said(monkeypatch, Told(report.as_json(1)), "status", "orders").split("\n\n")[1].splitlines() == [
        "sink out: its watermark is 1970-01-01T00:01:01+00:00, 4 rows came later",
        "sink out: its state has 3 rows, 512 B on disk, 2.0 KiB in memory",
    ]


def test_logs_are_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, Told({"log": []}), "logs", "orders") == "0: nothing was printed\n"
    assert said(monkeypatch, Told(), "logs", "orders") == "orders is STOPPED, and has no tasks\n"


def test_resume_begins_failed_tasks_anew_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def answer(_: ConnectClient, verb: str, *path: str, query: Any = ()) -> Any:
        asked.append((verb, *path[1:], *query))
        if path[-1] == "config":
            return {"connector.class": "penstock.pipeline"}
        states = ["FAILED", "RUNNING"] if path[1] == "orders" else ["RUNNING"]
        return {"tasks": [{"id": number, "state": state} for number, state in enumerate(states)]}

    monkeypatch.setattr(ConnectClient, "ask", answer)
    result = CliRunner().invoke(main, ["pipeline", "resume", "orders", "clicks"])
    assert result.output.splitlines() == [
        "pipeline orders: is to run; 1 tasks that had failed begin anew",
        "pipeline clicks: is to run",
    ]
    assert [one for one in asked if one[0] != "GET"] == [
        ("PUT", "orders", "resume"),
        ("POST", "orders", "restart", ("includeTasks", "true"), ("onlyFailed", "true")),
        ("PUT", "clicks", "resume"),
    ]


@pytest.mark.parametrize(
    ("words", "config", "tasks"),
    [
        ((), {"tasks.max": "1"}, 1),
        (("--tasks-max", "3", "--restarts-max", "0"), {"tasks.max": "3", "task.restarts.max": "0"}, 2),
        (("--driver", "shared"), {"tasks.max": "1", "pipeline.driver": "shared"}, 1),
    ],
)
def test_submit_says_how_many_processes_and_how_often_they_begin_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], config: dict[str, str], tasks: int
) -> None:
    bodies: list[Any] = []
    monkeypatch.setattr(ConnectClient, "ask", lambda self, *path, body: bodies.append(body))
    file = tmp_path / "job.yaml"
    file.write_text("source: {subscribe: a}\nsink: [{topic: '${first}'}, {topic: two}]\n")
    values = ("--set", "first=one", "--checkpoint-root", "/c")
    result = CliRunner().invoke(main, ["pipeline", "submit", str(file), *values, *words])
    assert result.output == f"pipeline job: submitted, {tasks} tasks\n"
    assert bodies[0]["config"]["set.first"] == "one"
    assert {key: value for key, value in bodies[0]["config"].items() if key.startswith(("task", "pipeline."))} == config


@pytest.mark.parametrize(("servers", "code"), [("down", 1), ("a:1,b", 1), ("a:1,b:2", 0), ("${env:SERVERS}", 0)])
def test_submit_sends_no_address_that_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, servers: str, code: int
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(ConnectClient, "ask", lambda self, *path, body: asked.append(path))
    monkeypatch.setattr(pipeline_jobs, "_missing", lambda spec: [])
    (tmp_path / "job.yaml").write_text("source: {subscribe: a}\nsink: {topic: one}\n")
    words = ["--bootstrap-server", servers, "--checkpoint-root", "/c"]
    result = CliRunner().invoke(main, ["pipeline", "submit", str(tmp_path / "job.yaml"), *words])
    assert (result.exit_code, len(asked)) == (code, 1 - code)
    if code:
        assert f"bootstrap.servers: {servers.rpartition(',')[2]!r} is not an address: write host:port" in result.output


def test_what_cannot_go_on_replaces_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    problems = ["sql: there is no column b", "The state has 8 partitions."]

    def problems_in(file: Path, settings: dict[str, str], values: dict[str, str], deployed: Any) -> list[str]:
        spec = deployed(load_yaml(file.read_text(), "job", values=values))
        assert (spec.checkpoint, settings) == ("/c/job", {"spark.a": "b"})
        assert spec.sinks[0].options == {"topic": "one", "bootstrap.servers": "a:1"}
        return problems

    monkeypatch.setattr(ConnectClient, "ask", lambda self, verb, *path, **_: asked.append(verb))
    monkeypatch.setattr(pipeline_jobs, "problems_in", problems_in)
    file = tmp_path / "job.yaml"
    file.write_text("source: {subscribe: a}\nsink: {topic: '${first}'}\n")
    options = ("--checkpoint-root", "/c/", "--bootstrap-server", "a:1", "--conf", "spark.a=b", "--set", "first=one")
    words = ["pipeline", "submit", "--replace", str(file), *options]
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, asked) == (1, [])
    assert [line.strip() for line in refused.output.splitlines()] == [
        *("Error: sql: there is no column b", "The state has 8 partitions."),
        "job goes on as it was. With --unchecked it is replaced all the same.",
    ]
    assert CliRunner().invoke(main, [*words, "--unchecked"]).exit_code == 0
    problems.clear()
    assert CliRunner().invoke(main, words).exit_code == 0
    assert asked == ["PUT", "PUT"]


def test_modules_and_packages_go_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bodies: list[Any] = []
    monkeypatch.setattr(ConnectClient, "ask", lambda self, *path, body: bodies.append(body["config"]))
    monkeypatch.setattr(commands, "cache_directory", lambda: tmp_path / "cache")
    for name, text in {
        "job.py": "SOURCE = {'subscribe': 'a'}\nSINK = {'topic': 'out'}\nSQL = 'SELECT 1'\n",
        "job.yaml": "source: {subscribe: a}\nsink: {topic: out}\n",
        "names.py": "",
        "packages.txt": "foo==1\n",
        "loose.txt": "foo\n",
    }.items():
        (tmp_path / name).write_text(text)

    def submit(file: str, packages: str) -> str:
        options = ("--module", str(tmp_path / "names.py"), "--requirements", str(tmp_path / packages))
        words = ["pipeline", "submit", str(tmp_path / file), *options, "--checkpoint-root", "/c"]
        return CliRunner().invoke(main, words).output

    assert submit("job.py", "packages.txt") == "pipeline job: submitted, 1 tasks\n"
    assert submit("job.yaml", "packages.txt") == "pipeline job: submitted, 1 tasks\n"
    python, yaml = bodies
    assert python["pipeline.file"] == "job.py"
    for config, names in ((python, ["job.py", "names.py"]), (yaml, ["names.py"])):
        folder = unpacked(config["pipeline.code"], tmp_path / "code")
        assert sorted(file.name for file in folder.rglob("*.py")) == names
        assert config["pipeline.requirements"] == "foo==1\n"
    assert "foo is not NAME==VERSION" in submit("job.yaml", "loose.txt")
    assert len(bodies) == 2
