"""A producer whose parts note what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.protocol.address import Address

HOME = [Address("h", 1)]


class Parts:
    """In the place of transactions and of the sender at once."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.number, self.stopped, self.taking = 1, False, 1
        self.fails: dict[str, BaseException] = {}
        self.transactions: Parts | None = self

    def _note(self, what: object, name: str) -> None:
        self.log.append(what)
        if name in self.fails:
            raise self.fails[name]

    async def begin(self) -> None:
        self._note("begin", "begin")

    async def initialize(self, *, keep_prepared: bool) -> Any:
        self._note(("initialize", keep_prepared), "initialize")
        return "prepared"

    async def end(self, *, commits: bool) -> None:
        self._note("commit" if commits else "abort", "commit" if commits else "abort")

    async def add_offsets(self, offsets: object, reader: object) -> None:
        self._note(("add offsets", offsets, reader), "add offsets")

    def check(self) -> None:
        self._note("check", "check")

    def present(self) -> int:
        self._note("present", "present")
        return self.number

    @contextmanager
    def taking_no_more(self) -> Iterator[None]:
        self.taking -= 1
        yield
        self.taking += 1

    def prepare(self) -> Any:
        return "prepared"

    async def complete(self, decided: object) -> Any:
        self._note(("complete", decided), "complete")
        return True

    # the sender

    def wake(self) -> None:
        self.log.append("wake" if self.taking else "wake, nothing more is taken")

    def abandon(self, error: Exception) -> None:
        self.log.append(str(error))

    async def some_progress(self) -> None:
        self.log.append("progress")


def producer(**settings: Any) -> tuple[Producer, Parts]:
    made, parts = Producer(HOME, ProducerSettings(**settings)), Parts()
    made._sender = parts  # type: ignore[assignment]
    made._sending = cast("asyncio.Task[None]", "open")
    return made, parts
