"""What `penstock pipeline try`, `repartition` and `reset` do with the parts that Spark would run, and what they say."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in

from penstock.cli.main import main
from penstock.cli.work import pipeline_stored, pipeline_try
from penstock.cli.work.pipeline_try import _show, _since
from penstock.pipeline.running import trial as trials
from penstock.pipeline.running.trial import SinkTrial, Trial
from penstock.pipeline.spec.pipeline import PipelineSpec

YAML = """source: {subscribe: clicks, bootstrap.servers: "near:1"}
sql: SELECT * FROM source
sink:
  - topic: "${TO}"
    name: a
  - topic: second
    name: b
"""
SAME = Trial({"source": 5}, (SinkTrial("a", 1, 1),), ())
OTHER = Trial({"source": 5}, (SinkTrial("a", 2, 1, gone=1, samples=("- {}",), old_s=1.0, new_s=2.0),), ("x",))


# -- try --------------------------------------------------------------------------------------------------------------


class Tried:
    def __init__(self) -> None:
        self.found = SAME
        self.asked: list[Any] = []
        self.stopped = 0

    def session(self, name: str, **settings: Any) -> SimpleNamespace:
        self.asked.append((name, settings["master"], settings["config"]))
        return SimpleNamespace(stop=self._stop)

    def _stop(self) -> None:
        self.stopped += 1

    def __call__(self, old: PipelineSpec, new: PipelineSpec, starting: Any, **more: Any) -> Trial:
        for spec in (old, new):
            names = [sink.name for sink in spec.running]
            self.asked.append((names, spec.sources["source"].options["bootstrap.servers"]))
        self.asked.append((starting, more["samples"]))
        more["told"]("a", "before")
        return self.found


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    found = Tried()
    monkeypatch.setattr(pipeline_try, "spark_session", found.session)
    monkeypatch.setattr(trials, "try_pipeline", found)
    return found


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name in ("new", "old"):
        (tmp_path / f"{name}.yaml").write_text(YAML)
    return [str(tmp_path / "new.yaml"), "--against", str(tmp_path / "old.yaml"), "--set", "TO=first"]


def attempt(*words: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "try", *words])


def test_both_are_tried_over_the_same_records(tried: Tried, files: list[str]) -> None:
    result = attempt(*files, "--since", "earliest")
    assert tried.asked == [
        ("new", "local[*]", {}),
        (["a", "b"], "near:1"),
        (["a", "b"], "near:1"),
        ({"startingOffsets": "earliest"}, 10),
    ]
    assert (result.exit_code, tried.stopped) == (0, 1)
    assert result.stdout.splitlines()[-1] == "nothing differs"


def test_some_sinks_at_another_cluster(tried: Tried, files: list[str]) -> None:
    more = ("--sink", "b", "--rows", "0", "--bootstrap-server", "far:9", "--conf", "spark.a=1", "--master", "local[2]")
    attempt(*files, "--since", "earliest", *more)
    assert tried.asked == [
        ("new", "local[2]", {"spark.a": "1"}),
        (["b"], "far:9"),
        (["b"], "far:9"),
        ({"startingOffsets": "earliest"}, 0),
    ]


def test_what_differs_ends_with_1(tried: Tried, files: list[str]) -> None:
    tried.found = OTHER
    assert attempt(*files, "--since", "earliest").exit_code == 1
    result = attempt(*files, "--since", "earliest", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "same": False,
        "records": {"source": 5},
        "sinks": [
            {
                "sink": "a",
                "rows": {"old": 2, "new": 1},
                "gone": 1,
                "come": 0,
                "samples": ["- {}"],
                "columns": [],
                "seconds": {"old": 1.0, "new": 2.0},
            }
        ],
        "untried": ["x"],
    }


@pytest.mark.parametrize("words", [(), ("--against", __file__, "--job", "j")])
def test_it_is_compared_with_one_version(words: tuple[str, ...], files: list[str], tried: Tried) -> None:
    result = attempt(files[0], *words)
    assert result.exit_code == 2
    assert "say what FILE is compared with: --against FILE, or --job NAME for what workers run" in result.stderr
    assert tried.asked == []


@pytest.mark.parametrize(("ago_ms", "pace"), [(10_000, "0.5"), (2_000, "2.5"), (1_000, "5.0"), (0, "5.0")])
def test_how_fast_records_came(
    ago_ms: int, pace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline_try, "time", stand_in(time, time=lambda: 50.0))
    _show(SAME, pipeline_try.Since({}, 50_000 - ago_ms))
    assert capsys.readouterr().out.splitlines()[0] == f"source source: 5 records, {pace} a second"


def test_how_long_ago_is_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_try, "time", stand_in(time, time=lambda: 200_000.0))
    for text, ms in {"90s": 199_910_000, "2h": 192_800_000, "1d": 113_600_000}.items():
        assert (_since(text).ms, _since(text).starting) == (ms, {"startingTimestamp": str(ms)})


# -- what is stored ---------------------------------------------------------------------------------------------------


class Query:
    def __init__(self, name: str, partitions: int | None) -> None:
        self.sink = SimpleNamespace(name=name)
        self.has_state = partitions is not None
        self.partitions = partitions
        self.done: list[Any] = []

    def repartition(self, partitions: int) -> None:
        self.done.append(partitions)


def test_state_is_spread_where_there_is_some_and_it_is_not_so_already(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queries = [Query("a", 3), Query("b", 5), Query("c", None)]
    given: list[Any] = []

    @contextmanager
    def stored(*words: Any) -> Iterator[tuple[None, list[Query]]]:
        given.extend(words)
        yield None, queries

    monkeypatch.setattr(pipeline_stored, "_stored", stored)
    file = tmp_path / "p.yaml"
    file.touch()
    words = ["repartition", str(file), "5", "--checkpoint", "place", "--sink", "a", "--sink", "b", "--set", "x=y"]
    result = CliRunner().invoke(main, ["pipeline", *words])
    assert given == [file, "place", ("a", "b"), {"x": "y"}]
    assert result.output.splitlines() == [
        "sink a: its state has 5 partitions",
        "sink b: has 5 partitions already",
        "sink c: has no state",
    ]
    assert [query.done for query in queries] == [[5], [], []]
    wrong = CliRunner().invoke(main, ["pipeline", "repartition", str(file), "0"])
    assert (wrong.exit_code, given[4:]) == (2, [])
