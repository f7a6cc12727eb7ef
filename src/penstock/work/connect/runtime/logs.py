"""What a worker writes down and reads again: a compacted topic, a file, or nothing but its memory."""

from collections.abc import Callable
from typing import Protocol

OnRecord = Callable[[bytes, bytes | None, int], None]
"""Told of each record: its key, its value and its offset."""


class WorkerLog(Protocol):
    """Records by keys, the last one of each of which counts; whoever writes one reads it as well."""

    async def start(self) -> None:
        """Read what there is."""

    async def stop(self) -> None:
        """Write and read no more."""

    async def put(self, key: bytes, value: bytes | None) -> object:
        """Write a record, and wait until it is safe."""

    async def read_to_end(self) -> None:
        """Wait until everything was read that is there now; TimeoutError."""
