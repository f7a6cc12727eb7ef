"""What happens with a node of `penstock start` from its beginning to its end, in turn; the node is played."""

import asyncio
import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests.stand_in import stand_in

from penstock.cli import start
from penstock.metadata.configs.broker_config import BrokerConfig


def test_last_words_are_given_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    class Thread:
        def __init__(self, *, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
            done.append((target, args[1:], daemon))

        def start(self) -> None:
            done.append("started")

        def join(self, seconds: float) -> None:
            done.append(seconds)

    monkeypatch.setattr(start, "threading", stand_in(threading, Thread=Thread))
    monkeypatch.setattr(start, "os", stand_in(os, _exit=done.append))
    start._end(BrokerConfig.embedded({"node.id": "7", "log.dirs": "/a,/b", "shutdown.timeout.ms": "5"}))
    assert done == [(start.logger.error, (7, 5, "/a, /b"), True), "started", start.TELLING_S, 1]


async def lived(
    monkeypatch: pytest.MonkeyPatch, beside: dict[str, int], failure: str | None, happens: list[Any]
) -> None:
    """A node that serves until a signal comes or it fails; what happens in turn."""
    failed: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()

    async def stop() -> None:
        happens.append("node stops")

    async def forever() -> None:
        await asyncio.Event().wait()

    node = SimpleNamespace(failed=failed, stop=stop)

    async def start_node(config: object, *, on_parts: object) -> SimpleNamespace:
        return node

    def begin_beside(_: object, ports: dict[str, int]) -> list[asyncio.Task[None]]:
        happens.append(("beside", ports))
        return [asyncio.create_task(forever()) for _ in ports]

    def tell(*, is_ready: bool) -> None:
        happens.append(f"ready {is_ready}")
        if not is_ready:
            return
        if failure is None:
            signal.raise_signal(signal.SIGTERM)
        else:
            failed.set_result(OSError(failure))

    monkeypatch.setattr("penstock.node.assembly.start.start_node", start_node)
    monkeypatch.setattr(start, "LEAVES_NO_CIRCLES", True)
    monkeypatch.setattr(start, "keep_for_good", lambda *, as_it_grows: happens.append(f"grows {as_it_grows}"))
    monkeypatch.setattr(start, "_announce", lambda config, node: happens.append("announced"))
    monkeypatch.setattr(start, "_start_beside", begin_beside)
    monkeypatch.setattr(start, "_tell_service_manager", tell)
    monkeypatch.setattr(start, "say", happens.append)
    config = BrokerConfig.embedded({"node.id": "7"})
    await start._run(config, until_eof=False, beside=beside, watched=lambda: lambda: happens.append("on stop"))


@pytest.mark.parametrize(
    ("beside", "grows"), [({}, True), ({"console": 1}, True), ({"console": 1, "worker": 2}, False)]
)
async def test_what_happens_from_a_nodes_start_to_its_end(
    beside: dict[str, int], grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens: list[Any] = []
    before = asyncio.all_tasks()
    await lived(monkeypatch, beside, None, happens)
    begins = [f"grows {grows}", "announced", ("beside", beside), "ready True"]
    assert happens == [*begins, "on stop", "ready False", "stopping", "node stops", "stopped"]
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before, "nothing beside it goes on"


async def test_a_node_that_has_failed_is_stopped_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    happens: list[Any] = []
    with pytest.raises(click.ClickException, match="node 7 had to stop: the disk is gone"):
        await lived(monkeypatch, {}, "the disk is gone", happens)
    assert happens[-4:] == ["on stop", "ready False", "stopping", "node stops"]


async def test_a_node_that_is_stopped_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    happens: list[Any] = []

    async def start_node(config: object, *, on_parts: object) -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            happens.append("given up")

    monkeypatch.setattr("penstock.node.assembly.start.start_node", start_node)
    config = BrokerConfig.embedded({"node.id": "7"})
    await start._run(config, until_eof=False, beside={}, watched=lambda: lambda: happens.append("on stop"))
    assert happens == ["on stop", "given up"]
