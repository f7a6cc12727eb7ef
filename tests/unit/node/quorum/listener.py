"""The controller listener of a replica, as a node has it, on a real socket: it can be cut off, and fall silent."""

import asyncio
from typing import Any, cast

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.connections import ConnectionLimits, Connections
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.node.serving.handler import CONTROLLER_HANDLERS, Charge, Handler, RequestContext, load_handlers
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.server import BoundListener, Endpoint, Server
from penstock.node.serving.session import Session
from penstock.protocol.requests.api import ApiKey


class WatchedDispatcher(Dispatcher):
    """Notes what is asked, and may answer nothing."""

    def __init__(self, node: ControllerNode) -> None:
        super().__init__(node)
        self.asked: list[ApiKey] = []
        self.is_silent = False

    def dispatch(
        self, frame: memoryview, session: Session, charge: Charge | None = None
    ) -> list[ResponsePart] | Waiting:
        key = ApiKey(int.from_bytes(frame[:2], "big"))
        self.asked.append(key)
        if not self.is_silent:
            return super().dispatch(frame, session, charge)
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        return Waiting(Handler(key, 0, 99, lambda: None, NOTHING), RequestContext(key, 0, 0, None, session), never)


class Listener:
    """Listens for one driver after the other, always at the same port."""

    def __init__(self) -> None:
        self.endpoint = Endpoint("CONTROLLER", "127.0.0.1", 0)
        self._bound: BoundListener | None = None
        self.dispatcher: WatchedDispatcher
        self._connections: Connections
        self._server: Server

    def bind(self) -> None:
        """Take the address; nobody is served yet."""
        self._bound = BoundListener(self.endpoint)
        self.endpoint = self._bound.endpoint

    async def serve(self, driver: QuorumDriver, cluster_id: str) -> None:
        if self._bound is None:
            self.bind()
        node = ControllerNode(
            config=BrokerConfig.embedded(),
            node_id=driver.local_key.id,
            cluster_id=cluster_id,
            image=ClusterImage(),
            controller=cast("Any", None),  # no API here asks for one
            quorum=driver,
            handlers=load_handlers(CONTROLLER_HANDLERS),
        )
        self.dispatcher = WatchedDispatcher(node)
        self._connections = Connections(self.dispatcher, ConnectionLimits(), asyncio.get_running_loop())
        self._server = Server(self._connections)
        assert self._bound is not None
        await self._server.listen([self._bound])
        self._bound = None

    async def cut(self) -> None:
        """All connections break at once, and nobody is served."""
        for server in self._server._servers.values():
            server.close()
        for connection in list(self._connections.active):
            connection.abort()

    async def close(self) -> None:
        await self._server.stop()
