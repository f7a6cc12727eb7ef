"""The storage groups that have a replica on this node which takes no part: what was said of it, and what it waits for.

| why                                          | until                                              |
| -------------------------------------------- | -------------------------------------------------- |
| a disk took nothing, and is not offline      | a while is over: there may be room                 |
| a disk has lost what the group has forgotten | that is copied from other replicas                 |
| it has gone to other nodes                   | a while is over: it may be on its way back already |
| anything else                                | the node starts again                              |
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from math import inf
from typing import Any, Final

from penstock.node.environment.tasks import Tasks
from penstock.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

RETRY_S: Final = 5
"""How long after a failed write the replica is tried again, and one that has gone is kept."""


class FailedReplicas:
    """`wake` is called when a replica is to be tried again before its time."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._retry_s: dict[int, float] = {}
        self._complaints: dict[int, str] = {}
        self._healing = Tasks()
        self._repairs: dict[int, asyncio.Task[None]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._retry_s

    def __iter__(self) -> Iterator[int]:
        return iter(self._retry_s)

    def __len__(self) -> int:
        return len(self._retry_s)

    def add(self, number: int, error: Exception) -> None:
        """What a disk refuses it may take later, if it is not offline; nothing else becomes better by itself."""
        is_disk = isinstance(error, KafkaError) and error.code == ErrorCode.KAFKA_STORAGE_ERROR
        self._retry_s[number] = inf
        if is_disk:
            self.put_off(number)

    def put_off(self, number: int) -> None:
        """If it is not due sooner."""
        self._retry_s[number] = min(self._retry_s.get(number, inf), asyncio.get_running_loop().time() + RETRY_S)

    def complain(self, number: int, error: Exception) -> None:
        """Logs once why the replica does not start."""
        why = error.message or error.code.name if isinstance(error, KafkaError) else str(error) or repr(error)
        if self._complaints.get(number) != why:
            self._complaints[number] = why
            logger.error("this node takes no part in storage group %d: %s", number, why)

    def heal(self, number: int, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._retry_s[number] = inf
        self._repairs[number] = self._healing.start(self._healed(number, work), f"repair of storage group {number}")

    async def _healed(self, number: int, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        retry_s = 0.0
        try:
            await work()
        except KafkaError as error:
            logger.error("storage group %d is not repaired yet: %s", number, error.message or error.code.name)
            retry_s = asyncio.get_running_loop().time() + RETRY_S
        except Exception:
            logger.exception("storage group %d is not repaired", number)
            retry_s = inf
        del self._repairs[number]
        self._retry_s[number] = retry_s
        self._wake()

    def take_due(self) -> list[int]:
        now_s = asyncio.get_running_loop().time()
        due = [number for number, retry_s in self._retry_s.items() if retry_s <= now_s]
        for number in due:
            del self._retry_s[number]
        return due

    def forget(self, number: int, *, takes_part: bool = False) -> None:
        """It is somewhere else, or takes part: nothing is repaired any more."""
        self._retry_s.pop(number, None)
        if (repair := self._repairs.pop(number, None)) is not None:
            repair.cancel()
        if takes_part:
            self._complaints.pop(number, None)

    async def stop(self) -> None:
        await self._healing.stop()
