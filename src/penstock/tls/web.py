"""TLS for servers of the web: a handshake is a connection to them, so they count it and end it as any other."""

import asyncio
import ssl
from functools import partial
from typing import Final

from penstock.tls.layer import TlsBuffers, TlsLayer

ROOM_BYTES: Final = 16 * 1024
"""What a record of TLS holds at most."""


def over_tls(inner: asyncio.Protocol, context: ssl.SSLContext, buffers: TlsBuffers) -> TlsLayer:
    """Asyncio's own transports over TLS tell a protocol of a connection only after the handshake."""
    return TlsLayer(_Unbuffered(inner), partial(context.wrap_bio, server_side=True), buffers, _Nobody())


class _Unbuffered(asyncio.BufferedProtocol):
    """Gives a protocol that wants bytes what a layer writes into a buffer."""

    def __init__(self, inner: asyncio.Protocol) -> None:
        self._inner = inner
        self._room = bytearray(ROOM_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._room)

    def buffer_updated(self, nbytes: int) -> None:
        self._inner.data_received(bytes(self._room[:nbytes]))

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)


class _Nobody:
    """Wants to hear nothing of layers."""

    def secured(self, layer: TlsLayer) -> None: ...

    def lost(self, layer: TlsLayer) -> None: ...

    def broken(self, layer: TlsLayer, fault: str) -> None: ...
