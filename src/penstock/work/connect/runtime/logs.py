"""What a worker writes down and reads again: a compacted topic, a file, or nothing but its memory."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from penstock.protocol.errors import ErrorCode

OnRecord = Callable[[bytes, bytes | None, int], None]
"""Called with each record's key, value and offset."""


TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Refusals of records that no other try, and no other leader, would write."""


class NotLeadingError(Exception):
    """This worker does not lead, or cannot be sure that it still does."""


class WorkerLog(Protocol):
    """Records by keys, of which the last one counts; their writer reads them as well."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def put(self, key: bytes, value: bytes | None) -> object:
        """Returns when the record is safe."""

    async def read_to_end(self) -> None:
        """Wait until everything that is there now was read; TimeoutError."""


class ConfigLog(WorkerLog, Protocol):
    """The one that has the connectors, of which the leader writes the most."""

    async def claim(self) -> None:
        """Before this worker leads: of all leaders only the last one that has claimed can `put_all`."""

    async def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Written by the leader, in their order; NotLeadingError where another one has claimed, KafkaError."""
