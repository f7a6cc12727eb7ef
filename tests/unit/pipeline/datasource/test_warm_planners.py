"""Planners of streams that are forked when Spark would start them; their work is played."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.pipeline import ask_planners, warm_workers
from penstock.pipeline.session import worker_launcher

LIMIT_S = 60
SERVER = """
import contextlib, importlib, os, sys, types
from penstock.pipeline.datasource import warm_planners

@contextlib.contextmanager
def connected(timeout):
    yield timeout

def main(*_):
    print("a planner", os.environ["WHO"], os.environ.get("PENSTOCK_PLANNERS"), os.getppid() == server, flush=True)
    print("and its errors", file=sys.stderr, flush=True)
    sys.exit(3)

server = os.getpid()
warm_planners.BEFORE_THE_FORK = ()
warm_planners.get_sock_file_to_executor = connected
sys.modules["played"] = types.SimpleNamespace(main=main)
warm_planners.RUNNER = "played"
warm_planners.serve(sys.argv[1])
"""


def asked(place: Path, who: str) -> "subprocess.CompletedProcess[str]":
    """What the process says that Spark starts, and those that it leaves behind."""
    command = [sys.executable, "-I", "-S", ask_planners.__file__]
    environment = {**os.environ, ask_planners.PLACE: str(place), "WHO": who}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_each_that_asks_gets_a_planner_with_its_environment_and_its_output(tmp_path: Path) -> None:
    place = tmp_path / "planners"
    with subprocess.Popen([sys.executable, "-c", SERVER, str(place)]) as server:
        try:
            deadline_s = time.monotonic() + LIMIT_S
            while not place.exists() and time.monotonic() < deadline_s:
                assert server.poll() is None
            for who in ("one", "two"):
                done = asked(place, who)
                assert (done.returncode, done.stdout) == (0, f"a planner {who} None True\n")
                assert "and its errors\n" in done.stderr
        finally:
            server.kill()


def test_where_nobody_answers_it_becomes_the_planner_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path.joinpath(*ask_planners.RUNNER.split(".")[:-1])
    package.mkdir(parents=True)
    for folder in (package, *package.parents[:2]):
        (folder / "__init__.py").touch()
    (package / "python_streaming_source_runner.py").write_text("print('Spark has its own')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = asked(tmp_path / "nobody", "one")
    assert (done.returncode, done.stdout) == (0, "Spark has its own\n"), done.stderr


def test_spark_starts_what_asks_where_there_are_planners(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(worker_launcher("/bin/echo"))

    def started(*words: str, **variables: str) -> str:
        command = ["/bin/sh", str(tmp_path / "python"), *words]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout

    asks = f"-I -S {ask_planners.__file__}\n"
    assert started("-m", ask_planners.RUNNER, PENSTOCK_PLANNERS="/there") == asks
    assert started("-m", ask_planners.RUNNER) == f"-m {ask_planners.RUNNER}\n"
    assert started("-m", "pyspark.daemon", PENSTOCK_PLANNERS="/there") == "-m penstock.pipeline.warm_workers\n"


def test_workers_of_tasks_have_the_writer_and_those_that_plan_first_batches_the_reader_where_there_are_planners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["daemon", warm_workers.PLANS])
    assert warm_workers.for_its_kind() == (), "a driver with few queries forks them as Spark does"
    monkeypatch.setenv(ask_planners.PLACE, "/there")
    assert warm_workers.for_its_kind() == (warm_workers.PLANS, warm_workers.READER)
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    assert warm_workers.for_its_kind() == (warm_workers.WRITER,)
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.sql.worker.create_data_source"])
    assert warm_workers.for_its_kind() == (), "each kind of plan has a daemon of its own, of 36 MB instead of 89"
