"""The opening of a client's connection over TLS."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

from penstock.tls.layer import TlsBuffers, TlsLayer


class Opening:
    """`layer` stands between the protocol and its transport; `fail` is called with why the connection ended, one line.

    `done` is done when the protocol may write, or when it never will.
    """

    def __init__(
        self, protocol: asyncio.BufferedProtocol, context: ssl.SSLContext, host: str, fail: Callable[[str], object]
    ) -> None:
        engine = partial(context.wrap_bio, server_hostname=host)
        self.layer = TlsLayer(protocol, engine, TlsBuffers(), self)
        self.done = asyncio.Event()
        self._fail = fail

    def secured(self, layer: TlsLayer) -> None:
        self.done.set()

    def broken(self, layer: TlsLayer, fault: str) -> None:
        self._fail(fault)
        self.done.set()
