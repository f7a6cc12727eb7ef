"""Classes of plugins are loaded in a thread: that may take seconds, in which the event loop does other things."""

import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.work.connect.providers import Providers
from penstock.work.connect.rest.errors import ElsewhereError
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.offsets import ConnectorOffsets
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
