"""The leader's work: a session key is there, and is replaced when it is old (`inter.worker.key.ttl.ms`)."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.leading import Leading
from penstock.work.connect.runtime.records import encode
from penstock.work.connect.runtime.session_keys import BITS, SESSION_KEY, as_document, due_in_ms, new_key
from penstock.work.scope import Scope

RETRY_S: Final = 1.0
logger = logging.getLogger(__name__)


class KeyRotation:
    """`settings` are the worker's."""

    def __init__(
        self, state: ConfigState, leading: Leading, settings: Mapping[str, Any], now_ms: Callable[[], int]
    ) -> None:
        self._state = state
        self._leading = leading
        self._algorithm: str = settings["inter.worker.key.generation.algorithm"]
        self._bytes = (settings["inter.worker.key.size"] or BITS[self._algorithm]) // 8
        self._ttl_ms: int = settings["inter.worker.key.ttl.ms"]
        self._now_ms = now_ms
        self._under_way = Scope()

    async def stop(self) -> None:
        await self._under_way.stop()

    def look(self) -> None:
        if self._leading.leads and not any(self._under_way):
            self._under_way.start(self._rotate(), "session keys")

    async def _rotate(self) -> None:
        while self._leading.leads:
            if not self._due_in_ms():
                await self._write()
            await asyncio.sleep(self._due_in_ms() / 1000 or RETRY_S)

    async def _write(self) -> None:
        key = new_key(secrets.token_bytes(self._bytes), self._algorithm, self._now_ms())
        try:
            await self._leading.write_if(lambda: not self._due_in_ms(), {SESSION_KEY: encode(as_document(key))})
        except Exception as error:
            logger.warning("no session key could be written: %r", error)

    def _due_in_ms(self) -> int:
        key = self._state.session_keys[0] if self._state.session_keys else None
        return due_in_ms(key, self._algorithm, self._ttl_ms, self._now_ms())
