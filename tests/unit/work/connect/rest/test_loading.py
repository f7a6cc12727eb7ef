"""Classes of plugins are loaded in a thread: that may take seconds, in which the event loop does other things."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.work.connect.providers import Providers
from penstock.work.connect.rest import loading
from penstock.work.connect.rest.errors import ElsewhereError, RestError
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.offsets import ConnectorOffsets
from penstock.work.connect.rest.routes import ROUTES, RestRequest, Served
from penstock.work.connect.rest.secrets import with_secrets
from penstock.work.connect.runtime.records import COMMIT, CONNECTOR, TASK, encode, properties
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.standalone.worker import DEFAULT_ID, StandaloneWorker

CLASS = "loaded_late:Late"
CONFIG = {"name": "late", "connector.class": CLASS, "token": "sesame"}
CODE = """
import threading

from penstock.work.connect.api import SourceConnector
from penstock.work.connect.config import ConfigKey

class Late(SourceConnector):
    config_keys = (ConfigKey("token", "password"),)
    loaded_by = threading.current_thread()
"""


GATE = threading.Event()
"""What stands before the end of a class that hangs while it is loaded."""
HANGS = f"""
from {__name__} import GATE
from penstock.work.connect.built_in.file_source import FileStreamSourceConnector as Stuck

