"""What befalls workers, their node and the network, one thing after the other, and beside it the databases outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from tests.simulation.connect.database import Database
from tests.simulation.connect.hosts import WorkerHost

from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.work.connect.runtime.records import TaskId


class Faults:
    def __init__(
        self,
        random: Random,
        network: Network,
        machine: Machine,
        hosts: Sequence[WorkerHost],
        databases: Sequence[Database],
    ) -> None:
        self._random = random
        self._network = network
        self._machine = machine
        self._hosts = hosts
        self._databases = databases

    async def run(self, seconds: float) -> None:
        of_hosts = (
            self._kill_worker, self._kill_worker, self._kill_worker, self._stop_worker, self._pause, self._cut,
            self._break, self._kill_node, self._restart,
        )  # fmt: skip
        of_databases = (self._kill_in_database, self._cut_connections, self._take_down)
        await asyncio.gather(
            self._repeat(seconds, lambda: self._random.choice(of_hosts)(self._random.choice(self._hosts))),
            self._repeat(seconds, lambda: self._random.choice(of_databases)(self._random.choice(self._databases))),
        )

    async def _repeat(self, seconds: float, one: Callable[[], Coroutine[Any, Any, None]]) -> None:
        end = self._network.loop.time() + seconds
        while self._network.loop.time() < end:
            await asyncio.sleep(self._random.expovariate(2))
            await one()

    async def _kill_worker(self, host: WorkerHost) -> None:
        host.kill()
        await self._started_again(host)

    async def _started_again(self, host: WorkerHost) -> None:
        await asyncio.sleep(self._random.choice((0.1, 0.5, 3)) * self._random.random())
        if not host.is_up:
            host.start()

    async def _stop_worker(self, host: WorkerHost) -> None:
        await host.stop()
        await self._started_again(host)

    async def _pause(self, host: WorkerHost) -> None:
        host.pause()
        await asyncio.sleep(self._random.choice((0.5, 2, 8)) * self._random.random())
        host.go_on()

    async def _cut(self, host: WorkerHost) -> None:
        links = self._random.choice(([0], [1], [0, 1]))
        both = [(host.name, self._machine.name), (self._machine.name, host.name)]
        self._network.trace.note(host.name, "is cut off")
        for link in links:
            self._network.conditions.cut[both[link]] = None
        await asyncio.sleep(self._random.choice((0.5, 2, 8)) * self._random.random())
        self._network.trace.note(host.name, "is not cut off any more")
        self._network.mend([both[link] for link in links])

    async def _break(self, host: WorkerHost) -> None:
        self._network.trace.note("network", f"{self._network.break_some(self._random.random())} connections are reset")

    async def _kill_in_database(self, database: Database) -> None:
        database.kill_in = self._random.randrange(60)
        await asyncio.sleep(1)
        database.kill_in = None
        for one in self._hosts:
            if not one.is_up:
                await self._started_again(one)

    async def _cut_connections(self, database: Database) -> None:
        self._network.trace.note("database", "cuts connections")
        database.cuts = self._random.choice((0.02, 0.1, 0.3))
        await asyncio.sleep(2 * self._random.random())
        database.cuts = 0.0

    async def _take_down(self, database: Database) -> None:
        self._network.trace.note("database", "is down")
        database.is_down = True
        await asyncio.sleep(2 * self._random.random())
        database.is_down = False

    async def _kill_node(self, host: WorkerHost) -> None:
        self._machine.crash(power_lost=False)
        await asyncio.sleep(self._random.choice((0.1, 2)) * self._random.random())
        if not self._machine.is_up:
            await self._machine.start()

    async def _restart(self, host: WorkerHost) -> None:
        worker, process = host.worker, host.process
        if worker is None or process is None or host.is_paused:
            return
        task = TaskId(self._random.choice(list(worker.state.connectors) or [""]), self._random.randrange(2))
        self._network.trace.note(host.name, f"is to restart {task}")
        process.context.run(worker.tasks.restart, task)
