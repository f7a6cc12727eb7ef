"""What a task has sent and is not in Kafka yet. Nothing is kept of what has arrived: a task sends millions of records
between two flushes.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.client.values import RecordMetadata
from penstock.work.connect.api import Position, SourceRecord
from penstock.work.connect.runtime.records import partition_name

Delivery = asyncio.Future[RecordMetadata]
Offset = tuple[Position, Position]
"""Of a source: its partition, and where in it."""


class Deliveries:
    """How many records are on their way, and the first error of any."""

    def __init__(self) -> None:
        self._under_way = 0
        self._error: BaseException | None = None
        self._settled = asyncio.Event()

    def add(self, delivery: Delivery, then: Callable[[], None] = lambda: None) -> None:
        """`then` is called when it has arrived, or failed. Raises what an earlier one failed with."""
        self._check()
        self._under_way += 1
        self._settled.clear()
        delivery.add_done_callback(partial(self._ended, then))

    async def settled(self) -> None:
        """Wait until all are in Kafka. Raises what the first one failed with, without waiting for the others."""
        if self._under_way:
            await self._settled.wait()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _ended(self, then: Callable[[], None], delivery: Delivery) -> None:
        then()
        self._under_way -= 1
        self._error = self._error or delivery.exception()
        if not self._under_way or self._error is not None:
            self._settled.set()


class Submitted(Deliveries):
    """How far a source is in Kafka: an offset is safe when its record is there and all before it of its partition are,
    as Connect's SubmittedRecords have it (KAFKA-12226). So one topic that takes nothing holds up what goes there alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, deque[tuple[Offset, Delivery | None]]] = {}
        self._safe: dict[str, Offset] = {}

    def moved_on(self, record: SourceRecord, delivery: Delivery | None) -> None:
        """`delivery` is None for a record of which nothing is sent."""
        name = partition_name(record.source_partition)
        offset = record.source_partition, record.source_offset
        self._waiting.setdefault(name, deque()).append((offset, delivery))
        if delivery is None:
            self._advance(name)
        else:
            self.add(delivery, partial(self._advance, name))

    def take_safe(self) -> dict[str, Offset]:
        """The last safe offset of each partition that has a new one."""
        safe, self._safe = self._safe, {}
        return safe

    def give_back(self, safe: dict[str, Offset]) -> None:
        """They could not be stored: they come with the next ones."""
        self._safe = safe | self._safe

    def _advance(self, name: str) -> None:
        waiting = self._waiting.get(name, deque())
        while waiting and _is_there(waiting[0][1]):
            self._safe[name] = waiting.popleft()[0]
        if not waiting:
            self._waiting.pop(name, None)


def _is_there(delivery: Delivery | None) -> bool:
    return delivery is None or (delivery.done() and delivery.exception() is None)
