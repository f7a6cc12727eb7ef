"""A host that runs a node: it is started, stopped, killed and cut from its power; its disk stays."""

from __future__ import annotations

import asyncio
from random import Random

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.start import RunningNode, start_node
from penstock.node.surroundings import Surroundings
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.trace import Trace

PORT = 9092
DATA = "/data"
START_LIMIT_S = 60.0


class Machine:
    """One host. `node` is None unless a node runs there."""

    def __init__(
        self, name: str, settings: dict[str, str], network: Network, random: Random, ledger: Ledger, trace: Trace
    ) -> None:
        self.name = name
        self.disk = HostDisk(network.loop, Random(random.getrandbits(64)))
        self.node: RunningNode | None = None
        self.process: Process | None = None
        self.power_fails_with_it = False
        self._settings = settings
        self._network = network
        self._random = random
        self._ledger = ledger
        self._trace = trace
        self.disk.on_crash = lambda: self.crash(power_lost=self.power_fails_with_it)
        self.disk.root.link(DATA.strip("/"), type(self.disk.root)())
        self.disk.root.sync()

    @property
    def address(self) -> str:
        """Where clients begin."""
        return f"{self.name}:{PORT}"

    @property
    def is_up(self) -> bool:
        """Whether a process of it lives."""
        return self.process is not None and self.process.is_alive

    async def start(self) -> bool:
        """Start the node; False if it was killed before it served."""
        assert not self.is_up
        loop = self._network.loop
        process = self.process = Process(self.name)
        self._network.host_is_back(self.name)
        self._trace.note(self.name, "starts")
        starting = process.spawn(loop, self._start(loop, process))
        ended: asyncio.Future[None] = loop.create_future()
        watch = asyncio.ensure_future(_until_dead(process, starting, ended))
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await ended
        except TimeoutError:
            self._ledger.violated(f"{self.name} does not start within {START_LIMIT_S:.0f} s")
            return False
        finally:
            watch.cancel()
        if not process.is_alive:
            return False
        error = starting.exception()
        if error is not None:
            self._ledger.violated(f"{self.name} does not start: {error!r}")
            return False
        self.node = starting.result()
        self._trace.note(self.name, f"serves, broker epoch {self.node.broker.broker_epoch}")
        self._ledger.started(self.node)
        return True

    async def _start(self, loop: VirtualLoop, process: Process) -> RunningNode:
        config = BrokerConfig.embedded(
            {"listeners": f"PLAINTEXT://{self.name}:{PORT}", "log.dirs": DATA} | self._settings
        )
        surroundings = Surroundings(
            random=Random(self._random.getrandbits(64)),
            disk=SimulatedDisk(self.disk, process),
            now_ms=loop.now_ms,
            bind=self._network.bind,
        )
        return await start_node(config, surroundings)

    async def stop(self) -> None:
        """Stop the node cleanly; it may be killed meanwhile."""
        process, node = self.process, self.node
        if process is None or node is None or not process.is_alive:
            return
        self._trace.note(self.name, "is asked to stop")
        stopping = process.spawn(self._network.loop, node.stop())
        ended: asyncio.Future[None] = self._network.loop.create_future()
        watch = asyncio.ensure_future(_until_dead(process, stopping, ended))
        await ended
        watch.cancel()
        if process.is_alive:
            error = stopping.exception()
            self._trace.note(self.name, "has stopped" if error is None else f"stopped badly: {error!r}")
            self._end(process, power_lost=False)

    def crash(self, *, power_lost: bool) -> None:
        """Kill the node now, in the middle of whatever it does; with the power, or without."""
        process = self.process
        if process is None or not process.is_alive:
            return
        self._trace.note(self.name, "loses its power" if power_lost else "is killed")
        self._ledger.crashing(self.node, power_lost=power_lost)
        self._end(process, power_lost=power_lost)
        if power_lost:
            self.disk.lose_power()

    def _end(self, process: Process, *, power_lost: bool) -> None:
        process.kill()
        self.node = None
        self.disk.crash_in = None
        self._network.process_died(process, power_lost=power_lost)


async def _until_dead(
    process: Process, task: asyncio.Task[RunningNode] | asyncio.Task[None], ended: asyncio.Future[None]
) -> None:
    """A task of a process that died never ends: look from outside."""
    while process.is_alive and not task.done():
        await asyncio.sleep(0.01)
    if not ended.done():
        ended.set_result(None)
