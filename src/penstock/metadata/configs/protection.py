"""Keys of a node that ask it to protect what it has, and which of that it does not do yet.

A node that ignored them would serve everybody where its administrator wants few to be served. So it does not start
unless `penstock.security.ignored` says so. Each key of security is in one of the two tables, by test: it asks for
protection with some values, or it says how a protection works that another key asks for.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from penstock.metadata.configs.listener_keys import parse_listener_key

IGNORED_KEY: Final = "penstock.security.ignored"
PLAINTEXT: Final = "PLAINTEXT"


def _is_set(value: str) -> bool:
    return bool(value)


ASKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "authorizer.class.name": _is_set,
    "super.users": _is_set,
    "ssl.client.auth": lambda value: value == "required",
    "security.inter.broker.protocol": lambda value: value != PLAINTEXT,
}
"""With which values a key asks for protection; listeners of other protocols than PLAINTEXT do as well."""

SAYS_HOW: Final[Mapping[str, tuple[str, ...]]] = {
    "a listener with TLS": ("ssl.", "security.providers"),
    "a listener with SASL": ("sasl.", "connections.max.reauth.ms", "delegation.token."),
    "an authorizer": ("allow.everyone.if.no.acl.found", "principal.builder.class"),
    "any of all this": (IGNORED_KEY,),
}
"""What a key is about that asks for nothing by itself; a name that ends with a dot stands for all that begin so."""


def asked_by_keys(settings: Mapping[str, str]) -> Iterator[str]:
    """The keys of a file, or of the metadata, that ask for protection; as `key=value`."""
    for name, text in settings.items():
        parsed = parse_listener_key(name)
        asks = ASKS.get(name if parsed is None else parsed.key)
        if asks is not None and asks(text.strip()):
            yield f"{name}={text.strip()}"
