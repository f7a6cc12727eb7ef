"""What `penstock pipeline run` makes of its arguments, and what a person sees; without Spark."""

from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli import pipeline
from penstock.cli.pipeline_view import PipelineView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.run import PipelineResult, keep_in_log
from penstock.pipeline.spec import PipelineSpec

YAML = """
source: {bootstrap.servers: "a:1", subscribe: flights}
sink: {topic: delays}
"""


Run = tuple[str, str, Mapping[str, str], PipelineSpec]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """What would have been run."""
    runs: list[Run] = []

    def run(name: str, master: str, settings: Mapping[str, str], spec: Callable[[], PipelineSpec]) -> None:
        runs.append((name, master, settings, spec()))

    monkeypatch.setattr(pipeline, "_run", run)
    return runs


def test_options_go_before_the_file(runs: list[Run], tmp_path: Path) -> None:
    file = tmp_path / "delays.yaml"
    file.write_text(YAML)
    options = ["--master", "local[1]", "--bootstrap-server", "b:2", "--checkpoint", "/c", "--available-now"]
    result = CliRunner().invoke(pipeline.command, ["run", str(file), *options, "--conf", "spark.x=a=b"])
    assert (result.exit_code, result.output) == (0, "")
    ((name, master, settings, spec),) = runs
    assert (name, master, settings) == ("delays", "local[1]", {"spark.x": "a=b"})
    assert spec.source.options["bootstrap.servers"] == "b:2"
    assert spec.sinks[0].options["bootstrap.servers"] == "b:2"
    assert (spec.checkpoint, spec.trigger) == ("/c", "available-now")


def test_an_error_is_one_line_and_an_exit_code(runs: list[Run], tmp_path: Path) -> None:
    result = CliRunner().invoke(pipeline.command, ["run", str(tmp_path / "none.yaml")])
    assert result.exit_code == 1
    assert result.output == f"Error: There is no file {tmp_path / 'none.yaml'}.\n"
    assert runs == []


def test_a_failing_run_prints_its_sentence_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise PipelineError("The cluster at a:1 has no topic 'flights'.") from click.Abort()

    monkeypatch.setattr(pipeline, "_run", fails)
    file = tmp_path / "delays.yaml"
    file.write_text(YAML)
    result = CliRunner().invoke(pipeline.command, ["run", str(file)])
    assert result.output == "Error: The cluster at a:1 has no topic 'flights'.\n"


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with PipelineView("delays", Path("spark.log")) as view:
        view.running()
        view.batch_ended(BatchProgress("delays: out", 0, 1000, 500, 7))
        view.batch_ended(BatchProgress("delays: out", 1, 500, 500, None))
        view.ended(PipelineResult({"delays: out": 2}, {"delays: out": 1500}, was_stopped=True))
    assert capsys.readouterr().out.splitlines() == [
        "delays: starting Spark …",
        "delays: running; Ctrl-C stops it, the next run goes on from here",
        "sink delays: out rows 1,000 rows/s 2,000 lag 7 batch 0 batch time 0.5 s",
        "sink delays: out rows 1,500 rows/s 1,000 lag ? batch 1 batch time 0.5 s",
        "delays: out: stopped after 1,500 rows in 2 batches",
    ]


def test_a_log_is_named_only_where_there_is_something_in_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.touch()
    alone, caused = PipelineError("It fails."), PipelineError("It fails.")
    caused.__cause__ = ValueError("Spark's words")
    view = PipelineView("delays", log)
    keep_in_log(alone, log)
    view.failed()
    assert capsys.readouterr().out == ""
    keep_in_log(caused, log)
    view.failed()
    assert capsys.readouterr().out == f"More is in {log}\n"
    assert "ValueError: Spark's words" in log.read_text()
