"""Producer ids of this broker: it gets them from the controller in blocks and hands them out one by one.

The next block is asked for before the present one is used up, so that clients rarely wait. Ids of a block that were not
handed out when the broker stops are never used.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse

PREFETCH_BELOW = 100
"""With fewer ids left than this, the next block is asked for."""

Allocate = Callable[[], "asyncio.Future[AllocateProducerIdsResponse]"]


class ProducerIds:
    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self._asking: asyncio.Future[AllocateProducerIdsResponse] | None = None

    async def take(self, allocate: Allocate) -> int:
        """Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS, which clients retry, if there is none."""
        producer_id = self.take_now(allocate)
        while producer_id is None:
            assert self._asking is not None
            await asyncio.wait([self._asking])
            if not self._blocks and self._asking is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the controller gave no producer ids")
            producer_id = self.take_now(allocate)
        return producer_id

    def take_now(self, allocate: Allocate) -> int | None:
        """None if the caller has to wait for it; asks for a block if few are left."""
        producer_id = self._next()
        if self._asking is None and sum(map(len, self._blocks)) < PREFETCH_BELOW:
            self._asking = allocate()
            self._asking.add_done_callback(self._allocated)
        return producer_id

    def _next(self) -> int | None:
        if not self._blocks:
            return None
        block = self._blocks[0]
        if len(block) == 1:
            self._blocks.popleft()
        else:
            self._blocks[0] = block[1:]
        return block[0]

    def _allocated(self, asked: "asyncio.Future[AllocateProducerIdsResponse]") -> None:
        self._asking = None
        if asked.cancelled() or asked.exception() is not None:
            return
        reply = asked.result()
        if reply.error_code == ErrorCode.NONE:
            self._blocks.append(range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len))
