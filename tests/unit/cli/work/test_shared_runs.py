"""What the driver that pipelines share hears from its worker and tells it; without Spark, which is played."""

import json
import threading
from io import StringIO
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests.unit.cli.work.test_pipeline_runs import PlayedQuery, PlayedSpark

from penstock.cli.work import pipeline_runs
from penstock.cli.work.pipeline_runs import SharedPlace, Told, _end_all, _messages, _run
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.run import BesideOthers

BESIDE = BesideOthers("/f", threading.Semaphore(1))
CLOSED = b""


class Channel:
    """Says its pieces in turn; None where nothing comes for a while."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = iter(pieces)
        self.timeout_s: float | None = None
        self.sizes: list[int] = []

    def settimeout(self, seconds: float) -> None:
        self.timeout_s = seconds

    def recv(self, size: int) -> bytes:
        self.sizes.append(size)
        piece = next(self._pieces)
        if piece is None:
            raise TimeoutError
        return piece


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why the process would have ended."""
    found: list[str] = []
    monkeypatch.setattr(pipeline_runs, "end_process", found.append)
    return found


def place(spark: PlayedSpark | None = None, given: str = "") -> SharedPlace:
    return SharedPlace(spark or PlayedSpark(), given, BESIDE)  # type: ignore[arg-type]


def said(out: StringIO) -> list[Any]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_lines_may_come_in_pieces_and_several_at_once() -> None:
    spark: Any = PlayedSpark()
    channel: Any = Channel(b'{"a"', None, b': 1}\n{"b": 2}\n{"c', b'": 3}\n', b'{"half": ', CLOSED)
    assert list(_messages(spark, channel)) == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert (channel.timeout_s, set(channel.sizes)) == (pipeline_runs.LOOK_EVERY_S, {1 << 16})


def test_nothing_is_heard_any_more_when_java_has_ended() -> None:
    spark: Any = PlayedSpark()
    channel: Any = Channel(b'{"a": 1}\n', b'{"b": 2}\n')
    messages = _messages(spark, channel)
    assert next(messages) == {"a": 1}
    spark.is_stopped = True
    assert list(messages) == []


def test_runs_are_begun_stopped_and_interrupted_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    told: list[Any] = []

    class Place(SharedPlace):
        def end(self, *, at_once: bool) -> None:
            told.append((self.given(), at_once))

    class Thread:
        def __init__(self, *, target: Any, args: list[Any], daemon: bool) -> None:
            runs, number, run_in, _ = args
            begun.append((target, number, runs[number].given(), run_in.keywords, daemon))

        def start(self) -> None:
            begun.append("started")

    messages = [
        {"begin": 1, "given": "one", "arguments": ["a"]},
        {"begin": 2, "given": "two", "arguments": []},
        {"stop": 1},
        {"interrupt": 2},
        {"stop": 3},
        {"interrupt": 3},
        {},
    ]
    monkeypatch.setattr(pipeline_runs, "SharedPlace", Place)
    monkeypatch.setattr(pipeline_runs, "threading", SimpleNamespace(**vars(threading) | {"Thread": Thread}))
    channel: Any = Channel("".join(json.dumps(one) + "\n" for one in messages).encode(), CLOSED)
    spark: Any = PlayedSpark()
    pipeline_runs.serve(spark, channel, lambda place, arguments: None, StringIO())
    assert begun == [
        (_run, 1, "one", {"arguments": ["a"]}, True),
        "started",
        (_run, 2, "two", {"arguments": []}, True),
        "started",
    ]
    assert told == [("one", False), ("two", True)]


@pytest.mark.parametrize("is_stopped", [True, False])
def test_the_process_ends_with_java(is_stopped: bool, ended: list[str]) -> None:
    spark: Any = PlayedSpark()
    spark.is_stopped = is_stopped
    channel: Any = Channel(CLOSED)
    pipeline_runs.serve(spark, channel, lambda place, arguments: None, StringIO())
    assert ended == ([pipeline_runs.DRIVER_HAS_ENDED] if is_stopped else [])


# -- the end of a run --------------------------------------------------------------------------------------------------


def run_of(error: BaseException | None, spark: PlayedSpark | None = None) -> tuple[list[Any], dict[int, SharedPlace]]:
    out = StringIO()
    told, runs = Told(out), {7: place(spark), 8: place()}

    def run_in(_: object) -> None:
        told.write("half a line")
        if error is not None:
            raise error

    _run(runs, 7, run_in, told)
    return said(out), runs


def test_a_run_that_is_over_has_said_all() -> None:
    told, runs = run_of(None)
    assert told == [{"run": 7, "line": "half a line"}, {"run": 7, "over": 0}]
    assert runs.keys() == {8}


