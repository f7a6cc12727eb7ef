"""Which key of SASL counts for a listener and a mechanism.

`listener.name.<listener>.<mechanism>.<key>` goes before `listener.name.<listener>.<key>`, and that before `<key>`.
"""

from collections.abc import Callable, Iterator

from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigValue, parse_value
from penstock.metadata.configs.listener_keys import PREFIX

Text = Callable[[str], str | None]
"""The text of a key that is set in the file; None for none."""


def key_name(key: str, listener: str, mechanism: str, text: Text) -> str:
    """Under which the key is set, or would be."""
    return next((name for name in _names(key, listener, mechanism) if text(name) is not None), key)


def value_of(key: str, listener: str, mechanism: str, text: Text) -> ConfigValue:
    """Raises ConfigError."""
    definition = SECURITY_CONFIGS[key]
    name = key_name(key, listener, mechanism, text)
    found = text(name)
    return parse_value(definition.replace(name=name), definition.default if found is None else found)


def _names(key: str, listener: str, mechanism: str) -> Iterator[str]:
    if listener and mechanism:
        yield f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{key}"
    if listener:
        yield f"{PREFIX}{listener.lower()}.{key}"
    yield key
