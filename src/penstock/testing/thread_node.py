"""A node in a thread of this process, with an event loop of its own."""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.node.assembly.start import RunningNode, StartError, start_node
from penstock.node.environment.event_loop import new_event_loop

LOOPBACK = "127.0.0.1"
START_SECONDS = 60
STOP_SECONDS = 30


class ThreadNode:
    """Runs until `stop`. Creation returns when it answers. RuntimeError says why it did not start."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._ready: Future[str] = Future()
        self._stop = asyncio.Event()
        self._starting: asyncio.Future[RunningNode] | None = None
        self._failure: Exception | None = None
        try:
            config = BrokerConfig.embedded(settings)
        except ConfigError as error:
            raise RuntimeError(f"the node did not start: {error}") from error
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(config,), name="penstock-node", daemon=True)
        self._thread.start()
        try:
            self.address = self._ready.result(START_SECONDS)
        except StartError as error:
            raise RuntimeError(f"the node did not start: {error}") from error
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"the node did not start within {START_SECONDS} seconds") from None

    def stop(self) -> None:
        """A node that still starts gives up. Raises RuntimeError, also where it had to stop by itself."""
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._stop_now)
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise RuntimeError(f"the node did not stop within {STOP_SECONDS} seconds")
        if self._failure is not None:
            raise RuntimeError(f"the node had to stop: {self._failure}")

    def _stop_now(self) -> None:
        self._stop.set()
        if self._starting is not None:
            self._starting.cancel()

    def _run(self, config: BrokerConfig) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(config))

    async def _serve(self, config: BrokerConfig) -> None:
        self._starting = asyncio.ensure_future(start_node(config))
        try:
            node = await self._starting
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._starting = None
        endpoint = node.endpoints[0]
        self._ready.set_result(f"{endpoint.host or LOOPBACK}:{endpoint.port}")
        node.failed.add_done_callback(lambda _: self._stop.set())
        await self._stop.wait()
        await node.stop()
        if node.failed.done():
            self._failure = node.failed.result()
