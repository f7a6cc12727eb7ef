"""Brings about the faults of a plan, one after the other, and puts everything right in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.trace import Trace

MEAN_PAUSE_S = 3.0
MAX_CALLS_TO_A_CRASH = 60


class Faults:
    """Acts on the machines and the network."""

    def __init__(
        self, machines: Sequence[Machine], clients: Sequence[str], network: Network, random: Random, trace: Trace
    ) -> None:
        self._machines = machines
        self._clients = clients
        self._network = network
        self._random = random
        self._trace = trace

    async def run(self, kinds: Sequence[str], seconds: float) -> None:
        """Let things happen for so long."""
        loop = self._network.loop
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(min(self._random.expovariate(1 / MEAN_PAUSE_S), max(end - loop.time(), 0.01)))
            machine = self._random.choice(list(self._machines))
            if not machine.is_up:
                await machine.start()
            elif kinds and machine.node is not None:
                await self._happen(self._random.choice(list(kinds)), machine)

    async def heal(self) -> None:
        """From now on nothing goes wrong; whoever is down is started."""
        self._trace.note("faults", "all is healed")
        self._network.heal()
        for machine in self._machines:
            self._heal_disk(machine)
            machine.disk.crash_in = None
            if not machine.is_up:
                await machine.start()

    async def _happen(self, kind: str, machine: Machine) -> None:
        if kind in ("kill", "power"):
            machine.crash(power_lost=kind == "power")
        elif kind in ("kill in a call", "power in a call"):
            machine.power_fails_with_it = kind.startswith("power")
            machine.disk.crash_in = self._random.randrange(1, MAX_CALLS_TO_A_CRASH)
        elif kind == "stop":
            await machine.stop()
        elif kind == "break":
            self._trace.note("faults", f"{self._network.break_some(self._random.random())} connections break")
        else:
            await self._for_a_while(kind, machine)

    async def _for_a_while(self, kind: str, machine: Machine) -> None:
        seconds = self._random.uniform(0.5, 12)
        client = self._random.choice(list(self._clients))
        self._trace.note("faults", f"{kind} for {seconds:.1f} s: {machine.name}, {client}")
        conditions = self._network.conditions
        if kind == "cut":
            conditions.cut[machine.name, client] = conditions.cut[client, machine.name] = None
        elif kind == "one way":
            conditions.cut[self._random.choice(((machine.name, client), (client, machine.name)))] = None
        elif kind == "slow":
            conditions.slow[client] = self._random.uniform(2, 200)
        elif kind == "slow sync":
            machine.disk.conditions.sync_s = self._random.uniform(0.05, 1)
        else:
            assert kind == "full"
            machine.disk.conditions.full = True
        await asyncio.sleep(seconds)
        self._network.heal()
        self._heal_disk(machine)
        self._trace.note("faults", f"{kind} is over")

    @staticmethod
    def _heal_disk(machine: Machine) -> None:
        machine.disk.conditions = type(machine.disk.conditions)()
