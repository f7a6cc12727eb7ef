"""Which values of a connector's configuration are secret: those that the definitions of its plugins call a password,
all below the prefixes, or with the pattern, that its class calls secret, and addresses that have a password or token.

They are shown as `HIDDEN`; who writes that back leaves what is stored as it is.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.work.connect.built_in import CONNECTORS
from penstock.work.connect.chain import PREDICATES, TRANSFORMS
from penstock.work.connect.config import PASSWORD, ConfigKey
from penstock.work.connect.converters import CONVERTERS
from penstock.work.connect.headers import HEADER_CONVERTERS
from penstock.work.connect.plugins import PluginError, find_class
from penstock.work.connect.rest.errors import bad_request
from penstock.work.connect.runtime.kinds import KEYS, SINK_KEYS

HIDDEN: Final = "[hidden]"
_CONVERTERS: Final = {
    "key.converter": ("converter", CONVERTERS),
    "value.converter": ("converter", CONVERTERS),
    "header.converter": ("header_converter", HEADER_CONVERTERS),
}
_NAMED: Final = {"transforms": ("transform", TRANSFORMS), "predicates": ("predicate", PREDICATES)}
_OF_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
_WORDS: Final = ("password", "passphrase", "secret", "sasl.jaas.config", "keystore.key", "certificate")
_IN_ADDRESSES: Final = re.compile(r"://[^/?#@:]*:[^/?#@]+@|[?&;/]([^?&;/=]{1,100})=[^&;]")
_IN_NAMES: Final = re.compile(r"(?i)token|passw|passphrase|secret|api[._-]?key|access[._-]?key|credential")
"""`https://user:password@host`, `sc://host:15002/;token=…`, `https://host/in?api_key=…`."""
_COMMON: Final = {key.name for key in (*KEYS, *SINK_KEYS)}
Config = Mapping[str, str | None]


def secret_keys(config: Config) -> set[str]:
    """Of a plugin that cannot be loaded here nothing is told but what all connectors have."""
    return {key for key in _all(config) if key in config}


def without_secrets(config: Config, also: Config | None = None) -> dict[str, str | None]:
    """`also` is the configuration of the connector, if `config` is that of a task."""
    secrets = secret_keys({**(also or {}), **config})
    return {key: HIDDEN if key in secrets and value is not None else value for key, value in config.items()}


def with_secrets(config: Config, stored: Config) -> dict[str, str | None]:
    """RestError if nothing is stored that is hidden."""
    secrets = secret_keys(config) | secret_keys(stored)
    whole = dict(config)
    for key, value in config.items():
        if value == HIDDEN and key in secrets:
            if stored.get(key) is None:
                raise bad_request(f"{key} is {HIDDEN}, and no value of it is stored: give the value")
            whole[key] = stored[key]
    return whole


def _all(config: Config) -> Iterator[str]:
    try:
        plugin = find_class(config.get("connector.class") or "", CONNECTORS, "connector")
        yield from _passwords(getattr(plugin, "config_keys", ()), "")
        prefixes = tuple(getattr(plugin, "secret_prefixes", ()))
        yield from (key for key in config if key.startswith(prefixes))
        if pattern := getattr(plugin, "secret_pattern", ""):
            yield from (key for key in config if re.search(pattern, key))
        for role, (kind, built_in) in _CONVERTERS.items():
            yield from _of_plugin(config.get(role), built_in, kind, f"{role}.")
        for role, (kind, built_in) in _NAMED.items():
            for name in (config.get(role) or "").split(","):
                prefix = f"{role}.{name.strip()}."
                yield from _of_plugin(config.get(f"{prefix}type"), built_in, kind, prefix)
    except PluginError:
        yield from (key for key in config if key not in _COMMON)
    yield from (key for key, value in config.items() if value and _is_secret_address(value))
    yield from (key for key in config if key.startswith(_OF_CLIENTS) and any(word in key for word in _WORDS))


def _is_secret_address(value: str) -> bool:
    """A text of several words is none, though it may have one in it."""
    if "://" not in value or len(value.split(maxsplit=1)) != 1:
        return False
    return any(found[1] is None or _IN_NAMES.search(found[1]) for found in _IN_ADDRESSES.finditer(value))


def _of_plugin(name: str | None, built_in: Mapping[str, type[Any]], kind: str, prefix: str) -> Iterator[str]:
    if name is not None:
        yield from _passwords(getattr(find_class(name, built_in, kind), "keys", ()), prefix)


def _passwords(keys: tuple[ConfigKey, ...], prefix: str) -> Iterator[str]:
    return (f"{prefix}{key.name}" for key in keys if key.type == PASSWORD)
