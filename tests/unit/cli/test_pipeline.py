"""What `penstock pipeline run` makes of its arguments, and what a person sees; without Spark."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli import pipeline
from penstock.cli.pipeline_view import PipelineView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.run import PipelineResult
from penstock.pipeline.spec import PipelineSpec, pipeline_spec

YAML = """
source: {bootstrap.servers: "a:1", subscribe: flights}
sink: {topic: delays}
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PipelineSpec, str]]:
    """What would have been run."""
    runs: list[tuple[PipelineSpec, str]] = []
    monkeypatch.setattr(pipeline, "_run", lambda spec, master: runs.append((spec, master)))
    return runs


def test_options_go_before_the_file(runs: list[tuple[PipelineSpec, str]], tmp_path: Path) -> None:
    file = tmp_path / "delays.yaml"
    file.write_text(YAML)
    options = ["--master", "local[1]", "--bootstrap-server", "b:2", "--checkpoint", "/c", "--available-now"]
    result = CliRunner().invoke(pipeline.command, ["run", str(file), *options, "--conf", "spark.x=a=b"])
    assert (result.exit_code, result.output) == (0, "")
    ((spec, master),) = runs
    assert master == "local[1]"
    assert spec.source.options["bootstrap.servers"] == "b:2"
    assert spec.sinks[0].options["bootstrap.servers"] == "b:2"
    assert (spec.checkpoint, spec.trigger, spec.spark) == ("/c", "available-now", {"spark.x": "a=b"})


def test_an_error_is_one_line_and_an_exit_code(runs: list[tuple[PipelineSpec, str]], tmp_path: Path) -> None:
    result = CliRunner().invoke(pipeline.command, ["run", str(tmp_path / "none.yaml")])
    assert result.exit_code == 1
    assert result.output == f"Error: There is no file {tmp_path / 'none.yaml'}.\n"
    assert runs == []


def test_a_failing_run_prints_its_sentence_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(spec: PipelineSpec, master: str) -> None:
        raise PipelineError("The cluster at a:1 has no topic 'flights'.") from click.Abort()

    monkeypatch.setattr(pipeline, "_run", fails)
    file = tmp_path / "delays.yaml"
    file.write_text(YAML)
    result = CliRunner().invoke(pipeline.command, ["run", str(file)])
    assert result.output == "Error: The cluster at a:1 has no topic 'flights'.\n"


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    spec = pipeline_spec("delays", {"source": {}, "sink": {"topic": "out"}})
    with PipelineView(spec, Path("spark.log")) as view:
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
