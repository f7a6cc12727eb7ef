"""TLS over a socket that waits."""

import socket
import ssl

from penstock.protocol.address import Address
from penstock.tls.faults import WRONG_NAME, fault_of
from penstock.tls.shown_names import names_shown


def secured(plain: socket.socket, context: ssl.SSLContext, address: Address) -> ssl.SSLSocket:
    """The socket after the handshake. OSError; ConnectionError says what is wrong with TLS."""
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLError as error:
        fault = fault_of(error)
        names = names_shown(*address) if fault.startswith(WRONG_NAME) else ""
        raise ConnectionError(fault + names) from error
