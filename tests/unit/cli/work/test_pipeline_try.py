"""`penstock pipeline try` and `show`: what they are compared with, from where on, and what is said. No Spark."""

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.work.connect_client import ConnectClient
from penstock.cli.work.pipeline_try import _of_job, _show, _since
from penstock.pipeline.running.trial import SinkTrial, Trial

YAML = """source: {subscribe: clicks, bootstrap.servers: "near:1"}
sql: SELECT * FROM source
sink: {topic: '${TO}'}
"""
JOB = {
    "connector.class": "penstock.pipeline",
    "pipeline": YAML,
    "set.TO": "seen",
    "bootstrap.servers": "kafka:9092",
}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The configuration of its only job."""
    config: dict[str, Any] = dict(JOB)
    monkeypatch.setattr(ConnectClient, "ask", lambda *_, **__: config)
    return config


def test_the_version_before_is_what_the_job_runs(worker: dict[str, Any]) -> None:
    spec = _of_job(ConnectClient("http://127.0.0.1:1"), "clicks")()
    assert [sink.name for sink in spec.sinks] == ["seen"]
    assert spec.sources["source"].options["bootstrap.servers"] == "kafka:9092"
    worker["connector.class"] = "FileStreamSource"
    with pytest.raises(click.ClickException, match="clicks is no pipeline"):
        _of_job(ConnectClient("http://127.0.0.1:1"), "clicks")


def test_what_a_job_runs_is_printed_to_be_kept(worker: dict[str, Any]) -> None:
    assert CliRunner().invoke(main, ["pipeline", "show", "clicks"]).output == YAML
    del worker["pipeline"]
    worker["pipeline.file"] = "/jobs/clicks.py"
    told = CliRunner().invoke(main, ["pipeline", "show", "clicks"])
    assert (told.exit_code, told.output) == (1, "Error: pipeline clicks is a file of the workers': /jobs/clicks.py\n")


def test_a_beginning_is_a_time_or_how_long_ago() -> None:
    assert _since("earliest").starting == {"startingOffsets": "earliest"}
    offsets = json.dumps({"clicks": {"0": 7}})
    assert _since(offsets).starting == {"startingOffsets": offsets}
    assert _since("1970-01-01T00:00:02").ms == 2000
    day, hour = _since("1d").ms, _since("23h").ms
    assert day is not None
    assert hour is not None
    assert 3_590_000 < hour - day < 3_610_000
    for wrong in ("soon", "3 fortnights", ""):
        with pytest.raises(click.BadParameter, match="says no beginning: write how long ago"):
            _since(wrong)


def test_what_differs_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    changed = SinkTrial(
        "totals", 3, 2, gone=1, samples=("- {}",), columns=("column a is new: int",), old_s=1.26, new_s=2
    )
    trial = Trial(
        {"source": 5}, (changed, SinkTrial("more", new_rows=4, new_s=0.1), SinkTrial("less", old_rows=4)), ("x",)
    )
    assert not trial.is_same
    _show(trial, _since("earliest"))
    assert capsys.readouterr().out.splitlines() == [
        "source source: 5 records",
        "",
        "sink    rows before  rows now  gone  come  s before  s now",
        "totals            3         2     1     0       1.3      2",
        "more              -         4     0     0         -    0.1",
        "less              4         -     0     0         -      -",
        "",
        "sink totals:",
        "  column a is new: int",
        "  - {}",
        "",
        "sink more:",
        "  it is new",
        "",
        "sink less:",
        "  it is gone",
        "",
        "not tried, as a batch shows nothing of it:",
        "  x",
        "",
        "the two differ",
    ]
