"""Which names the certificate of a listener has, for who looked for another one there."""

import contextlib
import socket
import ssl
from typing import Final

from penstock.tls.certificates import names_in

LOOK_S: Final = 2.0
"""How long that may take."""


def names_shown(host: str, port: int) -> str:
    """As words to be put behind an error."""
    certificate = certificate_at(host, port)
    return "" if certificate is None else f"; it names {', '.join(names_in(certificate)) or 'nobody'}"


def certificate_at(host: str, port: int) -> bytes | None:
    """As DER; None where nobody shows one. Nothing is sent there, and nothing is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        contextlib.suppress(OSError, ValueError),
        socket.create_connection((host, port), LOOK_S) as plain,
        context.wrap_socket(plain) as secured,
    ):
        return secured.getpeercert(binary_form=True)
    return None
