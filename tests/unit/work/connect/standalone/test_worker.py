"""A connector has been created when it runs, and not while nothing is known of it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.work.connect.providers import Providers
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
