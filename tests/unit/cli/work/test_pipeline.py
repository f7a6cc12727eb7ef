"""What `penstock pipeline run` makes of its arguments, and what a person sees; without Spark."""

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.stand_in import stand_in

from penstock.cli.work import pipeline, pipeline_check, pipeline_place
from penstock.cli.work.pipeline_view import JsonView, PipelineView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.progress import BatchProgress
from penstock.pipeline.running.run import PipelineResult, keep_in_log
from penstock.pipeline.spec.pipeline import PipelineSpec

YAML = """
source: {bootstrap.servers: "a:1", subscribe: flights}
sink: {topic: delays}
"""


Run = tuple[str, str, Mapping[str, str], PipelineSpec]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """What would have been run."""
    runs: list[Run] = []

    def run(
        name: str, master: str, settings: Mapping[str, str], spec: Callable[[], PipelineSpec], *_: object, **__: object
    ) -> None:
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
    assert spec.sources["source"].options["bootstrap.servers"] == "b:2"
    assert spec.sinks[0].options["bootstrap.servers"] == "b:2"
    assert (spec.checkpoint, spec.trigger) == ("/c", "available-now")


def test_an_error_is_one_line_and_an_exit_code(runs: list[Run], tmp_path: Path) -> None:
    result = CliRunner().invoke(pipeline.command, ["run", str(tmp_path / "none.yaml")])
    assert result.exit_code == 1
    assert result.output == f"Error: There is no file {tmp_path / 'none.yaml'}.\n"
    assert runs == []


def test_a_failing_run_prints_its_sentence_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object, **__: object) -> None:
        raise PipelineError("The cluster at a:1 has no topic 'flights'.") from click.Abort()

    monkeypatch.setattr(pipeline, "_run", fails)
    file = tmp_path / "delays.yaml"
    file.write_text(YAML)
    result = CliRunner().invoke(pipeline.command, ["run", str(file)])
    assert result.output == "Error: The cluster at a:1 has no topic 'flights'.\n"


class NoSession:
    """Stands for Spark's session."""

    def stop(self) -> None:
        """It was not started."""


