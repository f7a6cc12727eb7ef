"""A client of a simulation that acts on the cluster by an `Admin`: it acts, pauses, and acts again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from random import Random
from typing import Final

from penstock.client.admin import Admin
from penstock.client.settings import ClientSettings
from penstock.testing.simulator.clients import FAILURES, World

RETRY_S: Final = 0.5


class AdminClient(ABC):
    """After a failure it goes on with another `Admin`."""

    def __init__(self, world: World, name: str, random: Random, mean_pause_s: float) -> None:
        self.name = name
        self._world = world
        self._random = random
        self._mean_pause_s = mean_pause_s

    async def run(self) -> None:
        """Until the world stops."""
        while not self._world.stopping:
            settings = ClientSettings(**self._world.common(self.name, self._random))
            try:
                async with Admin(self._world.bootstrap(self._random), settings) as admin:
                    while not self._world.stopping:
                        await self._act(admin)
                        await asyncio.sleep(self._random.expovariate(1 / self._mean_pause_s))
            except FAILURES as error:
                self._failed(error)
                await asyncio.sleep(RETRY_S)

    @abstractmethod
    async def _act(self, admin: Admin) -> None: ...

    def _failed(self, error: Exception) -> None:
        self._note(f"failed: {error!r}")

    def _note(self, what: str) -> None:
        self._world.trace.note(self.name, what)
