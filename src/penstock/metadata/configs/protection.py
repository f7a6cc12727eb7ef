"""Keys of a node that ask it to protect what it has, and which of that it does not do yet.

A node that ignored them would serve all clients where its administrator wants to serve few. So it does not start
unless `penstock.security.ignored` says so. All other keys of security say how a protection works that one of these, or
a listener of another protocol than PLAINTEXT, asks for; a test names them, so that a new key has to be thought of.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from penstock.metadata.configs.listener_keys import PREFIX

IGNORED_KEY: Final = "penstock.security.ignored"
PLAINTEXT: Final = "PLAINTEXT"
OF_LISTENERS: Final = "ssl.client.auth"
"""The key that a single listener may have, whatever its name is."""


def _is_set(value: str) -> bool:
    return bool(value)


ASKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "authorizer.class.name": _is_set,
    "super.users": _is_set,
    "ssl.client.auth": lambda value: value == "required",
    "security.inter.broker.protocol": lambda value: value != PLAINTEXT,
}
"""With which values a key asks for protection."""


def asked_by_keys(settings: Mapping[str, str]) -> Iterator[str]:
    """`settings` are from a file or from the metadata."""
    for name, text in settings.items():
        if asks(name, text):
            yield f"{name}={text.strip()}"


def asks(name: str, text: str) -> bool:
    """Some keys ask for protection only with some values."""
    is_of_listener = name.startswith(PREFIX) and name.endswith(f".{OF_LISTENERS}")
    rule = ASKS.get(OF_LISTENERS if is_of_listener else name)
    return rule is not None and rule(text.strip())
