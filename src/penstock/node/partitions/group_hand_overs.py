"""Storage groups that this node leads and another one should are given to it, with what is produced meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.node.partitions.consensus_partition import ForSuccessor
from penstock.node.partitions.hand_over import NEWEST_BY_NAME, NOT_YET, answer_held, request_for
from penstock.node.storage_groups.group import Held, StorageGroup
from penstock.node.storage_groups.hand_over import HandOver
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.produce import ProduceResponse

logger = logging.getLogger(__name__)


class GroupHandOvers:
    """See the module. `connect` opens a connection to another broker."""

    def __init__(self, connect: Callable[[int], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._open: dict[HandOver, _Successor] = {}

    async def hand_over(self, group: StorageGroup, successor: int) -> bool:
        """Returns when this node has nothing left to do but to send on what arrives; whether it has handed over."""
        await self._close([one for one in self._open if one.is_over])
        way = _Successor(self._connect(successor))
        try:
            hand_over = HandOver(group, successor, way.send)
        except KafkaError as error:
            logger.info("a storage group is not handed over to %d: %s", successor, error.message)
            await way.close()
            return False
        self._open[hand_over] = way
        await hand_over.is_decided.wait()
        return True

    async def settle(self) -> None:
        """Send nothing more on, and let what was sent get its answers."""
        await asyncio.gather(*(one.settle() for one in self._open))

    async def stop(self) -> None:
        """What is held is refused."""
        await self._close(list(self._open))

    async def _close(self, hand_overs: list[HandOver]) -> None:
        ways = [(one, self._open.pop(one)) for one in hand_overs]
        for one, way in ways:
            await one.stop()
            await way.close()


class _Successor:
    """The way to who leads next."""

    def __init__(self, opening: Awaitable[Connection]) -> None:
        self._opening = asyncio.ensure_future(opening)

    async def send(self, node_id: int, held: Held) -> bool:
        """Have it appended there, and answer who waits for it; False if that node does not lead yet. KafkaError."""
        assert isinstance(held, ForSuccessor), "nothing else is held for a group"
        one = held.held
        if one is None:
            return True
        try:
            # What waits here could be overtaken by what comes later.
            connection = self._opening.result() if self._opening.done() else await asyncio.shield(self._opening)
            answer = connection.submit(request_for(held.partition, one), ProduceResponse, newest=NEWEST_BY_NAME)
            row = (await connection.answered(answer)).responses[0].partition_responses[0]
        except (ClientError, DecodeError) as error:
            message = f"sent on to the new leader, which did not answer: {error}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from error
        if row.error_code in NOT_YET:
            return False
        if held.held is not None:
            held.held = None
            answer_held(one, row)
        return True

    async def close(self) -> None:
        self._opening.cancel()
        with suppress(ClientError, KafkaError, asyncio.CancelledError):
            await (await self._opening).close()
