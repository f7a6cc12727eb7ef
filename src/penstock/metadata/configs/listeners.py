"""Listeners as configuration files write them: `name://host:port` with commas between, and what Kafka asks of them."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.address import Address, listening_address
from penstock.protocol.value import HIDDEN, Value

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WITH_TLS = ("SSL", "SASL_SSL")
WITH_SASL = ("SASL_PLAINTEXT", "SASL_SSL")
FORM = "name://host:port, with commas between several"

METRICS_KEY: Final = "penstock.metrics.listener"
OTLP_KEY: Final = "penstock.otlp.endpoint"
OTLP_HEADERS_KEY: Final = "penstock.otlp.headers"
OUR_HEADERS: Final = ("host", "content-type", "content-encoding", "content-length", "transfer-encoding", "connection")
"""Which a request has anyway."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
METRICS_LISTENER: Final = "METRICS"
"""Its name among the listeners that a node binds; clients never hear it."""
LOOPBACK: Final = "127.0.0.1"
PARTITIONS_LEVEL: Final = "partitions"
"""The value of `penstock.metrics.level` for rows of each partition."""


class Listener(Value):
    """An empty host is every interface; port 0 is any free port; the protocol is named by the map."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


def parse_protocol_map(key: str, pairs: tuple[str, ...]) -> dict[str, str]:
    """A pair is `name:protocol`."""
    protocols: dict[str, str] = {}
    for pair in pairs:
        name, _, protocol = (part.strip() for part in pair.partition(":"))
        if not name or protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                key, ",".join(pairs), f"name:protocol pairs, where a protocol is one of {_words(PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(key: str, items: tuple[str, ...], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Names and ports must differ, as Kafka has it."""
    listeners = tuple(_parse_listener(key, item, protocols) for item in items)
    text = ",".join(items)
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(key, text, "a name of its own for each listener")
    addresses = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(addresses)) != len(addresses):
        raise ConfigError(key, text, "a port of its own for each listener")
    return listeners


def _parse_listener(key: str, item: str, protocols: Mapping[str, str]) -> Listener:
    name, _, text = item.partition("://")
    name, address = name.strip().upper(), listening_address(text)
    if not name or address is None:
        raise ConfigError(key, item, FORM)
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            key,
            item,
            f"a listener whose name listener.security.protocol.map knows; it knows {_words(tuple(protocols))}",
        )
    return Listener(name, *address, protocol)


def _words(words: tuple[str, ...]) -> str:
    return ", ".join(words)


def parse_metrics_listener(text: str | None) -> Address | None:
    """None for none. Without a host it is this machine alone. Raises ConfigError."""
    if not text or not text.strip():
        return None
    address = listening_address(text.strip())
    if address is None:
        raise ConfigError(METRICS_KEY, text, "host:port, or :port for this machine alone")
    return Address(address.host or LOOPBACK, address.port)


def parse_otlp_endpoint(text: str | None) -> str | None:
    """None for none. Raises ConfigError."""
    if not text or not text.strip():
        return None
    scheme, _, rest = text.strip().partition("://")
    if scheme not in ("http", "https") or not rest.partition("/")[0]:
        raise ConfigError(OTLP_KEY, text, "http://host:port or https://host:port; a path, if it is not /v1/metrics")
    return text.strip()


def parse_otlp_headers(endpoint: str | None, text: str | None) -> dict[str, str]:
    """By name. Raises ConfigError without the values: they are secret, and go to no other machine in the clear."""
    headers: dict[str, str] = {}
    for pair in (text or "").split(","):
        name, separator, value = (part.strip() for part in pair.partition("="))
        value = unquote(value)
        if not pair.strip():
            continue
        is_plain = value.isascii() and value.isprintable()
        if not separator or not _HEADER.fullmatch(name) or not is_plain or name.lower() in OUR_HEADERS:
            raise ConfigError(OTLP_HEADERS_KEY, HIDDEN, "name=value, with commas between several; %2C is a comma")
        headers[name] = value
    parts = urlsplit(endpoint or "https:")
    if headers and parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        allowed = f"{OTLP_KEY}=https://…, or one on this machine: they would pass in the clear"
        raise ConfigError(OTLP_HEADERS_KEY, HIDDEN, allowed)
    return headers
