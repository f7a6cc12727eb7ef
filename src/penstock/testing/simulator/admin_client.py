"""A client of a simulation that acts on the cluster by an `Admin`: it acts, pauses, and acts again."""

import asyncio
from abc import abstractmethod
from random import Random
from typing import Final

from penstock.client.admin import Admin
from penstock.client.settings import ClientSettings
from penstock.testing.simulator.clients import Client, World

MAX_PAUSE_S: Final = 45.0
"""Less than clients have to end."""


class AdminClient(Client):
    """After a failure it goes on with another `Admin`."""

    def __init__(self, world: World, name: str, random: Random, mean_pause_s: float) -> None:
        super().__init__(world, name, random)
        self._mean_pause_s = mean_pause_s

    async def _live(self) -> None:
        settings = ClientSettings(**self._world.common(self.name, self._random))
        async with Admin(self._world.bootstrap(self._random), settings) as admin:
            while not self._has_enough:
                await self._act(admin)
                await asyncio.sleep(min(self._random.expovariate(1 / self._mean_pause_s), MAX_PAUSE_S))
            await self._end(admin)

    @property
    def _has_enough(self) -> bool:
        return self._world.stopping

    @abstractmethod
    async def _act(self, admin: Admin) -> None: ...

    async def _end(self, admin: Admin) -> None: ...
