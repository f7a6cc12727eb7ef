"""A worker that shares connectors, as a whole: its REST interface, its membership, and its end."""

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from typing import Self

from penstock.work.connect.distributed.config_state import LoggerLevel
from penstock.work.connect.distributed.settings import parse_settings
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.loggers import Loggers
from penstock.work.connect.rest.offsets import Offsets
from penstock.work.connect.rest.routes import Served
from penstock.work.connect.rest.server import RestServer
from penstock.work.connect.rest.tls import tls_of


class RunningWorker:
    """See the module; `async with` starts and ends it. ConfigError at once; OSError, TopicError and the client's."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._settings = parse_settings(config)
        self.server = RestServer(
            self._settings["listeners"],
            self._settings["access.control.allow.origin"],
            self._settings["access.control.allow.methods"],
            lambda: tls_of(config),
        )
        self.worker: DistributedWorker | None = None

    async def __aenter__(self) -> Self:
        await self.server.start()
        try:
            advertised = self.server.advertised(
                self._settings["rest.advertised.host.name"], self._settings["rest.advertised.port"]
            )
            self.worker = worker = DistributedWorker(self._config, advertised)
            loggers = Loggers(lambda: round(time.time() * 1000))
            worker.on_logger_level = lambda news: _set_level(loggers, news)
            herder = Herder(worker)
            self.server.served = Served(herder, Offsets(herder), loggers)
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


def _set_level(loggers: Loggers, news: LoggerLevel) -> None:
    try:
        loggers.set(news.logger, news.level)
    except KeyError:
        pass  # a level that only other workers know


async def run_distributed(config: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run a worker until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with RunningWorker(config) as running:
        assert running.worker is not None
        group = running.worker.settings["group.id"]
        say(f"worker {running.worker.worker_id} of group {group}, REST at {', '.join(running.server.urls)}")
        failed = asyncio.create_task(running.worker.ended())
        stopping = asyncio.create_task(stopped.wait())
        done, _ = await asyncio.wait([failed, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (failed, stopping):
            task.cancel()
        if failed in done:
            raise failed.result()
