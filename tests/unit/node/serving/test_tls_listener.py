"""Whom the certificate of a client names, and one that TLS itself does not look at again."""

from __future__ import annotations

import contextlib
import ssl
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.certificates import Authority, Holder

from penstock.node.serving.connections import Connections
from penstock.node.serving.session import Session
from penstock.node.serving.tls_listener import TlsListener
from penstock.tls.certificates import expires_s
from penstock.tls.contexts import asking_context, serving_context
from penstock.tls.faults import EXPIRED
from penstock.tls.keys import Keys
from penstock.tls.layer import TlsBuffers, TlsLayer
from penstock.tls.principal_rules import parse_rules
from penstock.tls.shown import ShownCertificates


class Seen:
    """A connection and its layer, and what became of them."""

    def __init__(self, certificate: bytes | None) -> None:
        self.session = Session("127.0.0.1", 1, "TLS", 1)
        self.peer_certificate = certificate
        self.protocol = self
        self.is_aborted = False
        self.told: list[str] = []

    def abort(self) -> None:
        self.is_aborted = True

    def tell(self, cause: object, who: object, reason: str) -> None:
        self.told.append(reason)


def secured(certificate: bytes | None, protocol: str, now_ms: int) -> Seen:
    seen = Seen(certificate)
    connections = cast("Connections", SimpleNamespace(refusals=seen))
    listener = TlsListener(
        connections,
        protocol,
        ShownCertificates(cast("Keys", SimpleNamespace(revoked=())), lambda: now_ms),
        parse_rules("DEFAULT"),
        TlsBuffers(),
        cast("Any", None),
    )
    listener.secured(cast("TlsLayer", seen))
    return seen


def come(asking: ssl.SSLContext, serving: ssl.SSLContext, session: ssl.SSLSession | None = None) -> list[ssl.SSLObject]:
    """A client, with a session that it had, and the server."""
    to_client, from_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(4))
    client = asking.wrap_bio(to_client, from_client, server_hostname="localhost", session=session)
    server = serving.wrap_bio(to_server, from_server, server_side=True)
    for _ in range(4):
        for one, sent, taken in ((client, from_client, to_server), (server, from_server, to_client)):
            with contextlib.suppress(ssl.SSLWantReadError):
                one.do_handshake()
            taken.write(sent.read())
    return [client, server]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def ada(authority: Authority) -> Holder:
    return authority.signs("ada")


def test_a_session_of_tls_1_2_that_is_resumed_ends_with_the_certificate(authority: Authority, ada: Holder) -> None:
    serving = authority.keys_of(authority.signs("server")) | {"ssl.client.auth": "required"}
    asking = authority.keys_of(ada) | {"ssl.enabled.protocols": "TLSv1.2"}
    contexts = Keys(lambda: asking, asking_context).context, Keys(lambda: serving, serving_context).context
    first, _ = come(*contexts)
    _, server = come(*contexts, session=first.session)
    certificate = server.getpeercert(binary_form=True)
    assert server.session_reused
    assert certificate is not None, "it is known, and was not looked at"
    for protocol, name in (("SSL", "User:CN=ada"), ("SASL_SSL", "User:ANONYMOUS")):
        before = secured(certificate, protocol, expires_s(certificate) * 1000 - 1)
        assert (before.is_aborted, str(before.session.principal), before.told) == (False, name, [])
        behind = secured(certificate, protocol, expires_s(certificate) * 1000)
        assert (behind.is_aborted, str(behind.session.principal), behind.told) == (True, "User:ANONYMOUS", [EXPIRED])


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_who_shows_no_certificate_is_anonymous(protocol: str) -> None:
    seen = secured(None, protocol, 0)
    assert (seen.is_aborted, str(seen.session.principal)) == (False, "User:ANONYMOUS")
    assert seen.session.security_protocol == protocol
