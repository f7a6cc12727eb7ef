"""What clients ask of a server: open a session, set, get. Only the leader answers; the others say who that is.

Reads are linearizable. A leader within its lease answers from its store: nobody else leads, and so nothing is set but
what it has applied itself. Where leases are not wanted, and before a leader holds one, reads go through the log. For a
read the leader appends a record that changes nothing, and answers from its store when that is committed and applied. A
leader that was replaced without having noticed cannot commit it, so it never answers with what is outdated; and by then
everything is applied that was answered before the read came. Raft knows a cheaper way, in which the leader asks a
majority whether it still leads (ReadIndex). But where followers pull, that takes a fetch that was sent after the read
came, so it would wait for a round trip just the same, and all that it saves is the disk. Reads that come while such a
record is on its way share the next one.
"""

import asyncio
from collections.abc import Callable

from examples.raft_kv.messages import (
    UNKNOWN_SESSION,
    GetRequest,
    GetResponse,
    Leader,
    OpenRequest,
    OpenResponse,
    Request,
    Response,
    SetRequest,
    SetResponse,
)
from examples.raft_kv.replica import StoreReplica
from examples.raft_kv.store import open_record, read_record, set_record
from penstock.node.quorum.driver import QuorumDriver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch

MAX_RECORD_BYTES = 512 * 1024
"""A key and a value together have at most so many bytes."""


class StoreService:
    """Answers requests of clients."""

    def __init__(self, replica: StoreReplica, quorum: QuorumDriver, now_ms: Callable[[], int]) -> None:
        self._replica = replica
        self._quorum = quorum
        self._now_ms = now_ms
        self._reads_gather: asyncio.Task[None] | None = None
        self._reads_under_way: asyncio.Task[None] | None = None

    async def answer(self, request: Request) -> Response:
        """The response to any request of a client."""
        if isinstance(request, OpenRequest):
            return await self.open(request)
        if isinstance(request, SetRequest):
            return await self.set(request)
        return await self.get(request)

    async def open(self, request: OpenRequest) -> OpenResponse:
        """A session is named after the offset of the record that opens it."""
        try:
            session = await self._append(open_record(self._now_ms()))
        except KafkaError as error:
            return OpenResponse(error_code=error.code, leader=self._leader())
        return OpenResponse(session=session)

    async def set(self, request: SetRequest) -> SetResponse:
        """Answered when a majority has it on disk and the store has applied it."""
        if len(request.key) + len(request.value) > MAX_RECORD_BYTES:
            return SetResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE)
        record = set_record(request.session, request.sequence, request.key, request.value, self._now_ms())
        try:
            await self._append(record)
        except KafkaError as error:
            return SetResponse(error_code=error.code, leader=self._leader())
        known = self._replica.store.knows(request.session)
        return SetResponse(error_code=ErrorCode.NONE if known else UNKNOWN_SESSION)

    async def get(self, request: GetRequest) -> GetResponse:
        """The value at a moment after the request came."""
        try:
            if not self._quorum.has_all:
                await self._pass_a_read()
        except KafkaError as error:
            return GetResponse(error_code=error.code, leader=self._leader())
        return GetResponse(value=self._replica.store.get(request.key))

    async def _pass_a_read(self) -> None:
        if self._reads_gather is None:
            self._reads_gather = asyncio.ensure_future(self._append_a_read(self._reads_under_way))
            self._reads_gather.add_done_callback(_heard)  # perhaps nobody waits for it any longer
        await asyncio.shield(self._reads_gather)

    async def _append_a_read(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._reads_under_way, self._reads_gather = self._reads_gather, None
        await self._append(read_record(self._now_ms()))

    async def _append(self, record: Record) -> int:
        """The offset of the record, when it is committed and applied. Raises KafkaError."""
        return await self._quorum.append(encode_batch([record]), self._quorum.epoch)

    def _leader(self) -> Leader:
        leader_id = self._quorum.leader_id
        endpoint = None if leader_id is None else self._quorum.endpoint_of(leader_id)
        if leader_id is None or endpoint is None:
            return Leader()
        return Leader(id=leader_id, host=endpoint.host, port=endpoint.port)


def _heard(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
