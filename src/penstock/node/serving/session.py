"""Who asks: what is known of the other end of a connection."""

import re
from typing import Final

from penstock.protocol.value import Value


class Principal(Value):
    """A client's identity, in Kafka's two words: a type, of which `User` is the only one so far, and a name.

    `by_token` says that a delegation token stood for it, which must not bring other tokens.
    """

    kind: str
    name: str
    by_token: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""A client that has not authenticated. On a listener without authentication that is every client."""

NODE: Final = Principal("Node", "broker")
"""A node that asks for itself in an envelope; no client has a principal of this type."""

NODES_CLIENT_ID: Final = re.compile(r"penstock-\d+")
"""As nodes name themselves to each other (`assembly/links.py`)."""


class Session(Value):
    """The other end of a connection: its address, its listener, its principal and the mechanism that proved it.

    The client's id stands in the header of each request (`RequestContext`).
    """

    client_host: str
    port: int
    listener: str
    connection_id: int
    principal: Principal = ANONYMOUS
    security_protocol: str = "PLAINTEXT"
    mechanism: str | None = None

    @property
    def asker(self) -> str:
        """Who has proved by more than a delegation token who that is; empty for all others."""
        principal = self.principal
        is_proved = principal.kind == "User" and principal != ANONYMOUS and not principal.by_token
        return str(principal) if is_proved else ""

    @property
    def has_to_log_in(self) -> bool:
        """Whether nobody knows yet who that is, and the listener asks."""
        return self.mechanism is None and self.security_protocol.startswith("SASL_")

    def __str__(self) -> str:
        return f"{self.client_host}:{self.port} (connection {self.connection_id}, listener {self.listener})"
