"""Both ends of a TLS connection, in memory and in the test's hands."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from tests.certificates import Authority, Holder

from penstock.tls.contexts import asking_context, serving_context
from penstock.tls.keys import Keys
from penstock.tls.layer import RECEIVED_BYTES, TlsBuffers, TlsLayer


class Wire(asyncio.Transport):
    """One end of a connection in memory: what is written waits in `sent`."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_closed = self.is_aborted = self.is_paused = False
        self.high = -1

    def write(self, data: Any) -> None:
        assert not self.is_closed
        self.sent += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        assert not self.is_paused
        assert not self.is_closed
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        assert not self.is_closed
        self.is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = -1 if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self.sent)


class Inner(asyncio.BufferedProtocol):
    """Takes `room` bytes at a time, and stops reading after `most` bytes."""

    def __init__(self, room: int = 256 * 1024, most: int = 1 << 40) -> None:
        self.received = bytearray()
        self.calls: list[str] = []
        self.most = most
        self._buffer = bytearray(room)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        if len(self.received) >= self.most:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class End:
    """A protocol, its layer and its wire; and what the layer's watcher heard."""

    def __init__(self, context: Any, buffers: TlsBuffers, inner: Inner, **how: Any) -> None:
        self.inner, self.wire = inner, Wire()
        self.is_secured, self.is_lost, self.fault = False, False, ""
        self.layer = TlsLayer(inner, partial(context.wrap_bio, **how), buffers, self)

    def secured(self, layer: TlsLayer) -> None:
        self.is_secured = True

    def lost(self, layer: TlsLayer) -> None:
        assert not self.is_lost
        self.is_lost = True

    def broken(self, layer: TlsLayer, fault: str) -> None:
        assert not self.fault
        self.fault = fault

    def take(self, data: bytes, at_once: int = RECEIVED_BYTES) -> bytes:
        """What the transport would give it; returns what it did not want to have yet."""
        while data and not self.wire.is_paused and not self.wire.is_closed:
            room = self.layer.get_buffer(-1)
            part = data[: min(at_once, len(room))]
            room[: len(part)] = part
            self.layer.buffer_updated(len(part))
            data = data[len(part) :]
        return data


class Ends:
    """A client and a server that share their buffers, as two connections of one node would."""

    def __init__(self, serving: Any, asking: Any, buffers: TlsBuffers) -> None:
        """With their contexts."""
        self.buffers = buffers
        self.server = End(serving, buffers, Inner(), server_side=True)
        self.client = End(asking, buffers, Inner(), server_hostname="localhost")
        self.at_once = RECEIVED_BYTES
        self.server.layer.connection_made(self.server.wire)
        self.client.layer.connection_made(self.client.wire)

    def exchange(self) -> None:
        """Until neither has anything to say, or wants to hear it."""
        while self._carried(self.client, self.server) | self._carried(self.server, self.client):
            pass

    def _carried(self, source: End, target: End) -> bool:
        data = bytes(source.wire.sent)
        source.wire.sent[:] = target.take(data, self.at_once)
        return len(source.wire.sent) < len(data)


class Pair(Ends):
    """With OpenSSL's contexts, of keys."""

    def __init__(
        self,
        authority: Authority,
        server: Holder,
        client: Holder | None = None,
        buffers: TlsBuffers | None = None,
        **settings: str,
    ) -> None:
        serving = authority.keys_of(server) | {key.replace("_", "."): value for key, value in settings.items()}
        self.serving = Keys(lambda: serving, serving_context)
        asking = Keys(lambda: authority.keys_of(client), asking_context)
        super().__init__(self.serving.context, asking.context, buffers or TlsBuffers(lambda: 0.0))
