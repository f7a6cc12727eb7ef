"""Tells systemd how a node is, as its services of `Type=notify` do: one datagram to the socket that it named."""

import socket
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def tell(address: str, *states: str) -> None:
    """`address` is that of `NOTIFY_SOCKET`; `@` begins one that is no file. Nobody there is no reason to end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, suppress(OSError):
        told.setblocking(False)
        told.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        told.send("\n".join(states).encode())
