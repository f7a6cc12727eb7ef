"""What a run of a pipeline tells its view, step by step, and what `check` says; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from penstock.cli.work import pipeline
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.keys import AT_SERVER

YAML = "source: {bootstrap.servers: 'a:1', subscribe: flights}\nsink: {topic: delays}\n"


class View:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __enter__(self) -> View:
        self.told.append("begins")
        return self

    def __exit__(self, *_: object) -> None:
        self.told.append("is over")

    def running(self, page: str) -> None:
        self.told.append(("running", page))

    def ended(self, result: object) -> None:
        self.told.append(("ended", result))

    def failed(self, why: str) -> None:
        self.told.append(("failed", why))

    def filled(self, rows: object) -> None:
        self.told.append(("filled", rows))

    def batch_ended(self, _: object) -> None: ...

    def failing(self, *_: object) -> None: ...


class Place:
    beside = "beside"

    @contextmanager
    def session(self, *words: object) -> Iterator[str]:
        assert words == ("mine", "local[*]", {}, None)
        yield "session"

    def stop(self) -> str:
        return "stop"

    def explained(self, error: PipelineError) -> str:
        return f"here: {error}"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked of Spark."""
    ran: list[Any] = []

    def run_pipeline(spec: object, *told: Any, **options: object) -> str:
        ran.append((spec, told, options))
        if spec == "broken":
            raise PipelineError("it is broken")
        return "result"

    def run_backfill(*words: object, **options: object) -> str:
        ran.append((words, options))
        return "rows"

    monkeypatch.setattr("penstock.pipeline.jvm.page_of", lambda session: f"page of {session}")
    monkeypatch.setattr("penstock.pipeline.running.run.run_pipeline", run_pipeline)
    monkeypatch.setattr("penstock.pipeline.running.backfill.run_backfill", run_backfill)
    return ran


def run(view: View, spec: str, times: tuple[int, int | None] | None = None, *, keep_going: bool = False) -> None:
    of, told, place = cast("Any", lambda: spec), cast("Any", view), cast("Any", Place())
    pipeline._run("mine", "local[*]", {}, of, told, None, times, 7, keep_going=keep_going, place=place)


@pytest.mark.parametrize("keep_going", [True, False])
def test_a_view_is_told_how_it_goes_and_ends(ran: list[Any], *, keep_going: bool) -> None:
    view = View()
    run(view, "spec", keep_going=keep_going)
    assert view.told == ["begins", ("running", "page of session"), ("ended", "result"), "is over"]
    options = {"session": "session", "stop": "stop", "deployed_ms": 7, "beside": "beside"}
    assert ran == [("spec", (view.batch_ended, view.failing if keep_going else None), options)]


def test_a_view_is_told_why_it_failed(ran: list[Any]) -> None:
    view = View()
    with pytest.raises(PipelineError, match="here: it is broken"):
        run(view, "broken")
    assert view.told == ["begins", ("running", "page of session"), ("failed", "here: it is broken"), "is over"]


@pytest.mark.parametrize("times", [(1, 2), (1, None)])
def test_of_times_it_is_told_what_came_then(ran: list[Any], times: tuple[int, int | None]) -> None:
    view = View()
    run(view, "spec", times)
    assert view.told == ["begins", ("running", "page of session"), ("filled", "rows"), "is over"]
    assert ran == [(("spec", *times), {"session": "session"})]


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [
        (None, None, None),
        ("1970-01-01T00:00:01", None, (1_000, None)),
        ("1970-01-01T00:00:01", "1970-01-01T00:00:02", (1_000, 2_000)),
    ],
)
def test_which_times_are_meant(start: str | None, end: str | None, times: tuple[int, int | None] | None) -> None:
    assert pipeline._times(start, end) == times
    with pytest.raises(click.UsageError, match="--to goes with --from"):
        pipeline._times(None, "1970-01-01T00:00:01")


def test_of_a_good_one_it_is_said_what_it_promises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    problems: list[str] = []

    def problems_in(file: Path, settings: object, values: object, told: Any, server: str | None) -> list[str]:
        told(SimpleNamespace())
        return problems

    monkeypatch.setattr(pipeline, "problems_in", problems_in)
    monkeypatch.setattr(pipeline, "promises_of", lambda _: ["once", "twice"])
    monkeypatch.setattr(pipeline, "missed_at_server", lambda _: ["not there"])
    file = str(tmp_path / "a.yaml")
    for options, more in (((), []), (("--driver", "sc://there:15002"), ["not there"])):
        result = CliRunner().invoke(pipeline.command, ["check", file, *options])
        assert (result.exit_code, result.output.splitlines()) == (0, [f"{file} is good", "once", "twice", *more])
    problems += ["this is wrong", "and that"]
    result = CliRunner().invoke(pipeline.command, ["check", file])
    assert (result.exit_code, result.output.splitlines()) == (1, problems)


@pytest.mark.parametrize(("said", "asks"), [(None, 0), ("sc://there:15002", 1)])
def test_a_server_of_spark_connect_needs_its_packages(
    monkeypatch: pytest.MonkeyPatch, said: str | None, asks: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(pipeline, "check_connect", lambda: asked.append("asked"))
    monkeypatch.setattr("penstock.cli.work.pipeline_at_server.ServerPlace", lambda it: it)
    if said is not None:
        monkeypatch.setenv(AT_SERVER, said)
    place: object = pipeline.place_of_process()
    assert (len(asked), place == said) == (asks, asks == 1)


def test_driver_is_a_command() -> None:
    assert {"run", "check", "submit", "list", "status", "logs", "show", "stop", "resume", "driver"} <= set(
        pipeline.command.commands
    )
