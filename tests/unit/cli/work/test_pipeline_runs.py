"""What a shared driver does with its runs; without Spark, which is played."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.work import pipeline_runs
from penstock.cli.work.pipeline_place import Place
from penstock.pipeline.running.run import BesideOthers
from penstock.testing.quorum_view import wait_until

LIMIT_S = 30


class PlayedQuery:
    def __init__(self, active: list["PlayedQuery"], refuses: int) -> None:
        self._active, self._refuses = active, refuses

    def stop(self) -> None:
        """As Spark's own, which tells so when the query goes on for longer than it has waited for its end."""
        self._refuses -= 1
        if self._refuses >= 0:
            raise TimeoutError
        self._active.remove(self)


class PlayedSpark:
    def __init__(self) -> None:
        self.active: list[PlayedQuery] = []
        self.streams = SimpleNamespace(active=self.active)
        self.is_stopped = False
        self.tasks: list[int] = []
        java = SimpleNamespace(isStopped=lambda: self.is_stopped)
        known = SimpleNamespace(
            getJobIdsForGroup=lambda run: [1] if run == "its run" else [],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[job]),
            getStageInfo=lambda stage: SimpleNamespace(numActiveTasks=self.tasks.pop() if self.tasks else 0),
        )
        self.sparkContext = SimpleNamespace(
            _gateway=SimpleNamespace(proc=SimpleNamespace(poll=lambda: None)),
            _jsc=SimpleNamespace(sc=lambda: java),
            statusTracker=lambda: known,
        )
        self.conf = SimpleNamespace(isModifiable=lambda key: True, set=lambda key, value: None)

    def newSession(self) -> "PlayedSpark":  # noqa: N802 - Spark's name
        return self


class Driver:
    def __init__(self, spark: PlayedSpark, run: Callable[[Place], None]) -> None:
        self.out = StringIO()
        self.ours, theirs = socket.socketpair()
        serves: Any = pipeline_runs.serve
        args = [spark, theirs, lambda place, arguments: run(place), self.out]
        self.serving = threading.Thread(target=serves, args=args, daemon=True)
        self.serving.start()

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def over(self) -> list[dict[str, Any]]:
        self.ours.sendall(json.dumps({"begin": 1, "arguments": [], "given": ""}).encode() + b"\n")
        wait_until(lambda: any("over" in one for one in self.said()) or None, LIMIT_S, "the end of the run")
        return self.said()


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[PlayedSpark, Callable[[Place], None]], Driver]]:
    drivers: list[Driver] = []
    monkeypatch.setattr(pipeline_runs, "LOOK_EVERY_S", 0.01)

    def begin(spark: PlayedSpark, run: Callable[[Place], None]) -> Driver:
        drivers.append(Driver(spark, run))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.ours.close()
        driver.serving.join(LIMIT_S)


def test_a_run_is_over_when_none_of_its_queries_goes_on(begin: Any) -> None:
    """Whatever has ended it: another worker may begin them then."""
    spark, left = PlayedSpark(), list[int]()

    def run(place: Place) -> None:
        with place.session("p", "local", {}, None):
            spark.active.extend(PlayedQuery(spark.active, refuses) for refuses in (2, 0, 1))
            raise ValueError("its code")

    driver = begin(spark, run)
    write = driver.out.write

    def count_and_write(text: str) -> int:
        left.append(len(spark.active))
        return int(write(text))

    driver.out.write = count_and_write
    assert driver.over()[-1] == {"run": 1, "over": 1}
    assert left[-1] == 0


def test_a_run_is_over_when_no_task_of_it_goes_on(begin: Any) -> None:
    """Spark does not wait for those that it interrupts, and they still write."""
    spark = PlayedSpark()

    def run(place: Place) -> None:
        with place.session("p", "local", {}, None):
            assert place.beside is not None
            place.beside.begun.append("its run")
            spark.tasks = [1, 2, 2]

    assert begin(spark, run).over() == [{"run": 1, "over": 0}]
    assert not spark.tasks


def test_one_that_cannot_be_ended_takes_the_driver_along(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_runs, "GONE_WITHIN_S", 0.0)
    monkeypatch.setattr(pipeline_runs, "end_process", sys.exit)
    spark = PlayedSpark()

    def run(place: Place) -> None:
        with place.session("p", "local", {}, None):
            spark.active.append(PlayedQuery(spark.active, 1000))

    *_, failed, _ = begin(spark, run).over()
    assert "goes on though it was stopped" in failed["line"]


def test_a_driver_whose_spark_was_stopped_ends(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all runs that begin there would fail, again and again."""
    why = list[str]()
    monkeypatch.setattr(pipeline_runs, "end_process", why.append)
    spark = PlayedSpark()
    driver = begin(spark, lambda place: setattr(spark, "is_stopped", True))
    driver.over()
    driver.serving.join(LIMIT_S)
    assert not driver.serving.is_alive()
    assert why == [pipeline_runs.DRIVER_HAS_ENDED]


def test_runs_that_fail_as_java_has_ended_leave_the_reason_to_the_driver(
    begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each of them meets then is a connection that is refused."""
    why = list[str]()
    monkeypatch.setattr(pipeline_runs, "end_process", why.append)
    spark = PlayedSpark()

    def run(place: Place) -> None:
        spark.is_stopped = True
        raise ConnectionRefusedError

    driver = begin(spark, run)
    assert driver.over() == [{"run": 1, "over": 1}], "it says nothing of its own"
    driver.serving.join(LIMIT_S)
    assert why == [pipeline_runs.DRIVER_HAS_ENDED] * 2, "whichever sees it first"


def test_a_run_that_wants_to_end_the_process_ends_alone(begin: Any) -> None:
    driver = begin(PlayedSpark(), lambda place: sys.exit("enough"))
    *_, failed, over = driver.over()
    assert json.loads(failed["line"]) == {"event": "failed", "error": "SystemExit('enough')"}
    assert over == {"run": 1, "over": 1}
    assert driver.serving.is_alive()


def test_what_other_threads_print_is_no_runs_own_and_says_nothing_of_runs(
    begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_runs, "MOST_OF_A_LINE", 32)
    lie = '{"run": 2, "over": 0}'

    def run(place: Place) -> None:
        other = threading.Thread(target=print, args=[lie])
        other.start()
        other.join()
        print("x" * 80, end="")

    said = begin(PlayedSpark(), run).over()
    assert {"line": lie} in said
    assert [one["line"] for one in said if one.get("run") == 1 and "line" in one] == ["x" * 64, "x" * 16]


WRITES = """
import json, os, subprocess, sys
from penstock.cli.work.pipeline_driver import own_output
out = own_output()
print("printed", flush=True)
subprocess.run(["echo", "by another process"], check=True)
out.write("told\\n")
out.flush()
"""


def test_nothing_but_what_it_tells_is_on_its_output() -> None:
    said = subprocess.run([sys.executable, "-c", WRITES], capture_output=True, text=True, check=True, env=os.environ)
    assert said.stdout == "told\n"
    assert {"printed", "by another process"} <= set(said.stderr.splitlines())


def test_who_is_to_stop_waits_for_no_turn() -> None:
    stop, beside = threading.Event(), BesideOthers("/f", threading.Semaphore(0))
    stop.set()
    ended = threading.Event()

    def wait() -> None:
        with beside.turn(stop):
            ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert ended.wait(10)
    assert not beside.turns.acquire(blocking=False), "it gives back no turn that it has not had"
