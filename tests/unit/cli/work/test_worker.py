"""What `penstock worker` runs, and what Spark's own runner is asked for by `penstock pipeline`."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import main
from penstock.cli.terminal.lines import say
from penstock.cli.work import pipeline_declared, worker
from penstock.cli.work.pipeline_declared import check_declared, refuse, run_declared
from penstock.pipeline.errors import PipelineError
from penstock.work.connect.config import ConfigError
from penstock.work.connect.distributed.topic_log import TopicError
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.standalone.logs import FileLogError
from penstock.work.connect.standalone.worker import NotStartedError


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(worker, "begin_logging", lambda level: None)

    def noted(name: str) -> Any:
        async def run(*given: Any) -> None:
            found.append((name, *given[:-1]))
            assert given[-1] is say
            if given[0].get("fails"):
                raise FAILURES[given[0]["fails"]]

        return run

    for name in ("run_distributed", "run_standalone"):
        monkeypatch.setattr(f"penstock.work.connect.rest.running.{name}", noted(name))
    monkeypatch.setattr(worker, "create_all", noted("create_all"))
    return found


FAILURES: dict[str, Exception] = {
    "config": ConfigError({"key": ["why"]}),
    "plugin": PluginError("why"),
    "log": FileLogError("why"),
    "start": NotStartedError("why"),
    "topic": TopicError("why"),
}


def run(path: Path, *words: str) -> Result:
    (path / "worker").write_text("a=1\nb=2\n")
    (path / "job.properties").write_text("name=j\nconnector.class=c\n")
    return CliRunner().invoke(main, ["worker", *(word.replace("PATH", str(path)) for word in words)])


JOB = {"name": "j", "connector.class": "c"}


@pytest.mark.parametrize(
    ("words", "done"),
    [
        ("PATH/worker", ("run_distributed", {"a": "1", "b": "2"})),
        ("PATH/worker --set b=3 --set c=4", ("run_distributed", {"a": "1", "b": "3", "c": "4"})),
        ("PATH/worker --create-topics", ("create_all", {"a": "1", "b": "2"})),
        ("PATH/worker --standalone", ("run_standalone", {"a": "1", "b": "2"}, [])),
        ("PATH/worker --standalone PATH/job.properties", ("run_standalone", {"a": "1", "b": "2"}, [JOB])),
    ],
)
def test_what_a_worker_runs(words: str, done: tuple[Any, ...], ran: list[Any], tmp_path: Path) -> None:
    result = run(tmp_path, *words.split())
    assert (result.exit_code, result.output) == (0, "")
    assert ran == [done]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("PATH/worker --standalone --create-topics", "--create-topics is about workers that share connectors"),
        ("PATH/worker PATH/job.properties", "JOBs are for --standalone: use `penstock connect`"),
        ("PATH/worker --create-topics PATH/job.properties", "JOBs are for --standalone: use `penstock connect`"),
    ],
)
def test_what_does_not_go_together(words: str, why: str, ran: list[Any], tmp_path: Path) -> None:
    result = run(tmp_path, *words.split())
    assert (result.exit_code, why in " ".join(result.output.split()), ran) == (2, True, [])


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("how", [(), ("--standalone",), ("--create-topics",)])
def test_what_is_the_users_to_mend_is_one_line(kind: str, how: tuple[str, ...], ran: list[Any], tmp_path: Path) -> None:
    result = run(tmp_path, "PATH/worker", "--set", f"fails={kind}", *how)
    assert (result.exit_code, result.output) == (1, "Error: why\n")


# -- pipelines that Spark itself runs ----------------------------------------------------------------------------------


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """With what it is asked to run; it fails where a setting says so."""
    found: list[Any] = []

    def run_declarative(file: Path, **named: Any) -> None:
        found.append((file, named))
        if "fails" in named["settings"]:
            raise PipelineError("it fails.")

    monkeypatch.setattr("penstock.pipeline.running.spark_pipelines.run_declarative", run_declarative)
    monkeypatch.setattr(pipeline_declared, "cache_directory", lambda: tmp_path)
    (tmp_path / "spark-pipeline.yml").write_text("name: p\nstorage: /s\n")
    return found


def test_one_of_sparks_own_is_run(spark: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, settings = tmp_path / "spark-pipeline.yml", {"spark.a": "b"}
    run_declared(file, "local[2]", settings, as_json=False)
    named = {"dry": False, "master": "local[2]", "settings": settings}
    assert spark == [(file, {**named, "log_file": tmp_path / "logs" / "p.log"})]
    assert capsys.readouterr().out == "p: done\n"
    run_declared(file, "local[2]", settings, as_json=True)
    assert spark[1:] == [(file, named)]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"event": "starting"},
        {"event": "running", "ui": None},
        {"event": "ended", "places": {"p": "/s"}},
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_one_of_sparks_own_that_fails(
    as_json: bool, spark: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PipelineError, match=r"it fails\."):
        run_declared(tmp_path / "spark-pipeline.yml", "local", {"fails": ""}, as_json=as_json)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[2:] == ([{"event": "failed", "error": "it fails."}] if as_json else [])


def test_one_of_sparks_own_is_checked(spark: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "spark-pipeline.yml"
    check_declared(file, {"spark.a": "b"})
    log = tmp_path / "logs" / "check.log"
    assert spark == [(file, {"dry": True, "master": "local[1]", "settings": {"spark.a": "b"}, "log_file": log})]
    file.write_text("name: p\n")
    with pytest.raises(PipelineError, match="a declarative pipeline of Spark has a storage"):
        check_declared(file, {})
    assert len(spark) == 1


def test_options_that_its_own_file_says() -> None:
    refuse(sink=(), from_=None, keep_going=False)
    with pytest.raises(click.UsageError, match="--keep-going is not for a pipeline that Spark runs"):
        refuse(sink=(), keep_going=True)
