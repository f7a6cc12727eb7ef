"""The other end of a connection: where it is, and who it is to the authorisation that is to come."""

from __future__ import annotations

from typing import Final

from penstock.protocol.value import Value


class Principal(Value):
    """Who asks, in Kafka's two words: a type, of which `User` is the only one so far, and a name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Who has not said who it is. On a listener without authentication that is everybody."""


class Peer(Value):
    """The other end of a connection, as handlers see it."""

    client_host: str
    port: int
    listener: str
    connection_id: int
    principal: Principal = ANONYMOUS

    def __str__(self) -> str:
        return f"{self.client_host}:{self.port} (connection {self.connection_id}, listener {self.listener})"
