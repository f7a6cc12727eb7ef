"""What `penstock pipeline run` and `try` say, and what `try` and `check` hand to Spark, which is played."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in

from penstock.cli.main import main
from penstock.cli.work import pipeline_check, pipeline_try
from penstock.cli.work.connect_client import ConnectClient
from penstock.cli.work.pipeline_check import problems_in
from penstock.cli.work.pipeline_try import Since, _pace, _progress, _show, _since
from penstock.cli.work.pipeline_view import JsonView, PipelineView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.progress import BatchProgress, StateProgress
from penstock.pipeline.running.run import PipelineResult
from penstock.pipeline.running.trial import SinkTrial, Trial
from penstock.pipeline.spec.files import load_yaml
from penstock.pipeline.spec.pipeline import PipelineSpec

FIRST = BatchProgress("p: a", 0, 1_234, 500, {"t-0": 5}, broken={"r": 1_000, "never": 0})
SECOND = BatchProgress("p: a", 1, 2, 1_250, None, broken={"r": 2})
OTHER = BatchProgress("p: b", 7, 0, 0, {})
ENDED = PipelineResult({"p: a": 2, "p: b": 1}, {"p: a": 1_236, "p: b": 0}, was_stopped=False)


def test_a_view_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PipelineView("p", tmp_path / "log") as view:
        view.running("http://ui")
        for batch in (FIRST, OTHER, SECOND):
            view.batch_ended(batch)
        view.failing("p: a", "why")
        view.failed("why")
        view.ended(ENDED)
        view.ended(ENDED.replace(was_stopped=True))
        view.filled({"p: a": "/there"})
    assert capsys.readouterr().out.splitlines() == [
        "p: starting Spark …",
        "p: running; Ctrl-C stops it, the next run goes on from here",
        "p: Spark's own page is http://ui",
        "sink p: a rows 1,234 rows/s 2,468 lag 5 batch 0 batch time 0.5 s",
        "sink p: b rows 0 rows/s 0 lag 0 batch 7 batch time 0.0 s",
        "sink p: a rows 1,236 rows/s 2 lag ? batch 1 batch time 1.2 s",
        "p: a failed, and is begun again: why",
        "p: a: done after 1,236 rows in 2 batches",
        "p: b: done after 0 rows in 1 batches",
        "p: a: 1,002 rows broke the rule r",
        "p: a: stopped after 1,236 rows in 2 batches",
        "p: b: stopped after 0 rows in 1 batches",
        "p: a: 1,002 rows broke the rule r",
        "p: a: written to /there",
    ]


def test_a_view_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live: list[str] = []
    view = PipelineView("p", tmp_path / "log")
    view._console._force_terminal = True
    played: Any = SimpleNamespace(start=lambda: live.append("start"), stop=lambda: live.append("stop"))
    view._live = played

    def drawn() -> list[str]:
        with view._console.capture() as captured:
            view._console.print(view._render(), style="none")
        return [line.rstrip() for line in click.unstyle(captured.get()).splitlines()]

    with view:
        assert live == ["start"]
        assert drawn() == ["p: starting Spark …"]
        view.running()
        assert drawn() == ["p: running; Ctrl-C stops it, the next run goes on from here"]
        for batch in (FIRST, OTHER, SECOND):
            view.batch_ended(batch)
        assert capsys.readouterr().out == "", "what changes is drawn"
        assert drawn()[1:] == [
            "sink   rows  rows/s  lag  batch  batch time",
            "p: a  1,236       2    ?      1       1.2 s",
            "p: b      0       0    0      7       0.0 s",
        ]
        view.ended(ENDED)
        assert live == ["start", "stop"]
    assert live == ["start", "stop", "stop"]
    assert click.unstyle(capsys.readouterr().out).splitlines()[0] == "p: a: done after 1,236 rows in 2 batches"


def test_what_programs_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    full = BatchProgress(
        query="p: a",
        batch_id=3,
        input_rows=10,
        duration_ms=3,
        lags={"t-0": 1, "t-1": 2},
        output_rows=4,
        broken={"r": 1},
        read={"t": 5},
        read_bytes={"source": 6},
        phases_ms={"walCommit": 7},
        watermark_ms=8,
        state=StateProgress(1, 2, 3, 4),
        began_ms=9,
    )
    with JsonView() as view:
        view.running("http://ui")
        view.batch_ended(full)
        view.batch_ended(OTHER)
        view.failing("p: a", "why")
        view.failed("all")
        view.ended(ENDED)
        view.filled({"p: a": "/there"})
    starting, running, batch, other, *rest = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (starting, running) == ({"event": "starting"}, {"event": "running", "ui": "http://ui"})
    assert batch == {
        "event": "batch",
        "query": "p: a",
        "batch_id": 3,
        "input_rows": 10,
        "output_rows": 4,
        "duration_ms": 3,
        "rows_per_second": 3333.3,
        "lag": 3,
        "lags": {"t-0": 1, "t-1": 2},
        "broken": {"r": 1},
        "read": {"t": 5},
        "read_bytes": {"source": 6},
        "phases_ms": {"walCommit": 7},
        "watermark_ms": 8,
        "began_ms": 9,
        "state": {"rows": 1, "memory_bytes": 2, "disk_bytes": 3, "late_rows": 4},
    }
    assert {key: value for key, value in other.items() if not value} == {
        **dict.fromkeys(("output_rows", "watermark_ms", "began_ms", "state")),
        **{name: {} for name in ("lags", "broken", "read", "read_bytes", "phases_ms")},
        "input_rows": 0,
        "duration_ms": 0,
        "rows_per_second": 0.0,
        "lag": 0,
    }
    assert rest == [
        {"event": "failing", "query": "p: a", "error": "why"},
        {"event": "failed", "error": "all"},
        {"event": "ended", "batches": ENDED.batches, "input_rows": ENDED.input_rows, "was_stopped": False},
        {"event": "ended", "places": {"p: a": "/there"}},
    ]


# -- try ---------------------------------------------------------------------------------------------------------------

NOW_S = 1_000_000.0
SAME = SinkTrial("a", 1, 1, old_s=0.1, new_s=0.2)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", Since({"startingOffsets": "earliest"})),
        ('{"t":{"0":1}}', Since({"startingOffsets": '{"t":{"0":1}}'})),
        ("90s", Since({"startingTimestamp": "999910000"}, 999_910_000)),
        ("2h", Since({"startingTimestamp": "992800000"}, 992_800_000)),
        ("1970-01-02T00:00:00", Since({"startingTimestamp": "86400000"}, 86_400_000)),
    ],
)
def test_from_where_records_are_tried(text: str, found: Since, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_try, "time", stand_in(time, time=lambda: NOW_S))
    assert _since(text) == found


@pytest.mark.parametrize("text", ["latest", "h2", "90", "1970", ""])
def test_what_says_no_beginning(text: str) -> None:
    with pytest.raises(click.BadParameter, match="says no beginning"):
        _since(text)


@pytest.mark.parametrize(
    ("ms", "pace"),
    [(None, ""), (999_990_000, ", 3.0 a second"), (999_999_500, ", 30.0 a second"), (0, ", 0.0 a second")],
)
def test_how_fast_records_came(ms: int | None, pace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_try, "time", stand_in(time, time=lambda: NOW_S))
    assert _pace(30, Since({}, ms)) == pace


def test_where_nothing_differs_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Trial({}, (), ()), Since({}))
    assert capsys.readouterr() == ("\n\nnothing differs\n", "there are no sinks\n")
    _show(Trial({"s": 2}, (SAME,), ()), Since({}))
    assert capsys.readouterr().out.splitlines() == [
        "source s: 2 records",
        "",
        "sink  rows before  rows now  gone  come  s before  s now",
        "a               1         1     0     0       0.1    0.2",
        "",
        "nothing differs",
    ]


def test_each_sink_of_both_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    class Bar:
        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None: ...

        def update(self, steps: int, what: str) -> None:
            found.append((steps, what))

    def progressbar(**named: Any) -> Bar:
        found.append(named)
        return Bar()

    monkeypatch.setattr(pipeline_try, "click", stand_in(click, progressbar=progressbar))
    two = load_yaml("source: {subscribe: a}\nsink: [{topic: one}, {topic: two}]\n", "p")
    with _progress(two, two.only(("one",))) as told:
        told("one", "before")
    assert found[0] == {"length": 3, "label": "sinks", "file": sys.stderr, "item_show_func": str}
    assert found[1:] == [(1, "one, before")]


class Played:
    """A session of Spark, and what was asked of it."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.tried: list[tuple[PipelineSpec, PipelineSpec, Mapping[str, str], int]] = []
        self.stopped = 0
        self.found: Trial | PipelineError = Trial({"source": 3}, (SAME,), ())

    def session(self, name: str, **named: Any) -> "Played":
        self.begun.append((name, named))
        return self

    def stop(self) -> None:
        self.stopped += 1

    def trial(
        self,
        old: PipelineSpec,
        new: PipelineSpec,
        starting: Mapping[str, str],
        *,
        session: object,
        samples: int,
        told: Any,
    ) -> Trial:
        assert session is self
        self.tried.append((old, new, starting, samples))
        for one in (*old.running, *new.running):
            told(one.name, "now")
        if isinstance(self.found, PipelineError):
            raise self.found
        return self.found


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Played]:
    found = Played()
    for module in (pipeline_try, pipeline_check):
        monkeypatch.setattr(module, "spark_session", found.session)
        monkeypatch.setattr(module, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr("penstock.pipeline.running.trial.try_pipeline", found.trial)
    (tmp_path / "logs").mkdir()
    yield found
    assert found.stopped == len(found.begun)


OLD = 'source: {subscribe: a, bootstrap.servers: "h:1"}\nsink: [{topic: one}, {topic: gone}]\n'
NEW = "name: new\nsource: {subscribe: a}\nsink: [{topic: one}, {topic: '${more}'}]\nspark: {spark.a: b}\n"


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "old.yaml").write_text(OLD.replace("gone", "'${more}'"))
    (tmp_path / "new.yaml").write_text(NEW)

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, ["pipeline", "try", str(tmp_path / "new.yaml"), *words])

    return run


