"""What a worker writes down and reads again: a compacted topic, a file, or nothing but its memory."""

from collections.abc import Callable
from typing import Protocol

OnRecord = Callable[[bytes, bytes | None, int], None]
"""Called with each record's key, value and offset."""


class WorkerLog(Protocol):
    """Records by keys, of which the last one counts; their writer reads them as well."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def put(self, key: bytes, value: bytes | None) -> object:
        """Returns when the record is safe."""

    async def read_to_end(self) -> None:
        """Wait until everything that is there now was read; TimeoutError."""
