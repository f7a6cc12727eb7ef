"""A server on a real socket with handlers of the test's choice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import broker_on

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.api.broker.api_versions import api_versions
from penstock.node.controlling.commands import NoController
from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import ConnectionLimits, Connections, Throttling
from penstock.node.serving.dispatch import Dispatcher, Node
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.server import Accept, BoundListener, Endpoint, Server, in_the_clear
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request
from penstock.protocol.schema import Message

API_VERSIONS = Handler(ApiKey.API_VERSIONS, 0, 4, api_versions, NOTHING)


class RawClient:
    """Sends frames, whatever is in them, and reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    def send(self, message: Message, version: int) -> int:
        """Send a request; its correlation id."""
        self._correlation_id += 1
        self.writer.write(encode_request(message, version, self._correlation_id, "test"))
        return self._correlation_id

    async def receive_frame(self) -> bytes:
        """The next frame without its length."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def receive(self, api_key: int, version: int) -> tuple[int, Message]:
        """The next answer: its correlation id and message."""
        return decode_response(api_key, version, await self.receive_frame())

    async def closed(self) -> bool:
        """Wait for the other end to close; whether nothing more came."""
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def lives(self) -> bool:
        """Whether the node answers this connection."""
        sent = self.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
        received, _ = await self.receive(ApiKey.API_VERSIONS, 3)
        return sent == received


class Serving:
    """What a test holds of the server."""

    def __init__(self, endpoint: Endpoint, connections: Connections) -> None:
        self.endpoint = endpoint
        self.connections = connections
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> RawClient:
        """A new connection."""
        reader, writer = await asyncio.open_connection(self.endpoint.host, self.endpoint.port, limit=1 << 26)
        self._writers.append(writer)
        return RawClient(reader, writer)

    def disconnect_all(self) -> None:
        """Close what `connect` opened."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def serving(
    *handlers: Handler,
    limits: ConnectionLimits | None = None,
    settings: Mapping[str, str] | None = None,
    throttling: Throttling[Any] | None = None,
) -> AsyncIterator[Serving]:
    """A server of ApiVersions and `handlers` until the block ends."""
    node = node_context(BrokerConfig.embedded(settings or {}), ClusterImage(), random=Random(1))
    broker = broker_on(
        broker_context(node, NoController()),
        handlers={handler.api_key: handler for handler in (API_VERSIONS, *handlers)},
    )
    async with serving_node(broker, limits=limits, throttling=throttling) as served:
        yield served


@asynccontextmanager
async def serving_node(
    node: Node,
    listener: str = "PLAINTEXT",
    *,
    limits: ConnectionLimits | None = None,
    secured: Callable[[Connections], Callable[[Endpoint, Callable[[], Connection]], Accept]] | None = None,
    throttling: Throttling[Any] | None = None,
) -> AsyncIterator[Serving]:
    """A server of whatever `node` handles until the block ends."""
    loop = asyncio.get_running_loop()
    connections = Connections(Dispatcher(node), limits or ConnectionLimits(), loop, throttling)
    server = Server(connections, in_the_clear if secured is None else secured(connections))
    bound = BoundListener(Endpoint(listener, "127.0.0.1", 0))
    await server.listen([bound])
    served = Serving(bound.endpoint, connections)
    try:
        yield served
    finally:
        served.disconnect_all()
        await server.stop()