def names(spec: PipelineSpec) -> list[str]:
    return [sink.name for sink in spec.running]


def test_two_versions_are_tried(spark: Played, tried: Callable[..., Result], tmp_path: Path) -> None:
    done = tried("--against", str(tmp_path / "old.yaml"), "--set", "more=m", "--since", "earliest", "--json")
    assert done.exit_code == 0, done.output
    ((name, named),) = spark.begun
    log = tmp_path / "logs" / "new-try.log"
    assert (name, named) == ("new", {"master": "local[*]", "config": {"spark.a": "b"}, "log_file": log})
    ((old, new, starting, samples),) = spark.tried
    assert (names(old), names(new), starting, samples) == (
        ["one", "m"],
        ["one", "m"],
        {"startingOffsets": "earliest"},
        10,
    )
    assert json.loads(done.stdout) == {
        "same": True,
        "records": {"source": 3},
        "sinks": [
            {
                "sink": "a",
                "rows": {"old": 1, "new": 1},
                "gone": 0,
                "come": 0,
                "samples": [],
                "columns": [],
                "seconds": {"old": 0.1, "new": 0.2},
            }
        ],
        "untried": [],
    }


def test_what_differs_ends_with_another_code(spark: Played, tried: Callable[..., Result], tmp_path: Path) -> None:
    spark.found = Trial({}, (SinkTrial("a", 1, 2, come=1, samples=("+",), columns=("c",)),), ("u",))
    words = ("--against", str(tmp_path / "old.yaml"), "--set", "more=m", "--sink", "one", "--rows", "0")
    done = tried(*words, "--bootstrap-server", "n:9", "--master", "local[2]", "--conf", "spark.a=c", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["sinks"][0]["samples"] == ["+"]
    assert (json.loads(done.stdout)["same"], json.loads(done.stdout)["untried"]) == (False, ["u"])
    assert (spark.begun[0][1]["master"], spark.begun[0][1]["config"]) == ("local[2]", {"spark.a": "c"})
    ((old, new, _, samples),) = spark.tried
    assert (names(old), names(new), samples) == (["one"], ["one"], 0)
    for spec in (old, new):
        assert spec.sources["source"].options["bootstrap.servers"] == "n:9"
    assert "the two differ" in tried(*words).output


def test_why_it_cannot_be_tried_is_kept_in_the_log(spark: Played, tried: Callable[..., Result], tmp_path: Path) -> None:
    spark.found = PipelineError("it fails.")
    spark.found.__cause__ = ValueError("Spark's words")
    done = tried("--against", str(tmp_path / "old.yaml"), "--set", "more=m")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "Error: it fails.")
    assert "Spark's words" in (tmp_path / "logs" / "new-try.log").read_text()
    assert tried("--against", str(tmp_path / "old.yaml"), "--set", "more=m", "--sink", "no").exit_code == 1


