"""The process that watches queries at a server of Spark Connect, which is played."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from tests.stand_in import stand_in

from penstock.cli.work import pipeline_at_server
from penstock.cli.work.pipeline import place_of_process
from penstock.cli.work.pipeline_at_server import ServerPlace
from penstock.cli.work.pipeline_place import Place
from penstock.pipeline.errors import OUT_OF_REACH, PipelineError
from penstock.pipeline.jobs.keys import AT_SERVER

cloudpickle: Any = import_module("pyspark.cloudpickle")  # it has no types

OPENED = "PENSTOCK_TEST_OPENED"
SAID = json.dumps({"server": "sc://a:1/;token=secret", "session": "its-session", "patience_s": 30, "modules": []})


class Server:
    def __init__(self, *, is_gone: bool = False) -> None:
        self.asked: list[str] = []
        self.client, self._is_gone = self, is_gone
        self.conf = SimpleNamespace(isModifiable=lambda _: not self._fail(), set=lambda *pair: None)

    def open_session(self, server: str, session: str) -> Any:
        self.asked += [server, session]
        return self

    def release_session(self) -> None:
        self._fail()
        self.asked.append("closed")

    def stop(self) -> None:
        self.asked.append("left")

    def _fail(self) -> bool:
        if self._is_gone:
            raise PySparkException(OUT_OF_REACH)
        return False


def run(place: Place, **settings: str) -> None:
    with place.session("job", "local[*]", settings, Path("unused")):
        pass


def test_where_a_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AT_SERVER, raising=False)
    assert type(place_of_process()) is Place
    monkeypatch.setenv(AT_SERVER, SAID)
    assert isinstance(place_of_process(), ServerPlace)
    assert AT_SERVER not in os.environ, "what it starts learns no token"


def test_it_closes_its_session_and_tells_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    monkeypatch.setattr(pipeline_at_server, "open_session", server.open_session)
    run(ServerPlace(SAID), **{"spark.sql.ansi.enabled": "true"})
    assert server.asked == ["sc://a:1/;token=secret", "its-session", "closed", "left"]
    assert json.loads(capsys.readouterr().out) == {"event": "closed", "session": "its-session"}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a job, and what Python has written beside them."""
    texts = {
        "penstock_helper.py": "from penstock_rules import FACTOR\n",
        "penstock_rules/__init__.py": "from penstock_rules.deep import by\nFACTOR = 3\n",
        "penstock_rules/deep.py": "def by(factor, number):\n    return factor * number\n",
        "penstock_rules/__pycache__/__init__.cpython-311.pyc": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("penstock_rules", "penstock_helper"))]:
        if name in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
        del sys.modules[name]


def place_with(modules: Path) -> ServerPlace:
    return ServerPlace(json.dumps({**json.loads(SAID), "modules": [str(modules)]}))


def test_functions_are_sent_with_what_they_use_of_the_jobs_modules(
    monkeypatch: pytest.MonkeyPatch, modules: Path
) -> None:
    """A process that knows none of them runs one."""
    monkeypatch.setattr(pipeline_at_server, "open_session", Server().open_session)
    with place_with(modules).session("job", "local[*]", {}, None):
        rules, helper = import_module("penstock_rules"), import_module("penstock_helper")
        sent = cloudpickle.dumps(lambda number: (rules.by(helper.FACTOR, number), rules.deep.__name__))
    elsewhere = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(14))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run([sys.executable, "-c", elsewhere], input=sent, capture_output=True, env=environment)
    assert answer.stdout.decode().strip() == "(42, 'penstock_rules.deep')", answer.stderr


def test_a_module_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch, modules: Path) -> None:
    (modules / "penstock_helper.py").write_text("import penstock_nowhere\n")
    monkeypatch.setattr(pipeline_at_server, "open_session", Server().open_session)
    with pytest.raises(PipelineError, match=r"^The module penstock_helper of .*No module named 'penstock_nowhere'"):
        run(place_with(modules))


