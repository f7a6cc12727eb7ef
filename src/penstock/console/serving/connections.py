"""Connections of browsers: one too many is closed, and a reader that takes nothing for too long is left."""

import asyncio


class Connection(asyncio.Protocol):
    """Passes all on to `inner`. What is written waits in memory while the reader is slow; for `patience_s` at most."""

    def __init__(self, inner: asyncio.Protocol, patience_s: float) -> None:
        self._inner = inner
        self._patience_s = patience_s
        self._transport: asyncio.WriteTransport | None = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        assert self._transport is not None
        self._end = asyncio.get_running_loop().call_later(self._patience_s, self._transport.abort)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._wait_no_more()
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        self._inner.connection_lost(exc)

    def _wait_no_more(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


class OneTooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.abort()