@pytest.fixture
def signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes Ctrl-C for itself: not from the tests."""
    monkeypatch.setattr(pipeline_place, "signal", stand_in(signal, signal=lambda *_: None))


@pytest.mark.usefixtures("signals_stay")
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_python_file_is_run_when_there_is_a_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """As `@udf` at the top of a file needs one."""
    file = tmp_path / "needs_a_session.py"
    begun = tmp_path / "begun"
    file.write_text(
        f"from pathlib import Path\n\nassert Path({str(begun)!r}).exists(), 'no session'\n"
        'SOURCE = {"bootstrap.servers": "a:1", "subscribe": "flights"}\nSINK = {"topic": "delays"}\n'
        'SPARK = {"spark.x": "y"}\nNAME = "early"\nSQL = "SELECT * FROM source"\n'
    )

    def spark_session(name: str, *, config: Mapping[str, str], **_: object) -> NoSession:
        assert (name, config) == ("early", {"spark.x": "y"}), "what can be read without running the file"
        begun.touch()
        return NoSession()

    done: list[str] = []

    def run_pipeline(spec: PipelineSpec, *_: object, **__: object) -> PipelineResult:
        done.append(spec.name)
        return PipelineResult({}, {}, was_stopped=False)

    def problems_of(_: object, spec: PipelineSpec) -> list[str]:
        done.append(spec.name)
        return []

    for module in (pipeline_place, pipeline_check):
        monkeypatch.setattr(module, "spark_session", spark_session)
    monkeypatch.setattr("penstock.pipeline.running.run.run_pipeline", run_pipeline)
    monkeypatch.setattr("penstock.pipeline.running.check.problems_of", problems_of)
    result = CliRunner().invoke(pipeline.command, [command, str(file)])
    assert (result.exit_code, done) == (0, ["early"]), result.output


@pytest.mark.usefixtures("signals_stay")
def test_an_error_at_the_top_of_a_python_file_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline_place, "spark_session", lambda *_, **__: NoSession())
    monkeypatch.setattr(pipeline, "cache_directory", lambda: tmp_path)
    (tmp_path / "logs").mkdir()  # as Spark's start makes it
    file = tmp_path / "fails_at_the_top.py"
    file.write_text('NAME = "late"\n\nNUMBER = int("v0")\n')
    result = CliRunner().invoke(pipeline.command, ["run", str(file)])
    sentence = f"{file}, line 3: ValueError: invalid literal for int() with base 10: 'v0'"
    assert result.exit_code == 1
    assert f"Error: {sentence}\n" in result.output
    assert "Traceback" not in result.output
    assert "Traceback" in (tmp_path / "logs" / "late.log").read_text(), "the whole of it is in the log that is named"


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with PipelineView("delays", Path("spark.log")) as view:
        view.running()
        view.batch_ended(BatchProgress("delays: out", 0, 1000, 500, {"a-0": 5, "a-1": 2}))
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
    view.failed("It fails.")
    assert capsys.readouterr().out == ""
    keep_in_log(caused, log)
    view.failed("It fails.")
    assert capsys.readouterr().out == f"More is in {log}\n"
    assert "ValueError: Spark's words" in log.read_text()


def test_what_is_wrong_with_yaml_is_said_at_once_and_without_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline_check, "spark_session", None)
    file = tmp_path / "bad.yaml"
    file.write_text(
        "source: {subscribe: a, watermark: at, dead_letter: dead}\nsinks: {}\nsink: {mode: overwrite, topic: dead}\n"
    )
    result = CliRunner().invoke(pipeline.command, ["check", str(file)])
    assert result.exit_code == 1
    assert [line.removeprefix(f"{file}, line ") for line in result.output.splitlines()] == [
        "2, column 1: 'sinks' is no part of a pipeline. Did you mean sink?",
        "1, column 24: watermark: at must be a column and a delay, such as: at, 1 hour",
        "1, column 39: dead_letter of source is for values that are not of their json, which is missing.",
        "3, column 8: mode: overwrite must be append or update or complete.",
        "3, column 1: two sinks have the same name (dead, dead): say name: in one, or another dead_letter.",
    ]


def test_a_program_gets_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    with JsonView() as view:
        view.running()
        view.batch_ended(BatchProgress("delays: out", 0, 1000, 500, {"a-0": 5, "a-1": 2}, 30))
        view.ended(PipelineResult({"delays: out": 1}, {"delays: out": 1000}, was_stopped=False))
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["event"] for one in said] == ["starting", "running", "batch", "ended"]
    batch = {key: said[2][key] for key in ("input_rows", "output_rows", "rows_per_second", "lag", "lags")}
    assert batch == {
        "input_rows": 1000,
        "output_rows": 30,
        "rows_per_second": 2000.0,
        "lag": 7,
        "lags": {"a-0": 5, "a-1": 2},
    }


@pytest.mark.parametrize("arguments", [["--to", "2026-01-01"], ["--from", "yesterday"]])
def test_a_time_that_is_none(runs: list[Run], arguments: list[str]) -> None:
    assert CliRunner().invoke(pipeline.command, ["run", "a.yaml", *arguments]).exit_code == 2
    assert runs == []


def test_a_reset_to_a_time_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "delays.yaml"
    file.write_text(YAML)
    result = CliRunner().invoke(pipeline.command, ["reset", str(file), "--to", "yesterday"])
    assert (result.exit_code, "'yesterday' is no moment" in result.output) == (1, True)


def test_sinks_and_a_time_are_chosen_and_yaml_comes_on_the_standard_input(runs: list[Run]) -> None:
    two = "source: {subscribe: a}\nsink: [{topic: one}, {topic: two}]\n"
    result = CliRunner().invoke(pipeline.command, ["run", "-", "--name", "job", "--sink", "two"], input=two)
    assert (result.exit_code, result.output) == (0, "")
    assert (runs[0][0], [sink.name for sink in runs[0][3].running]) == ("job", ["two"])
    result = CliRunner().invoke(pipeline.command, ["run", "-", "--sink", "three"], input=two)
    assert result.output == "Error: Pipeline pipeline has no sink three; its sinks are one, two.\n"
