"""What the measuring commands want of a client, whichever does the work."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, Self

from penstock.client.values import TopicPartition

POLL_MS: Final = 100
Told = Callable[[BaseException | None], None]
"""Hears what became of a record."""


class Sender(Protocol):
    """Sends records to one topic. An async context manager."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: Any) -> None: ...

    async def send(self, value: bytes, key: bytes | None, told: Told) -> None:
        """Returns when the record is in a batch."""

    async def flush(self) -> None: ...

    async def begin(self) -> None:
        """A transaction; the first one makes this the only producer of its transactional.id."""

    async def commit(self) -> None:
        """Returns when all that was sent in it counts."""


class Reader(Protocol):
    """Reads topics as a member of a group. An async context manager."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: Any) -> None: ...

    async def poll(self, most: int) -> tuple[int, int]:
        """How many records came within POLL_MS, and how many bytes of keys and values."""


class Rebalances(Protocol):
    def assigned(self, partitions: Sequence[TopicPartition]) -> None: ...

    def revoked(self, partitions: Sequence[TopicPartition]) -> None: ...
