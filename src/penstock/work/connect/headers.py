"""Header converters: what headers are between a connector and the bytes of a topic.

A user's is named as `module:Class`, is made without arguments, gets `configure(config)`, and has the methods of
`HeaderConverter`; all converters of keys and values are header converters as well.
"""

import base64
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

from penstock.work.connect.config import with_prefix
from penstock.work.connect.converters import CONVERTERS, ConversionError, Converter
from penstock.work.connect.plugins import VERSION, PluginError, find_class

SIMPLE: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r'"([^"\\]|\\.)*"', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
LONGEST_NUMBER: Final = 400
"""How many digits a number may have; what is longer is text."""


class HeaderConverter(Protocol):
    def to_header(self, topic: str, name: str, value: Any) -> bytes | None:
        """ConversionError."""

    def from_header(self, topic: str, name: str, data: bytes | None) -> Any:
        """ConversionError."""


class SimpleHeaderConverter:
    """Text, as Connect's: what looks like a number, a truth value, a list or a map is read as such."""

    def configure(self, config: Mapping[str, str]) -> None: ...

    def to_header(self, topic: str, name: str, value: Any) -> bytes | None:
        return None if value is None else _text(value, embedded=False).encode()

    def from_header(self, topic: str, name: str, data: bytes | None) -> Any:
        """Bytes that are no text stay what they are."""
        if data is None:
            return None
        try:
            return parsed(data.decode())
        except UnicodeDecodeError:
            return data


class _AsHeader:
    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    def to_header(self, topic: str, name: str, value: Any) -> bytes | None:
        return self._converter.to_bytes(topic, None, value)

    def from_header(self, topic: str, name: str, data: bytes | None) -> Any:
        return self._converter.from_bytes(topic, data)[1]


HEADER_CONVERTERS: Final[Mapping[str, type[Any]]] = {SIMPLE: SimpleHeaderConverter, **CONVERTERS}


def header_converter_of(config: Mapping[str, str], defaults: Mapping[str, str]) -> HeaderConverter:
    """From the key `header.converter` of a connector, else of its worker; PluginError, ConfigError."""
    kind = "header.converter"
    chosen = config if kind in config else defaults
    name = chosen.get(kind, SIMPLE)
    converter = find_class(name, HEADER_CONVERTERS, "header_converter", chosen.get(f"{kind}.{VERSION}"))()
    if not hasattr(converter, "configure"):
        raise PluginError(f"{name} is not a header converter")
    settings = with_prefix(chosen, f"{kind}.")
    if hasattr(converter, "to_header"):
        converter.configure(settings)
        return converter  # type: ignore[no-any-return]
    converter.configure(settings, False)
    return _AsHeader(converter)


def is_built_in(converter: HeaderConverter) -> bool:
    """A built-in converter never blocks."""
    inner = converter._converter if isinstance(converter, _AsHeader) else converter
    return type(inner) in HEADER_CONVERTERS.values()


def parsed(text: str) -> Any:
    """Moments stay text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= LONGEST_NUMBER and _NUMBER.fullmatch(text):
        return _number(text)
    if _QUOTED.fullmatch(text):
        return _ESCAPED.sub(r"\1", text[1:-1])
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _number(text: str) -> Any:
    exact = Decimal(text)
    if abs(exact.adjusted()) > LONGEST_NUMBER:
        return text
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def _text(value: Any, *, embedded: bool) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case bytes():
            return _text(base64.b64encode(value).decode(), embedded=embedded)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"' if embedded else value
        case list() | tuple():
            return f"[{','.join(_text(item, embedded=True) for item in value)}]"
        case Mapping():
            pairs = (f"{_text(key, embedded=True)}:{_text(item, embedded=True)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
    raise ConversionError(f"a header cannot be {value!r}")
