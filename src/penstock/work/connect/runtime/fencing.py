"""The leader's rounds of fencing: tasks of a connector begin when no older one can write transactions any more."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.client.admin import Admin
from penstock.work.connect.calls import SharedCalls
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.generations import LOOK_S, Generations
from penstock.work.connect.runtime.kinds import is_source, kind_of
from penstock.work.connect.runtime.leading import Leading
from penstock.work.connect.runtime.records import FENCING, task_count
from penstock.work.scope import Scope

RETRY_S: Final = 1.0
AT_ONCE: Final = 10
"""Producers that are fenced at a time."""
logger = logging.getLogger(__name__)


class Fencing:
    """What the leader does: a round for each connector whose tasks are new."""

    def __init__(
        self,
        generations: Generations,
        state: ConfigState,
        leading: Leading,
        new_admin: Callable[[str], Awaitable[Admin]],
    ) -> None:
        """`new_admin` takes the connector's name; ConfigError."""
        self._generations = generations
        self._state = state
        self._leading = leading
        self._new_admin = new_admin
        self._rounds: dict[str, None] = {}
        self._are_sources: dict[str, bool] = {}
        """Of the classes that were loaded."""
        self._loading = SharedCalls()
        self._under_way = Scope()

    async def stop(self) -> None:
        await self._under_way.stop()

    async def until_fenced(self, connector: str) -> None:
        """Until no older task of it can write any more, wherever it hangs."""
        while connector in self._state.unfenced and await self._is_source(connector):
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        for connector in self._state.unfenced if self._leading.leads else ():
            if connector not in self._rounds and self._may_be_source(connector):
                self._rounds[connector] = None
                self._under_way.start(self._fence(connector), f"fencing of {connector}")

    def _may_be_source(self, connector: str) -> bool:
        """As far as that is known without loading its class."""
        known = self._state.connectors.get(connector)
        return known is not None and self._are_sources.get(known.config.get("connector.class", ""), True)

    async def _is_source(self, connector: str) -> bool:
        known = self._state.connectors.get(connector)
        if known is None:
            return False
        name = known.config.get("connector.class", "")
        if name not in self._are_sources:
            try:
                kind = await self._loading.call(name, kind_of, {"name": connector, "connector.class": name})
            except Exception:
                return False  # it does not start either
            self._are_sources[name] = is_source(kind)
        return self._are_sources[name]

    async def _fence(self, connector: str) -> None:
        try:
            while await self._is_source(connector) and self._leading.leads and connector in self._state.unfenced:
                try:
                    await self._round(connector)
                except Exception as error:  # it may be a provider's: tasks wait until this is done
                    logger.warning("older tasks of %s are not fenced yet: %r", connector, error)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._rounds.pop(connector, None)

    async def _round(self, connector: str) -> None:
        generation, count = self._generations.of(connector), len(self._state.task_ids(connector))
        before = self._state.task_counts.get(connector, 0)
        ids = [self._generations.transactional_id(connector, number) for number in range(before)]
        if ids:
            async with await self._new_admin(connector) as admin:
                for start in range(0, len(ids), AT_ONCE):
                    await asyncio.gather(*map(admin.transactions.terminate, ids[start : start + AT_ONCE]))
        rows = {f"{FENCING}{connector}": task_count(count)}
        await self._leading.write_if(lambda: self._generations.of(connector) == generation, rows)
