"""A broker of a few lines, on a real socket: it answers each request with what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.protocol.address import Address
from penstock.protocol.codec import decode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.requests.api import KEYS, AnyApiKey, ApiKey, api_of
from penstock.protocol.requests.framing import RequestHeader, encode_response, parse_request_header
from penstock.protocol.schema import Message

Reply = Message | bytes | None
"""A response; bytes to send as they are, after which the connection is closed; or None: no answer at all."""

Answering = Callable[[RequestHeader, Message], Reply]


class FakeBroker:
    """Serves every API in the versions that this project knows, `api_versions` aside, which the test may narrow."""

    def __init__(self, answering: Answering, api_versions: dict[AnyApiKey, tuple[int, int]] | None = None) -> None:
        self.answering = answering
        self.requests: list[tuple[RequestHeader, Message]] = []
        self.api_versions: dict[AnyApiKey, tuple[int, int]] = {
            key: (api_of(key).versions[0], api_of(key).versions[-1]) for key in KEYS
        }
        self.api_versions.update(api_versions or {})
        self.address = Address("127.0.0.1", 0)
        self.node: tuple[str | None, int] | None = None
        """Its cluster and id; None where it does not look at who is looked for."""

    def versions_table(self) -> list[ApiVersion]:
        return [
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in self.api_versions.items()
        ]

    def reply(self, header: RequestHeader, request: Message) -> Reply:
        if header.api_key == ApiKey.API_VERSIONS and header.api_version <= self.api_versions[ApiKey.API_VERSIONS][1]:
            assert isinstance(request, ApiVersionsRequest)
            if None not in (request.cluster_id, self.node) and (request.cluster_id, request.node_id) != self.node:
                return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            return ApiVersionsResponse(api_keys=self.versions_table())
        return self.answering(header, request)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(length)
                header, position = parse_request_header(frame)
                request, _ = decode(api_of(header.api_key).request_class, header.api_version, frame, position)
                self.requests.append((header, request))
                reply = self.reply(header, request)
                if isinstance(reply, bytes):
                    writer.write(reply)
                    await writer.drain()
                    return
                if reply is not None:
                    version = 0 if getattr(reply, "error_code", 0) == 35 else header.api_version
                    writer.write(encode_response(reply, header.api_key, version, header.correlation_id))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fake_broker(
    answering: Answering, api_versions: dict[AnyApiKey, tuple[int, int]] | None = None
) -> AsyncIterator[FakeBroker]:
    """A fake broker on a port of its own."""
    broker = FakeBroker(answering, api_versions)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield broker
    finally:
        server.close()