def test_a_function_that_looks_for_a_module_of_the_job_at_the_server_is_told_how_else(
    monkeypatch: pytest.MonkeyPatch, modules: Path
) -> None:
    monkeypatch.setattr(pipeline_at_server, "open_session", Server().open_session)
    place = place_with(modules)
    with place.session("job", "local[*]", {}, None):
        for missing in ("penstock_rules", "penstock_rules.deep", "penstock_helper"):
            error = PipelineError(f"line 12: ModuleNotFoundError: No module named '{missing}'")
            assert place.explained(error).startswith("A function that runs at the server looks for penstock_")
            error.__cause__ = ModuleNotFoundError(missing)  # as the pipeline's file was read here
            assert place.explained(error) == str(error)
        for other in ("penstock_rules2", "penstock", "numpy"):
            error = PipelineError(f"line 12: ModuleNotFoundError: No module named '{other}'")
            assert place.explained(error) == str(error)


def test_modules_are_imported_where_the_session_is(monkeypatch: pytest.MonkeyPatch, modules: Path) -> None:
    """They may have columns and functions of Spark, which are those of the server."""
    server = Server()
    (modules / "penstock_helper.py").write_text(f"import os\nassert os.environ['{OPENED}']\n")
    monkeypatch.setenv(OPENED, "")

    def open_session(*asked: str) -> Any:
        monkeypatch.setenv(OPENED, "1")
        return server

    monkeypatch.setattr(pipeline_at_server, "open_session", open_session)
    run(place_with(modules))


def test_a_package_of_packages_goes_along_and_what_no_statement_imports_does_not(
    monkeypatch: pytest.MonkeyPatch, modules: Path
) -> None:
    for name in ("penstock_rules_of/inner/deep.py", "no-name.py", "__init__.py", "__main__.py", "data/rows.csv"):
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text("" if name.startswith("penstock") else "raise SystemExit")
    monkeypatch.setattr(pipeline_at_server, "open_session", Server().open_session)
    run(place_with(modules))
    taken = [name for name in cloudpickle.list_registry_pickle_by_value() if name.startswith("penstock_")]
    assert sorted(taken) == ["penstock_helper", "penstock_rules", "penstock_rules_of"]


def test_packages_without_a_file_are_no_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such a job has no folder of modules: it runs as it does in a process of its own."""
    server = Server()
    monkeypatch.setattr(pipeline_at_server, "open_session", server.open_session)
    run(ServerPlace(json.dumps({**json.loads(SAID), "modules": [str(tmp_path / "modules")]})))
    assert server.asked[2:] == ["closed", "left"]


def test_a_server_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pipeline_at_server, "open_session", Server(is_gone=True).open_session)
    with pytest.raises(PipelineError, match=r"^sc://a:1: the server of Spark Connect does not answer"):
        run(ServerPlace(SAID), **{"spark.sql.ansi.enabled": "true"})
    told = capsys.readouterr().out
    assert '{"event": "out of reach"}' in told
    assert "closed" not in told.replace("is not closed", "")


def test_what_does_not_end_in_time_is_ended_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    server, timers, ended = Server(), list[tuple[float, Any]](), list[int]()

    def timer(after_s: float, what: Any) -> Any:
        timers.append((after_s, what))
        return SimpleNamespace(start=lambda: None)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(pipeline_at_server, "open_session", server.open_session)
    monkeypatch.setattr(pipeline_at_server, "threading", stand_in(threading, Timer=timer))
    monkeypatch.setattr(pipeline_at_server, "os", stand_in(os, _exit=ended.append))
    place = ServerPlace(SAID)
    try:
        with place.session("job", "local[*]", {}, None):
            stop = place.stop()
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
            assert stop.is_set()
            ((after_s, end),) = timers
            assert after_s == 24
            end()
            assert "closed" in server.asked
            assert ended == [1]
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
