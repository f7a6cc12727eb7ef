"""Which values of a connector's configuration are secret: those that the definitions of its plugins call a password,
all below the prefixes, or with the pattern, that its class calls secret, and addresses that have a password or token.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from penstock.client.providers import Resolved
from penstock.work.connect.config import PASSWORD, ConfigKey
from penstock.work.connect.plugins import PluginError, find_class
from penstock.work.connect.runtime.kinds import BUILT_IN, KEYS, SINK_KEYS

HIDDEN: Final = "[hidden]"
_CONVERTERS: Final = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}
_NAMED: Final = {"transforms": "transform", "predicates": "predicate"}
_OF_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
_WORDS: Final = ("password", "passphrase", "secret", "sasl.jaas.config", "keystore.key", "certificate")
_LOG_IN: Final = re.compile(r"://[^/?#@:]*:([^/?#@]+)@")
_IN_ADDRESSES: Final = re.compile(rf"{_LOG_IN.pattern}|[?&;/]([^?&;/=]{{1,100}})=[^&;]")
_IN_NAMES: Final = re.compile(r"(?i)token|passw|passphrase|secret|api[._-]?key|access[._-]?key|credential")
"""`https://user:password@host`, `sc://host:15002/;token=…`, `https://host/in?api_key=…`."""
_IN_QUOTES: Final = re.compile(r"""([\w.-]{1,100})\s*=\s*(["'])((?:\\.|(?!\2)[^\\])*)\2""")
"""`required username="a" password="b";`."""
_COMMON: Final = {key.name for key in (*KEYS, *SINK_KEYS)}
Config = Mapping[str, str | None]


SHORT: Final = 4
"""A shorter secret is left out only where it stands alone: a number would go out of the middle of others."""
Words = Callable[[str], str]


def secret_keys(config: Config, *, is_loaded: bool = True) -> set[str]:
    """Of a plugin that cannot be loaded here, or is not yet, nothing is told but what all connectors have."""
    try:
        found = set(_of_plugins(config)) if is_loaded else None
    except PluginError:
        found = None
    if found is None:
        found = {key for key in config if key not in _COMMON}
    return {key for key in (*found, *_of_all(config)) if key in config}


def discretion(resolved: Resolved) -> Words:
    """What gives words without the secrets of a configuration: they are hidden, or are the references that stand for
    them. It may load classes.
    """
    instead: dict[str, str] = {}
    for key in _known_secrets(resolved.config):
        instead |= dict.fromkeys(_parts(resolved.config.get(key, "")), HIDDEN)
    for text in resolved.looked_up.values():
        instead |= dict.fromkeys(_parts(text), HIDDEN)
    for reference, text in resolved.looked_up.items():
        instead |= dict.fromkeys((text, text.strip()), reference)
    secrets = sorted(filter(None, instead), key=len, reverse=True)
    if not secrets:
        return str
    any_of = re.compile("|".join(map(_pattern, secrets)))
    return lambda text: any_of.sub(lambda found: instead[found[0]], text)


def _known_secrets(config: Config) -> Iterator[str]:
    """The same keys, without those of plugins that cannot be loaded: they do not run, and tell nothing."""
    try:
        yield from _of_plugins(config)
    except PluginError:
        pass
    yield from _of_all(config)


def _parts(secret: str) -> Iterator[str]:
    """A secret, and what of an address, or of a line of words such as JAAS, is one."""
    yield from (secret, secret.strip())
    for match in _IN_QUOTES.finditer(secret):
        if _IN_NAMES.search(match[1]):
            yield from (match[3], re.sub(r"\\(.)", r"\1", match[3]))
    if not _is_secret_address(secret):
        return
    found = [match[1] for match in _LOG_IN.finditer(secret)]
    for part in re.split("[?&;]", secret):
        name, _, value = part.partition("=")
        if _IN_NAMES.search(name.rpartition("/")[2]):
            found.append(value)
    yield from (form for part in found for form in (part, unquote(part)))


def _pattern(secret: str) -> str:
    return re.escape(secret) if len(secret) >= SHORT else rf"(?<!\w){re.escape(secret)}(?!\w)"


def plugins_of(config: Config) -> Iterator[tuple[str, str, str]]:
    """The connector, then what else it names: the prefix of its keys, the kind and the name of its class."""
    yield "", "connector", config.get("connector.class") or ""
    for role, kind in _CONVERTERS.items():
        if (name := config.get(role)) is not None:
            yield f"{role}.", kind, name
    for role, kind in _NAMED.items():
        for one in (config.get(role) or "").split(","):
            prefix = f"{role}.{one.strip()}."
            if (name := config.get(f"{prefix}type")) is not None:
                yield prefix, kind, name


def _of_plugins(config: Config) -> Iterator[str]:
    """PluginError, behind what is known."""
    for prefix, kind, name in plugins_of(config):
        plugin = find_class(name, BUILT_IN[kind], kind)
        yield from _passwords(getattr(plugin, "keys" if prefix else "config_keys", ()), prefix)
        if not prefix:
            prefixes = tuple(getattr(plugin, "secret_prefixes", ()))
            yield from (key for key in config if key.startswith(prefixes))
            if pattern := getattr(plugin, "secret_pattern", ""):
                yield from (key for key in config if re.search(pattern, key))


def _of_all(config: Config) -> Iterator[str]:
    yield from (key for key, value in config.items() if value and _is_secret_address(value))
    yield from (key for key in config if key.startswith(_OF_CLIENTS) and any(word in key for word in _WORDS))


def _is_secret_address(value: str) -> bool:
    """A text of several words is none, though it may have one in it."""
    if "://" not in value or len(value.split(maxsplit=1)) != 1:
        return False
    return any(found[1] or _IN_NAMES.search(found[2]) for found in _IN_ADDRESSES.finditer(value))


def _passwords(keys: tuple[ConfigKey, ...], prefix: str) -> Iterator[str]:
    return (f"{prefix}{key.name}" for key in keys if key.type == PASSWORD)
