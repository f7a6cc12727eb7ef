"""One node for all wire tests, in a thread of its own, and the clients that others wrote to talk to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.start import RunningNode, start_node


class NodeThread:
    """A node on an event loop in a thread; `bootstrap` is its address."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self.node: RunningNode | None = None
        self.bootstrap = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="node", daemon=True)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            self.node = await start_node(BrokerConfig.embedded(self._settings))
            endpoint = self.node.endpoints[0]
            self.bootstrap = f"127.0.0.1:{endpoint.port}"
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()
        await self._stop.wait()
        await self.node.stop()

    def start(self) -> NodeThread:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def settings_for(directory: Path) -> dict[str, str]:
    """A node on any free port; groups form at once."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "num.partitions": "4",
    }


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeThread]:
    """A running node that all tests share: each test uses topics and groups of its own."""
    running = NodeThread(settings_for(tmp_path_factory.mktemp("node"))).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def bootstrap(node: NodeThread) -> str:
    """The address of the shared node."""
    return node.bootstrap


@pytest.fixture
def start_another() -> Iterator[Callable[[dict[str, str]], NodeThread]]:
    """Start nodes with settings of the test's own; they stop with the test."""
    started: list[NodeThread] = []

    def start(settings: dict[str, str]) -> NodeThread:
        started.append(NodeThread(settings).start())
        return started[-1]

    yield start
    for running in started:
        if running._thread.is_alive():
            running.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return "".join(c if c.isalnum() else "-" for c in request.node.nodeid.partition("::")[2])[:200]
