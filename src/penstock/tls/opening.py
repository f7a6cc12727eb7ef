"""The opening of a client's connection over TLS."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

from penstock.tls.faults import WRONG_NAME
from penstock.tls.layer import TlsBuffers, TlsLayer
from penstock.tls.shown_names import names_shown


class Opening:
    """Its layer stands between the protocol and its transport; `fail` is told why the connection ended, in one line.

    `done` is done when the protocol may write, or when it never will.
    """

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        host: str,
        fail: Callable[[str], object],
        buffers: TlsBuffers | None = None,
    ) -> None:
        engine = partial(context.wrap_bio, server_hostname=host)
        self._layer = TlsLayer(protocol, engine, buffers or TlsBuffers(), self)
        self.done = asyncio.Event()
        self.fault = ""
        self._fail = fail

    def hand_out_layer(self) -> TlsLayer:
        """Once: it has what opens it, which does not have it then, though there may never be a connection."""
        layer = self._layer
        del self._layer
        return layer

    def secured(self, layer: TlsLayer) -> None:
        self.done.set()

    def broken(self, layer: TlsLayer, fault: str) -> None:
        self.fault = self.fault or fault
        self._fail(fault)
        self.done.set()

    def lost(self, layer: TlsLayer) -> None:
        """The protocol tells why."""

    async def names_instead(self, host: str, port: int) -> str:
        """Words about whom the certificate there is for, if it is for others; else none."""
        if not self.fault.startswith(WRONG_NAME):
            return ""
        return await asyncio.get_running_loop().run_in_executor(None, names_shown, host, port)