GATE.wait(30)
"""


@pytest.fixture
async def herder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Herder:
    """Of a worker that does not lead, knows a connector with a task, and has not loaded its class."""
    (tmp_path / "loaded_late.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "loaded_late", raising=False)
    worker = StandaloneWorker(
        {
            "bootstrap.servers": "x:1",
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "listeners": "http://127.0.0.1:0",
            "offset.storage.file.filename": str(tmp_path / "offsets"),
        }
    )
    for key, value in (
        (f"{CONNECTOR}late", properties(CONFIG)),
        (f"{TASK}late-0", properties(CONFIG)),
        (f"{COMMIT}late", encode({"tasks": 1})),
    ):
        worker.state.apply(key, value)
    worker.statuses.tell_connector("late", RunState.RUNNING)
    return Herder(worker)


async def create(herder: Herder) -> None:
    with pytest.raises(ElsewhereError):
        await herder.create("new", {**CONFIG, "name": "new"}, None)


async def put(herder: Herder) -> None:
    with pytest.raises(ElsewhereError):
        await herder.put_config("late", {**CONFIG, "token": "[hidden]"})


async def offsets(herder: Herder) -> Any:
    await herder.worker.offsets.log.start()
    return await ConnectorOffsets(herder).get("late")


SHOWN = {**CONFIG, "token": "[hidden]"}
INFO = {"name": "late", "config": SHOWN, "tasks": [{"connector": "late", "task": 0}], "type": "source"}
STATUS = {"name": "late", "connector": {"state": "RUNNING", "worker_id": DEFAULT_ID}, "tasks": [], "type": "source"}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda herder: herder.info("late"), INFO),
        (lambda herder: herder.config("late"), SHOWN),
        (lambda herder: herder.tasks("late"), [{"id": {"connector": "late", "task": 0}, "config": SHOWN}]),
        (lambda herder: herder.tasks_config("late"), {"late-0": SHOWN}),
        (lambda herder: herder.status("late"), STATUS),
        (lambda herder: herder.connectors(["info", "status"]), {"late": {"info": INFO, "status": STATUS}}),
        (create, None),
        (put, None),
        (offsets, {"offsets": []}),
    ],
)
async def test_a_request_leaves_the_loading_to_a_thread(
    herder: Herder, ask: Callable[[Herder], Awaitable[Any]], answer: object
) -> None:
    assert await ask(herder) == answer
    assert sys.modules["loaded_late"].Late.loaded_by is not threading.main_thread()


async def test_who_asks_for_keys_leaves_the_loading_to_a_thread_that_holds_up_no_end(herder: Herder) -> None:
    route = next(one for one in ROUTES if one.path == "/connector-plugins/{plugin}/config")
    asked = RestRequest({"plugin": CLASS}, {}, None)
    answer = await route.answer(Served(herder, ConnectorOffsets(herder)), asked)
    assert "token" in [row["name"] for row in answer.body]
    assert sys.modules["loaded_late"].Late.loaded_by.daemon


class Vault:
    """A config provider that notes who asks."""

    asked_by: ClassVar[list[threading.Thread]] = []

    def configure(self, params: Mapping[str, str]) -> None: ...

    def get(self, path: str, key: str) -> str:
        self.asked_by.append(threading.current_thread())
        return "sesame"


async def fence(herder: Herder) -> None:
    await herder.worker._fencing_admin("late")


@pytest.mark.parametrize("ask", [offsets, fence])
async def test_values_that_stand_elsewhere_are_looked_up_in_a_thread(
    herder: Herder, ask: Callable[[Herder], Awaitable[Any]]
) -> None:
    herder.worker.providers = Providers({"config.providers": "v", "config.providers.v.class": f"{__name__}:Vault"})
    herder.worker.state.apply(f"{CONNECTOR}late", properties({**CONFIG, "token": "${v:token}"}))
    Vault.asked_by.clear()
    await ask(herder)
    assert Vault.asked_by
    assert threading.main_thread() not in Vault.asked_by


def threads() -> int:
    return sum(thread.name == "plugins" for thread in threading.enumerate())


async def test_a_class_that_hangs_has_one_thread_and_holds_up_no_other_connector(
    herder: Herder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    monkeypatch.delitem(sys.modules, "hangs", raising=False)
    monkeypatch.setattr(loading, "LOOK_S", 0.1)
    stuck = {"name": "stuck", "connector.class": "hangs:Stuck", "file": "f", "topic": "t"}
    hidden = {**stuck, "file": "[hidden]", "topic": "[hidden]"}
    herder.worker.state.apply(f"{CONNECTOR}stuck", properties(stuck))
    herder.worker.statuses.tell_connector("stuck", RunState.RUNNING)
    GATE.clear()
    try:
        await herder.loading.needed(CONFIG)
        for _ in range(3):
            shown = await herder.connectors(["info", "status"])
            assert [shown[name]["status"]["type"] for name in ("late", "stuck")] == ["source", "unknown"]
            assert (shown["late"]["info"]["config"], shown["stuck"]["info"]["config"]) == (SHOWN, hidden)
            assert await herder.config("stuck") == hidden
        monkeypatch.setattr(loading, "LIMIT_S", 0.1)
        for ask in (herder.validate(stuck), herder.put_config("stuck", hidden), herder.kind(stuck)):
            with pytest.raises(RestError, match="has not answered"):
                await ask
        async with asyncio.timeout(10):
            while threads() > 1:  # others are ending
                await asyncio.sleep(0)
    finally:
        GATE.set()
    monkeypatch.setattr(loading, "LIMIT_S", 30)
    with pytest.raises(ElsewhereError):
        await herder.put_config("stuck", hidden)
    assert (await herder.status("stuck"))["type"] == "source"
    assert await herder.config("stuck") == stuck


async def test_questions_about_plugins_of_which_one_hangs_have_one_thread(
    herder: Herder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def hang(kind: str, *_: object) -> list[Any]:
        asked.append(kind)
        GATE.wait(30)
        return []

    monkeypatch.setattr("penstock.work.connect.rest.herder.LIMIT_S", 0.05)
    monkeypatch.setattr("penstock.work.connect.rest.catalog._offered", hang)
    monkeypatch.setattr("penstock.work.connect.rest.catalog.find_class", hang)
    GATE.clear()
    try:
        for _ in range(3):
            for ask in (herder.plugins(connectors_only=True), herder.definitions("some:Class", "latest")):
                with pytest.raises(RestError, match="has not answered"):
                    await ask
        assert sorted(asked) == ["connector", "some:Class"]
    finally:
        GATE.set()
    monkeypatch.setattr("penstock.work.connect.rest.herder.LIMIT_S", 30)
    assert await herder.plugins(connectors_only=True)


def test_what_was_hidden_as_its_class_was_not_there_stays_as_it_is() -> None:
    stuck = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    assert with_secrets({**stuck, "file": "[hidden]", "topic": "u"}, stuck) == {**stuck, "topic": "u"}
