"""The listeners of one node: sockets that are bound first, and listened on when the node is ready to answer."""

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Sequence
from functools import partial

from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import Connections
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

BACKLOG = 4096
"""Connections that the system keeps until they are accepted."""
ACCEPT_AT_ONCE = 64
"""asyncio accepts as many in one go as the backlog it is told: with few, those that are there are served in between,
and those that have gone again are forgotten before the next ones come."""
STOP_PATIENCE_S = 1.0
"""How long a stop waits for requests that wait for something themselves."""


class Endpoint(Value):
    """Where a listener listens: its name, its host as configured ("" is every interface) and its port; and how."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BoundListener:
    """A socket that is bound, so that its real port is known, and on which no client is served yet."""

    def __init__(
        self, endpoint: Endpoint, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1, backlog: int = BACKLOG
    ) -> None:
        """Bind; OSError when the address cannot be had."""
        family, kind, protocol, _, address = socket.getaddrinfo(
            endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.socket = socket.socket(family, kind, protocol)
        self.backlog = backlog
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if send_buffer_bytes > 0:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            if receive_buffer_bytes > 0:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            self.socket.bind(address)
        except OSError:
            self.socket.close()
            raise
        self.endpoint = endpoint.replace(port=self.socket.getsockname()[1])

    def close(self) -> None:
        self.socket.close()


Accept = Callable[[], asyncio.BaseProtocol]
"""What speaks over a connection that was accepted."""


def in_the_clear(endpoint: Endpoint, accept: Callable[[], Connection]) -> Accept:
    return accept


class Server:
    """`secured` is called with an endpoint and what accepts its connections, and gives what does so instead: over
    TLS, for one.
    """

    def __init__(
        self,
        connections: Connections,
        secured: Callable[[Endpoint, Callable[[], Connection]], Accept] = in_the_clear,
    ) -> None:
        self._connections = connections
        self._secured = secured
        self._servers: dict[str, asyncio.Server] = {}

    async def listen(self, listeners: Sequence[BoundListener]) -> None:
        _raise_file_limit()
        loop = asyncio.get_running_loop()
        for bound in listeners:
            name = bound.endpoint.listener
            factory = self._secured(bound.endpoint, partial(Connection, self._connections, name))
            self._servers[name] = await loop.create_server(factory, sock=bound.socket, backlog=ACCEPT_AT_ONCE)
            bound.socket.listen(bound.backlog)
            logger.info("listening on %s", bound.endpoint)

    def close(self, listener: str) -> None:
        """Accept no connection there; those that came that way end when what waits is answered."""
        self._servers.pop(listener).close()
        self._connections.end(listener)
        logger.info("not listening on %s any more", listener)

    async def stop(self) -> None:
        """Accept no connection, let requests that wait end, then close every connection."""
        for server in self._servers.values():
            server.close()
        await self._connections.stop(STOP_PATIENCE_S)


def _raise_file_limit() -> None:
    """Each connection and each open segment takes a file descriptor: allow as many as the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
