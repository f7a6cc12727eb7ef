"""Who asks: what is known of the other end of a connection."""

from __future__ import annotations

from typing import Final

from penstock.protocol.value import Value


class Principal(Value):
    """Who asks, in Kafka's two words: a type, of which `User` is the only one so far, and a name.

    `by_token` says that a delegation token stood for it, which must not bring other tokens.
    """

    kind: str
    name: str
    by_token: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Who has not said who it is. On a listener without authentication that is everybody."""


class Session(Value):
    """The other end of a connection: where it is, by which listener it came, and who it is, said by which mechanism.

    The client's id stands in the header of each request (`RequestContext`).
    """

    client_host: str
    port: int
    listener: str
    connection_id: int
    principal: Principal = ANONYMOUS
    security_protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    """That of SASL, where there is one."""

    def __str__(self) -> str:
        return f"{self.client_host}:{self.port} (connection {self.connection_id}, listener {self.listener})"
