"""What arrives at a server's port: requests of clients go to the store, all others to the quorum's handlers."""

from examples.raft_kv.messages import BY_KEY, VERSION, Request, encode_response
from examples.raft_kv.service import StoreService
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.node.serving.handler import Charge, CloseConnection, Handler, RequestContext
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.session import Session
from penstock.protocol.codec import decode
from penstock.protocol.requests.framing import RequestHeader, parse_request_header
from penstock.replicated.peers import QuorumPeer


class StoreDispatcher(Dispatcher):
    """Calls the services of one server."""

    def __init__(self, node: QuorumPeer, store: StoreService) -> None:
        super().__init__(node)
        self._store = store
        self._handlers = {key: Handler(key, VERSION, VERSION, store.answer, NOTHING, raw=True) for key in BY_KEY}

    def dispatch(
        self, frame: memoryview, session: Session, charge: Charge | None = None
    ) -> list[ResponsePart] | Waiting:
        """See `Dispatcher`."""
        header, position = parse_request_header(frame)
        api = BY_KEY.get(header.api_key)
        if api is None:
            return super().dispatch(frame, session, charge)
        if header.api_version != VERSION:
            raise CloseConnection(f"version {header.api_version} of {api.request.__name__} is not served")
        request, _ = decode(api.request, VERSION, frame, position)
        return Waiting(self._handlers[api.key], _context(header, session), self._answer(request, header.correlation_id))

    async def _answer(self, request: Request, correlation_id: int) -> list[ResponsePart]:
        return [encode_response(await self._store.answer(request), correlation_id)]


def _context(header: RequestHeader, session: Session) -> RequestContext:
    return RequestContext(header.api_key, header.api_version, header.correlation_id, header.client_id, session)
