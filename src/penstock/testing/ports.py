"""Ports that are ours before a node listens on them: nodes of a quorum must know each other's ports to start."""

import socket
import sys
from typing import Final

LOOPBACK: Final = "127.0.0.1"

MAY_HOLD: Final = sys.platform == "linux"
"""Linux lets a node listen on a port that another socket is bound to without listening, if both say SO_REUSEADDR.
Elsewhere the port has to be given back just before the node takes it."""


class ReservedPort:
    """A free port of the loopback address that the system gives to no other process while this object holds it.

    A bound socket that never listens holds it: connections are refused, and the system chooses other ports for others.
    """

    def __init__(self, port: int = 0) -> None:
        """0 takes any free port. Raises OSError if the port is in use."""
        self._socket: socket.socket | None = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, port))
            self.port: Final[int] = self._socket.getsockname()[1]
        except OSError:
            self.release()
            raise

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{LOOPBACK}:{self.port}"

    def make_way(self) -> None:
        """Releases the port where the bound socket would keep a node from listening on it."""
        if not MAY_HOLD:
            self.release()

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