@pytest.mark.parametrize("words", [[], ["--against", "new.yaml", "--job", "j"]])
def test_one_version_before_is_named(
    words: list[str], spark: Played, tried: Callable[..., Result], tmp_path: Path
) -> None:
    done = tried(*(str(tmp_path / word) if word.endswith("yaml") else word for word in words))
    why = "say what FILE is compared with: --against FILE, or --job NAME for what workers run"
    assert (done.exit_code, " ".join(done.output.partition("Error: ")[2].split())) == (2, why)


def test_a_job_is_what_it_is_compared_with(
    spark: Played, tried: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"connector.class": "penstock.pipeline", "pipeline": OLD}
    monkeypatch.setattr(ConnectClient, "ask", lambda *_, **__: config)
    assert tried("--job", "j", "--set", "more=m").exit_code == 0
    ((old, new, _, _),) = spark.tried
    assert (old.name, names(old), names(new)) == ("j", ["one", "gone"], ["one", "m"])
    assert old.sources["source"].options["bootstrap.servers"] == "h:1"


# -- check -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "is_deployed", "expected"),
    [
        (["bad"], False, ["bad"]),
        (["bad"], True, ["bad"]),
        ([], False, []),
        ([], True, ["stored /deployed"]),
    ],
)
def test_what_is_stored_is_looked_at_where_the_plan_is_good(
    found: list[str],
    is_deployed: bool,
    expected: list[str],
    spark: Played,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "new.yaml").write_text(NEW)
    told: list[str] = []
    monkeypatch.setattr("penstock.pipeline.running.check.problems_of", lambda session, spec: found)
    monkeypatch.setattr(
        "penstock.pipeline.running.check.stored_problems", lambda session, spec: [f"stored {spec.checkpoint}"]
    )
    deployed = (lambda spec: spec.replace(checkpoint="/deployed")) if is_deployed else None
    given = {"spark.a": "c", "spark.d": "e"}
    problems = problems_in(
        tmp_path / "new.yaml", given, {"more": "m"}, deployed, lambda spec: told.append(spec.sinks[1].name)
    )
    assert (problems, told) == (expected, ["m"])
    log = tmp_path / "logs" / "check.log"
    assert spark.begun == [("new", {"master": "local[1]", "config": given, "log_file": log})]
