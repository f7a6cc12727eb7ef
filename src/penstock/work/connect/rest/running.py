"""A worker as a whole: its REST interface, what it runs, and its end."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from penstock.work.connect.calls import called_apart
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.providers import Providers
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.offsets import ConnectorOffsets
from penstock.work.connect.rest.routes import Served
from penstock.work.connect.rest.server import RestServer
from penstock.work.connect.rest.tls import tls_of
from penstock.work.connect.runtime.records import Status
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.runtime.worker import ConnectWorker
from penstock.work.connect.standalone.worker import StandaloneWorker

Kind = TypeVar("Kind", bound=ConnectWorker)


class RunningWorker(Generic[Kind]):
    """`async with` starts and ends both. ConfigError, then what `start` raises.

    Both are made in a thread: config providers are others' code, and ask files or a network; so does the name of a
    machine.
    """

    server: RestServer

    def __init__(self, kind: type[Kind], config: Mapping[str, str]) -> None:
        self._kind = kind
        self._config = config
        self.worker: Kind | None = None

    def _new_server(self) -> RestServer:
        resolved = Providers(self._config).resolved(self._config)
        return RestServer(self._kind.parse(resolved), lambda: tls_of(resolved))

    def _new_worker(self) -> Kind:
        return self._kind(self._config, self.server.advertised())

    async def __aenter__(self) -> Self:
        self.server = await called_apart("providers", self._new_server)
        await self.server.start()
        try:
            self.worker = worker = await called_apart("providers", self._new_worker)
            herder = Herder(worker)
            self.server.served = Served(herder, ConnectorOffsets(herder))
            await worker.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.served = None
        try:
            if self.worker is not None:
                await self.worker.stop()
        finally:
            await self.server.stop()


async def run_distributed(config: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Runs until SIGINT or SIGTERM."""
    async with RunningWorker(DistributedWorker, config) as running:
        worker = running.worker
        assert worker is not None
        group = worker.settings["group.id"]
        say(f"worker {worker.worker_id} of group {group}, REST at {', '.join(running.server.urls)}")

        async def fail() -> None:
            raise await worker.ended()

        await _until_told(fail())


async def run_standalone(
    config: Mapping[str, str], jobs: Sequence[Mapping[str, str]], say: Callable[[str], None]
) -> None:
    """Runs until SIGINT or SIGTERM, with these connectors to begin with."""

    def tell(name: str, status: Status) -> None:
        if status.state != RunState.UNASSIGNED.value:
            reason = (status.trace or "").partition("\n")[0]
            say(f"{name}: {status.state.lower()}{f' ({reason})' if reason else ''}")

    async with RunningWorker(StandaloneWorker, config) as running:
        worker = running.worker
        assert worker is not None
        say(f"standalone worker {worker.worker_id}, REST at {', '.join(running.server.urls)}")

        async def begin() -> None:
            await worker.begin(jobs, tell)
            await asyncio.Event().wait()

        await _until_told(begin())


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    """Until SIGINT or SIGTERM, or until the work raises."""
    working = asyncio.create_task(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, working.cancel)
    await asyncio.wait([working])
    if not working.cancelled():
        working.result()
