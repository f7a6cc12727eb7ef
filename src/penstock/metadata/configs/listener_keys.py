"""Keys of a single listener: `listener.name.<listener>.<key>`, with a SASL mechanism before the key where it has one.

The listener's name is in small letters, as in Kafka, and the key is one that Kafka lets a listener have of its own.
"""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from penstock.metadata.configs.broker_network import NETWORK_CONFIGS
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigDefinition, Definitions, nearest_key
from penstock.protocol.value import Value

PREFIX: Final = "listener.name."
MECHANISMS: Final = ("gssapi", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
_LIMITS: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_OF_ALL_LISTENERS: Final = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")
_KEYS: Final[Definitions] = {
    **{name: NETWORK_CONFIGS[name] for name in _LIMITS},
    **{
        name: definition
        for name, definition in SECURITY_CONFIGS.items()
        if name not in _OF_ALL_LISTENERS and not name.startswith("delegation.")
    },
}


class ListenerKey(Value):
    """One such key. `listener` is in capitals, as in `listeners`; `definition` is that of the key for all listeners."""

    listener: str
    before: str
    key: str

    @property
    def definition(self) -> ConfigDefinition | None:
        """What the key is, if a listener has such a one."""
        return _KEYS.get(self.key)

    @property
    def nearest(self) -> str | None:
        """The key that may have been meant, with all that stands before it."""
        nearest = nearest_key(self.key, _KEYS)
        return None if nearest is None else self.before + nearest


def parse_listener_key(name: str) -> ListenerKey | None:
    """What a key's name says; None for one that is not about a single listener."""
    if not name.startswith(PREFIX):
        return None
    listener, _, key = name.removeprefix(PREFIX).partition(".")
    mechanism, _, rest = key.partition(".")
    if mechanism in MECHANISMS:
        key = rest
    return ListenerKey(listener.upper(), name.removesuffix(key), key)


def listener_key_warning(name: str, listeners: Collection[str]) -> str | None:
    """What is wrong with such a key's name on a node with these listeners, in one line; None if nothing is."""
    parsed = parse_listener_key(name)
    if parsed is None:
        return None
    if parsed.definition is None:
        return f"unknown key {name}" + (f"; did you mean {parsed.nearest}?" if parsed.nearest else "; it has no effect")
    if parsed.listener not in listeners:
        near = get_close_matches(parsed.listener, listeners, n=1)
        hint = f"; did you mean {name.replace(parsed.listener.lower(), near[0].lower(), 1)}?" if near else ""
        return f"{name} is about no listener of this node: it has {', '.join(listeners)}{hint}"
    return None
