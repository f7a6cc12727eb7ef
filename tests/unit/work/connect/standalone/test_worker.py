"""A connector has been created when it runs, and not while nothing is known of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.records import TaskId
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.standalone.worker import NotStartedError, StandaloneWorker

CONFIG = {"name": "lines", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}


async def created(*states: RunState | None) -> int:
    """What is known of it, look by look; how many of these were looked at."""
    left: list[Any] = [state and SimpleNamespace(state=state.value, trace="why") for state in states]

    async def nothing(*_: object) -> None: ...

    worker = SimpleNamespace(
        settings={"connector.client.config.override.policy": "All"},
        providers=Providers({}),
        leading=SimpleNamespace(put_connector=nothing),
        statuses=SimpleNamespace(connector=lambda name: left.pop(0)),
        _news=SimpleNamespace(clear=lambda: None, wait=nothing),
    )
    await StandaloneWorker.create(cast("StandaloneWorker", worker), CONFIG)
    return len(states) - len(left)


async def test_it_is_waited_for() -> None:
    states = (None, RunState.UNASSIGNED, None, RunState.RUNNING, RunState.FAILED)
    assert await created(*states) == 4
    assert await created(RunState.PAUSED) == 1


async def test_one_that_fails_says_why() -> None:
    with pytest.raises(NotStartedError, match="lines does not start: why"):
        await created(None, RunState.FAILED)


async def test_a_worker_is_ready_while_its_first_connectors_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cluster is asked: the connector waits for a file that is not there."""

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(StandaloneWorker, "_look_at_cluster", nothing)
    converter = "org.apache.kafka.connect.storage.StringConverter"
    worker = StandaloneWorker(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "key.converter": converter,
            "value.converter": converter,
            "offset.storage.file.filename": str(tmp_path / "offsets"),
        }
    )
    told: list[tuple[str, str]] = []
    assert not worker.is_ready
    await worker.start()
    assert not worker.is_ready
    await worker.begin(
        [CONFIG | {"file": str(tmp_path / "lines")}], lambda name, status: told.append((name, status.state))
    )
    assert worker.is_ready
    states = [state for name, state in told if name == "connector lines"]
    assert states == ["UNASSIGNED", "RUNNING"]
    assert (worker.leader_url, worker.owner_url(TaskId("lines", 0))) == (worker.url, worker.url)
    assert worker.may_lead()
    await worker.stop()
    assert not worker.is_ready
    assert not any(worker._alone.in_hand)
    worker._post_status(b"status-task-lines-0", None)
    assert {name for name, _ in told} == {"connector lines", "task lines-0"}
