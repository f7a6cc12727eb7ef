"""What a task asks of whoever runs it: whose it is, and how far its source is."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from penstock.work.connect.api import Changes, Position
from penstock.work.connect.runtime.source_offsets import Rows


class TaskHost(Protocol):
    @property
    def generation(self) -> int:
        """Of the group of workers."""

    def owned_until_s(self) -> float: ...

    def uses(self, topic: str) -> None:
        """Told for the first time only."""

    def offsets_known(self, config: Mapping[str, str]) -> AbstractAsyncContextManager[None]:
        """Waits until `offset` knows what other workers have stored so far, by the task's configuration. What is about
        offsets is asked within.
        """

    def offset(self, partition: Position) -> Position | None: ...

    def offsets(self) -> Sequence[tuple[Position, Position]]:
        """Of all partitions of the connector."""

    def rows(self, offsets: Sequence[tuple[Position, Position]]) -> Rows:
        """What a topic has for them."""

    async def store(self, offsets: Changes) -> None: ...

    def copy(self, offsets: Sequence[tuple[Position, Position]]) -> None:
        """To the worker's topic, what a transaction has just stored in the connector's own."""

    async def settle(self) -> None:
        """Wait for what `store` and `copy` did not wait for."""
