"""What `penstock pipeline status` and `logs` say of tasks that tell nothing; without workers."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.work.connect_client import ConnectClient

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


def test_logs_are_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, Told({"log": []}), "logs", "orders") == "0: nothing was printed\n"
    assert said(monkeypatch, Told(), "logs", "orders") == "orders is STOPPED, and has no tasks\n"