@pytest.mark.parametrize(
    ("error", "why", "has_traceback"),
    [
        (click.ClickException("its file"), "its file", False),
        (ValueError("its code"), "its code", True),
        (SystemExit(3), "SystemExit(3)", True),
    ],
)
def test_why_a_run_has_failed(
    error: BaseException, why: str, has_traceback: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (printed, failed, over), runs = run_of(error)
    assert (printed, over) == ({"run": 7, "line": "half a line"}, {"run": 7, "over": 1})
    assert runs.keys() == {8}
    assert (failed["run"], json.loads(failed["line"])) == (7, {"event": "failed", "error": why})
    assert ("Traceback" in capsys.readouterr().err) == has_traceback


def test_of_a_driver_that_has_ended_no_run_says_why(ended: list[str]) -> None:
    spark = PlayedSpark()
    spark.is_stopped = True
    told, _ = run_of(click.ClickException("refused"), spark)
    assert told == [{"run": 7, "line": "half a line"}, {"run": 7, "over": 1}]
    assert ended == [pipeline_runs.DRIVER_HAS_ENDED]


# -- a place -----------------------------------------------------------------------------------------------------------


class Settings:
    """Of a session, or of the driver."""

    def __init__(self, **known: str) -> None:
        self.known = {key.replace("_", "."): value for key, value in known.items()}

    def isModifiable(self, key: str) -> bool:  # noqa: N802 - Spark's name
        return "fixed" not in key

    def set(self, key: str, value: str) -> None:
        self.known[key] = value

    def get(self, key: str) -> str | None:
        return self.known.get(key)


@pytest.mark.parametrize(
    ("key", "value", "outcome"),
    [
        ("spark.sql.a", "1", "set"),
        ("spark.sql.fixed", "1", "refused"),
        ("spark.sql.fixed.known", "1", "known"),
        ("spark.a", "1", "refused"),
        ("spark.known", "1", "known"),
        ("spark.known", "2", "refused"),
    ],
)
def test_a_setting_is_the_sessions_or_the_drivers_already(key: str, value: str, outcome: str) -> None:
    spark: Any = PlayedSpark()
    spark.conf = Settings()
    known = Settings(spark_known="1", spark_sql_fixed_known="1")
    spark.sparkContext.getConf = lambda: known
    one = place(spark)
    if outcome == "refused":
        with pytest.raises(
            PipelineError, match=f"^{key} is a setting of the driver that this worker's pipelines share"
        ):
            one._set(spark, key, value)
    else:
        one._set(spark, key, value)
    assert spark.conf.known == ({key: value} if outcome == "set" else {})


def test_a_run_has_a_session_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[object] = []
    monkeypatch.setattr(pipeline_runs, "forget", forgotten.append)
    spark, settings = PlayedSpark(), Settings()
    own: Any = PlayedSpark()
    spark.newSession = lambda: own  # type: ignore[method-assign]
    own.conf = settings
    one = place(spark)
    with one.session("p", "local", {"spark.sql.a": "1"}, None) as session:
        is_its_own = session is own
        assert is_its_own
        assert settings.known == {"spark.sql.a": "1"}
        own.active.append(PlayedQuery(own.active, 0))
        assert (forgotten, one._own is own) == ([], True)
    assert (own.active, forgotten, one._own) == ([], [own], None)


@pytest.mark.parametrize(("at_once", "has_session"), [(True, True), (True, False), (False, True), (False, False)])
def test_only_who_is_interrupted_has_its_queries_stopped(
    at_once: bool, has_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Thread:
        def __init__(self, *, target: Any, args: list[Any], daemon: bool) -> None:
            assert daemon
            self.start = lambda: target(*args)

    one, own = place(), PlayedSpark()
    monkeypatch.setattr(pipeline_runs, "threading", SimpleNamespace(**vars(threading) | {"Thread": Thread}))
    own.active.append(PlayedQuery(own.active, 0))
    one._own = own if has_session else None  # type: ignore[assignment]
    assert not one.stop().is_set()
    one.end(at_once=at_once)
    assert one.stop().is_set()
    assert bool(own.active) == (not (at_once and has_session))


def test_what_does_not_end_is_stopped_again_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    now_s, pauses = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now_s[0] += 8.0

    monkeypatch.setattr(pipeline_runs, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep))
    spark: Any = PlayedSpark()
    spark.active.append(PlayedQuery(spark.active, 2))
    _end_all(spark, [])
    assert (pauses, ended) == ([0.1] * 3, [])
    pauses.clear()
    spark.tasks = [1, 1, 1, 1]
    _end_all(spark, ["its run"])
    assert (len(pauses), len(ended)) == (4, 1), "at the fourth look 24 seconds are over"


# -- what is said ------------------------------------------------------------------------------------------------------


def test_lines_of_a_thread_are_told_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_runs, "MOST_OF_A_LINE", 4)
    out = StringIO()
    told = Told(out)
    assert (told.write("a\nb"), told.write("c\n"), told.isatty()) == (3, 2, False)
    told.run.number = 5
    told.write("12345678")
    told.write("9")
    told.flush()
    told.flush()
    told.failed("why\n")
    assert said(out) == [
        {"line": "a"},
        {"line": "bc"},
        {"run": 5, "line": "12345678"},
        {"run": 5, "line": "9"},
        {"run": 5, "line": '{"event": "failed", "error": "why\\n"}'},
    ]
