"""Keys of a single listener: `listener.name.<listener>.<key>`, with a SASL mechanism before the key where it has one.

The listener's name is in small letters, as in Kafka, and the key is one that Kafka lets a listener have of its own.
"""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from penstock.metadata.configs.broker_network import NETWORK_CONFIGS
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigDefinition, Definitions, nearest_key, parse_value
from penstock.protocol.value import Value

PREFIX: Final = "listener.name."
_NEARLY_PREFIX: Final = re.compile(r"listeners?\.names?\.", re.IGNORECASE)
MECHANISMS: Final = ("gssapi", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
_OF_MECHANISMS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
    "sasl.oauthbearer.",
)
_LIMITS: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
OBEYED: Final = ("ssl.", "sasl.", "connections.max.reauth.ms", "max.connection")
"""What begins so holds for a single listener; other keys are known."""
_BEGIN: Final = ("ssl.", "sasl.", "security.providers", "principal.builder.class", "connections.max.reauth.ms")
_KEYS: Final[Definitions] = {
    **{name: NETWORK_CONFIGS[name] for name in _LIMITS},
    **{name: definition for name, definition in SECURITY_CONFIGS.items() if name.startswith(_BEGIN)},
}
_KEYS_OF_MECHANISMS: Final[Definitions] = {
    name: definition for name, definition in _KEYS.items() if name.startswith(_OF_MECHANISMS)
}


class ListenerKey(Value):
    """`before` is the text in front of `key`, with `listener` as it was written."""

    before: str
    listener: str
    key: str
    known: Definitions

    @property
    def definition(self) -> ConfigDefinition | None:
        return self.known.get(self.key)

    @property
    def nearest(self) -> str | None:
        """It has the prefix of this key."""
        nearest = nearest_key(self.key, self.known)
        return None if nearest is None else self.before + nearest


def parse_listener_key(name: str, listeners: Collection[str] = ()) -> ListenerKey | None:
    """None for other keys. A listener's own name may have dots: it is looked for among `listeners` first."""
    if not name.startswith(PREFIX):
        return None
    rest = name.removeprefix(PREFIX)
    ours = [one for one in listeners if rest.startswith(f"{one.lower()}.")]
    listener = max(ours, key=len).lower() if ours else rest.partition(".")[0]
    key = rest[len(listener) + 1 :]
    mechanism, _, after = key.partition(".")
    if mechanism in MECHANISMS:
        return ListenerKey(name.removesuffix(after), listener, after, _KEYS_OF_MECHANISMS)
    return ListenerKey(name.removesuffix(key), listener, key, _KEYS)


def listener_key_warning(name: str, listeners: Collection[str]) -> str | None:
    """One line on a fault of a key's name on a node with these listeners; None for no fault, or for other keys."""
    parsed = parse_listener_key(name, listeners)
    if parsed is None:
        nearly = _NEARLY_PREFIX.match(name)
        return nearly and f"unknown key {name}; did you mean {PREFIX}{name[nearly.end() :]}?"
    if parsed.definition is None:
        return f"unknown key {name}" + (f"; did you mean {parsed.nearest}?" if parsed.nearest else "; it has no effect")
    ours = [one.lower() for one in listeners]
    if parsed.listener not in ours:
        near = get_close_matches(parsed.listener.lower(), ours)
        behind = name.removeprefix(f"{PREFIX}{parsed.listener}")
        hint = f"; did you mean {PREFIX}{near[0]}{behind}?" if near else ""
        return f"{name} is about no listener of this node: it has {', '.join(listeners)}{hint}"
    return None


def parse_listener_value(name: str, text: str, listeners: Collection[str]) -> None:
    """ConfigError for a value that a key of one of these listeners does not allow."""
    parsed = parse_listener_key(name, listeners)
    if parsed is not None and parsed.definition is not None and parsed.listener.upper() in listeners:
        parse_value(parsed.definition.replace(name=name), text)
