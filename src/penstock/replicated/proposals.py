"""Entries on their way into the log, and reads that see all that was answered before they came.

A leader within its lease reads what it has applied: no other leads, so nothing was answered but what it has applied
itself. Where leases are not wanted, and before a leader holds one, reads go through the log: the leader appends a
record that changes nothing and reads when that is committed and applied. A leader that was replaced without having
noticed cannot commit it, so it never reads what is outdated. Raft knows a cheaper way, in which the leader asks a
majority whether it still leads (ReadIndex). But where followers pull, that takes a fetch that was sent after the read
came, so it would wait for a round trip just the same, and all that it saves is the disk. Reads that come while such a
record is on its way share the next one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.node.quorum.driver import QuorumDriver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.errors import NotLeaderError, OutcomeUnknownError
from penstock.replicated.replica import Replica


class Proposals:
    """Those of one node."""

    def __init__(
        self, quorum: QuorumDriver, replica: Replica[Any], max_entry_bytes: int, now_ms: Callable[[], int]
    ) -> None:
        self._quorum = quorum
        self._replica = replica
        self._max_entry_bytes = max_entry_bytes
        self._now_ms = now_ms
        self._reads_gather: asyncio.Task[None] | None = None
        self._reads_under_way: asyncio.Task[None] | None = None

    @property
    def leader(self) -> ServerAddress | None:
        leader_id = self._quorum.leader_id
        endpoint = self._quorum.endpoint_of(leader_id)
        if leader_id is None or endpoint is None:
            return None
        return ServerAddress(endpoint.host, endpoint.port, leader_id)

    async def propose(self, entry: Record) -> Any:
        size = len(entry.key or b"") + len(entry.value or b"")
        if size > self._max_entry_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"an entry of {size} bytes; max_entry_bytes allows {self._max_entry_bytes}"
            )
        epoch, offset = self._quorum.epoch, self._quorum.log_end_offset
        self._replica.expect(epoch, offset)
        try:
            await self._append(entry, epoch)
        finally:
            result = self._replica.take_result(epoch, offset)
        return result

    async def read(self) -> None:
        if not self._quorum.has_all:
            await self._pass_a_read()

    async def _pass_a_read(self) -> None:
        if self._reads_gather is None:
            self._reads_gather = asyncio.ensure_future(self._append_a_read(self._reads_under_way))
            self._reads_gather.add_done_callback(_heard)  # perhaps every reader has gone
        await asyncio.shield(self._reads_gather)

    async def _append_a_read(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._reads_under_way, self._reads_gather = self._reads_gather, None
        try:
            await self._append(Record(timestamp_ms=self._now_ms()), self._quorum.epoch)
        except OutcomeUnknownError:
            raise NotLeaderError(self.leader) from None  # a read changes nothing

    async def _append(self, record: Record, epoch: int) -> None:
        try:
            done: Awaitable[int] = self._quorum.append(encode_batch([record]), epoch)
        except KafkaError as error:
            if error.code == ErrorCode.NOT_CONTROLLER:
                raise NotLeaderError(self.leader) from None
            raise
        try:
            await done
        except KafkaError as error:
            raise OutcomeUnknownError(error.code, error.message) from None


def _heard(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
