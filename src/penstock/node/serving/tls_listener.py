"""A listener of clients that speak TLS: who they are, why some of them are refused, and when their certificates end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from penstock.node.serving.session import ANONYMOUS, Principal
from penstock.tls.certificates import subject_of
from penstock.tls.layer import TlsBuffers, TlsLayer
from penstock.tls.shown import ShownCertificates

if TYPE_CHECKING:
    from penstock.node.serving.connection import Connection
    from penstock.node.serving.connections import Connections
    from penstock.tls.principal_rules import PrincipalRules


class TlsListener:
    def __init__(
        self,
        connections: Connections,
        protocol: str,
        shown: ShownCertificates,
        rules: PrincipalRules,
        buffers: TlsBuffers,
        make: Callable[[], Connection],
    ) -> None:
        """`protocol` is SSL, or SASL_SSL, where a certificate names nobody; `make` gives what speaks over it."""
        self._connections = connections
        self._protocol = protocol
        self._rules = rules
        self._make = make
        self._buffers = buffers
        self._shown = shown

    def accept(self) -> TlsLayer:
        engine = partial(self._shown.keys.context.wrap_bio, server_side=True)
        return TlsLayer(self._make(), engine, self._buffers, self)

    def secured(self, layer: TlsLayer) -> None:
        connection = self._of(layer)
        assert connection.session is not None
        certificate = layer.peer_certificate
        try:
            if certificate is not None:
                self._shown.add(layer, certificate, self._end)  # TLS 1.2 resumes a session without looking at it again
            principal = self._named(certificate)
        except ValueError as error:
            self._end(layer, str(error))
            return
        connection.session = connection.session.replace(principal=principal, security_protocol=self._protocol)

    def _named(self, certificate: bytes | None) -> Principal:
        if certificate is None or self._protocol != "SSL":
            return ANONYMOUS
        return Principal("User", self._rules.name_of(subject_of(certificate)))

    def look(self) -> None:
        """End the connections of clients whose certificates have expired, or are revoked."""
        self._shown.look()

    def _end(self, layer: TlsLayer, fault: str) -> None:
        self.broken(layer, fault)
        self._of(layer).abort()

    def lost(self, layer: TlsLayer) -> None:
        self._shown.lost(layer)

    def broken(self, layer: TlsLayer, fault: str) -> None:
        session = self._of(layer).session
        if session is not None:
            self._connections.refusals.tell(("tls", session.client_host, fault), session, fault)

    def _of(self, layer: TlsLayer) -> Connection:
        return cast("Connection", layer.protocol)
