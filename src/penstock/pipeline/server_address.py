"""The address of a server of Spark Connect: sc://host:port, and behind it /;KEY=VALUE;… as Spark takes it.

What is behind it may be a secret, so no error has it, and what is written down has only what is known to be none.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from penstock.protocol.value import Value

SERVER: Final = "sc://"
PORT: Final = 15002
"""Spark's own, where none is said."""
OPEN: Final = ("use_ssl", "user_id")
"""No secrets: without them a session is not found again."""
USER, SESSION = "user_id", "session_id"
FORM: Final = re.compile(r"(?P<place>sc://[^\s/;?#@]+)(?:/(?:;(?P<said>[^\s/?#]*))?)?")
PART: Final = re.compile(r"[^=]+=[^=]*")


class ServerAddress(Value):
    """`place` is sc://host:port, `said` what is behind it: pairs of KEY and VALUE, as they are written."""

    place: str
    said: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.place if not self.said else f"{self.place}/;{';'.join('='.join(pair) for pair in self.said)}"

    @property
    def public(self) -> "ServerAddress":
        return self.replace(said=tuple(pair for pair in self.said if pair[0] in OPEN))

    def saying(self, key: str, value: str | None) -> "ServerAddress":
        """That instead of what is there; None: nothing."""
        others = tuple(pair for pair in self.said if pair[0] != key)
        return self.replace(said=others if value is None else (*others, (key, value)))

    @property
    def user(self) -> str | None:
        return dict(self.said).get(USER)


def server_address(address: str) -> ServerAddress:
    """ValueError."""
    found = FORM.fullmatch(address.strip())
    parts = [part for part in (found["said"] or "").split(";") if part] if found else []
    try:
        place = urlsplit(found["place"]) if found else None
        host, port = (place.hostname, place.port) if place else (None, None)
    except ValueError:
        host, port = None, None
    if not host or port == 0 or (place is not None and place.netloc.endswith(":")):
        raise ValueError(f"what is given is no address of a server of Spark Connect: say {SERVER}host:port")
    if not all(map(PART.fullmatch, parts)):
        raise ValueError(
            f"what is behind {SERVER}{host} is not as Spark takes it: say /;KEY=VALUE;…, with %3D for an = in a value "
            "and %2F for a /"
        )
    name = f"[{host}]" if ":" in host else host
    said = tuple((key, value) for key, _, value in (part.partition("=") for part in parts))
    return ServerAddress(f"{SERVER}{name}:{port or PORT}", said)
