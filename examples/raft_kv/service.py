"""What clients ask of a server: open a session, set, get. Only the leader answers; the others say who that is.

Reads are linearizable (`penstock.replicated.proposals`).
"""

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
from examples.raft_kv.store import OPEN_HEADERS, Store, set_headers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replicated.node import ReplicatedNode

MAX_RECORD_BYTES = 512 * 1024
"""A key and a value together have at most so many bytes."""


class StoreService:
    """Answers requests of clients."""

    def __init__(self, node: ReplicatedNode[Store]) -> None:
        self._node = node

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
            session = await self._node.propose(b"", headers=OPEN_HEADERS)
        except KafkaError as error:
            return OpenResponse(error_code=error.code, leader=self._leader())
        assert session is not None, "it was opened just now"
        return OpenResponse(session=session)

    async def set(self, request: SetRequest) -> SetResponse:
        """Answered when a majority has it on disk and the store has applied it."""
        if len(request.key) + len(request.value) > MAX_RECORD_BYTES:
            return SetResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE)
        headers = set_headers(request.session, request.sequence)
        try:
            session = await self._node.propose(request.value, key=request.key, headers=headers)
        except KafkaError as error:
            return SetResponse(error_code=error.code, leader=self._leader())
        return SetResponse(error_code=UNKNOWN_SESSION if session is None else ErrorCode.NONE)

    async def get(self, request: GetRequest) -> GetResponse:
        """The value at a moment after the request came."""
        try:
            store = await self._node.read()
        except KafkaError as error:
            return GetResponse(error_code=error.code, leader=self._leader())
        return GetResponse(value=store.get(request.key))

    def _leader(self) -> Leader:
        leader = self._node.leader
        return Leader() if leader is None else Leader(id=leader.id, host=leader.host, port=leader.port)
