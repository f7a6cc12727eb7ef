"""A host of the simulation with one of Connect's workers on it: the worker as it is, without its REST interface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from penstock.client.background import SameLoop
from penstock.client.errors import ClientError
from penstock.protocol.errors import KafkaError
from penstock.testing.simulator.loop import Process
from penstock.testing.simulator.network import Network
from penstock.work.connect.clients import Clients
from penstock.work.connect.distributed.topic_log import TopicError
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.runtime.records import TASK, TaskId

GOES_WRONG = (ClientError, KafkaError, TopicError, TimeoutError)
WORKER = {
    "group.id": "workers",
    **{f"{store}.storage.topic": f"{store}s" for store in ("config", "offset", "status")},
    **{f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
    "offset.storage.partitions": "2",
    "status.storage.partitions": "1",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "key.converter": "StringConverter",
    "offset.flush.interval.ms": "700",
    "task.shutdown.graceful.timeout.ms": "2000",
    "session.timeout.ms": "2500",
    "heartbeat.interval.ms": "800",
    "rebalance.timeout.ms": "6000",
    "producer.delivery.timeout.ms": "10000",
    "consumer.session.timeout.ms": "2000",
    "consumer.heartbeat.interval.ms": "600",
    "consumer.metadata.max.age.ms": "2000",
}


class Rules(Protocol):
    def stores(self, worker: DistributedWorker, connector: str, offsets: Any) -> None:
        """A worker is about to store offsets of a source."""

    def died(self, process: Process) -> None: ...


class WorkerHost:
    """A worker's process, started and killed again and again. Its clients have clock and chance of the simulation."""

    def __init__(
        self,
        name: str,
        network: Network,
        random: Random,
        bootstrap: str,
        rules: Rules,
        settings: Mapping[str, str] = WORKER,
    ) -> None:
        self.name = name
        self._settings = settings
        self.worker: DistributedWorker | None = None
        self.process: Process | None = None
        self._network = network
        self._random = random
        self._bootstrap = bootstrap
        self._rules = rules
        self._lives: list[Process] = []

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_paused(self) -> bool:
        return self.is_up and self.process is not None and self.process.is_paused

    def start(self) -> None:
        self._note("starts")
        self.process = process = Process(self.name)
        self._lives.append(process)
        process.spawn(self._network.loop, self._live())

    async def _live(self) -> None:
        loop, rules = self._network.loop, self._rules
        seams = {
            "random": Random(self._random.getrandbits(64)),
            "request_timeout_ms": 5_000,
            "default_api_timeout_ms": 10_000,
            "socket_connection_setup_timeout_ms": 2_000,
            "reconnect_backoff_ms": 0,
        }
        clients = Clients(bootstrap_servers=self._bootstrap, now_ms=loop.now_ms, seams=seams, background=SameLoop)
        while True:
            worker = DistributedWorker(self._settings, f"{self.name}:8083", clients)
            write = worker.offsets.write

            async def watched(
                connector: str, offsets: Any, write: Callable[[str, Any], Any] = write, mine: Any = worker
            ) -> None:
                rules.stores(mine, connector, offsets)
                await write(connector, offsets)

            worker.offsets.write = watched  # type: ignore[method-assign]
            try:
                await worker.start()
                self.worker = worker
                self._note("is a worker")
                return
            except GOES_WRONG as error:  # the process would end, and be started again
                self._note(f"does not start: {error!r}")
                await worker.stop()
                await asyncio.sleep(1)

    def kill(self) -> None:
        process = self.process
        if process is not None and process.is_alive:
            self._note("is killed")
            process.kill()
            self._network.process_died(process, power_lost=False)
            self._rules.died(process)
            self.worker = None

    async def stop(self) -> None:
        """Cleanly, unless it is killed meanwhile."""
        worker, process = self.worker, self.process
        if worker is None or process is None or process.is_paused:
            return
        self.worker = None
        self._note("is asked to stop")
        stopping = process.spawn(self._network.loop, worker.stop())
        while process.is_alive and not stopping.done():
            await asyncio.sleep(0.05)
        if process.is_alive:
            self.kill()
            stopping.result()

    def pause(self) -> None:
        if self.process is not None and self.is_up and not self.is_paused:
            self._note("is paused")
            self.process.pause()

    def go_on(self) -> None:
        if self.process is not None and self.is_paused:
            self._note("goes on")
            self.process.go_on(self._network.loop)

    def runs(self, task: TaskId) -> bool:
        """Whether it runs the task, and believes that it is its own. Who is paused drops it before doing anything."""
        if self.is_paused:
            return False
        worker = self.worker
        supervisor = worker.tasks._supervisors.get(f"{TASK}{task}") if worker is not None and self.is_up else None
        return supervisor is not None and not supervisor.is_fenced

    def freeze(self) -> None:
        """No callback of any of its lives runs any more."""
        for process in self._lives:
            process.kill()

    def _note(self, what: str) -> None:
        self._network.trace.note(self.name, what)
