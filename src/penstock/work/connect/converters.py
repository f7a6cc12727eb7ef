"""Converters: what keys, values and headers are between a connector and the bytes of a topic.

They are named by Connect's class names, by the last part of these, or as `module:Class`, which is made without
arguments, gets `configure(config, is_key)`, and has the methods of `Converter`.
"""

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix
from penstock.work.connect.plugins import VERSION, PluginError, find_class
from penstock.work.connect.schemas import (
    DECIMAL,
    ExactFloat,
    JsonForm,
    Schema,
    SchemaError,
    from_json,
    schema_of,
    to_json,
)


class ConversionError(ValueError):
    pass


class Converter(Protocol):
    """Keys or values as bytes, and back. A pair is a schema (or None) and a value."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """The keys behind `key.converter.` or `value.converter.`."""

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """None is a tombstone. ConversionError."""

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """ConversionError."""


class JsonConverter:
    """JSON; with `schemas.enable` (as in Connect the default) in an envelope of schema and payload."""

    keys = (
        ConfigKey(
            "schemas.enable", "boolean", True, "Whether each message brings its schema along.", importance="high"
        ),
        ConfigKey(
            "schema.content",
            documentation="The schema of all messages that are read, which bring none along then; for sinks.",
            importance="high",
        ),
        ConfigKey(
            "decimal.format",
            default="BASE64",
            documentation="How decimals are written: their bytes, or a number.",
            choices=("BASE64", "NUMERIC"),
            any_case=True,
            importance="low",
        ),
        ConfigKey(
            "replace.null.with.default",
            "boolean",
            True,
            "Whether a field that is null gets its default.",
            importance="low",
        ),
    )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """ConfigError."""
        settings = parse(self.keys, config)
        self._with_schemas = settings["schemas.enable"]
        self._form = JsonForm(
            numeric_decimals=settings["decimal.format"] == "NUMERIC",
            replaces_null=settings["replace.null.with.default"],
        )
        self._written = _exact if self._form.numeric_decimals else _compact
        self._schema = _schema_in(settings["schema.content"]) if self._with_schemas else None

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and schema is None:
            return None
        try:
            if not self._with_schemas:
                return self._written(to_json(value, schema, self._form)).encode()
            known = schema if schema is not None else schema_of(value)
            return self._written({"schema": known, "payload": to_json(value, known, self._form)}).encode()
        except SchemaError as error:
            raise ConversionError(f"JsonConverter, topic {topic}: {error}") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            if not self._with_schemas:
                return None, json.loads(data)
            is_exact = self._schema is not None or DECIMAL.encode() in data
            document = json.loads(data, parse_float=ExactFloat if is_exact else None)
            if self._schema is not None:
                return self._schema, from_json(document, self._schema, self._form)
            if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
                raise ConversionError(
                    f"JsonConverter with schemas.enable=true, topic {topic}: a message is an object with the fields "
                    "schema and payload; set schemas.enable=false for plain JSON, or schema.content to its schema"
                )
            return document["schema"], from_json(document["payload"], document["schema"], self._form)
        except (SchemaError, ValueError) as error:
            if isinstance(error, ConversionError):
                raise
            raise ConversionError(f"JsonConverter, topic {topic}: {error}") from error


def _schema_in(text: str | None) -> Schema | None:
    """ConfigError."""
    if not text:
        return None
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError({"schema.content": [f"schema.content={text} is no JSON: {error}"]}) from None
    if not isinstance(schema, dict) or "type" not in schema:
        raise ConfigError({"schema.content": [f"schema.content={text} is no schema: an object of JSON with a type"]})
    return schema


def _compact(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _exact(document: Any) -> str:
    """JSON whose decimals have all their digits."""
    match document:
        case Decimal():
            return format(document, "f")
        case dict():
            return "{" + ",".join(f"{_compact(key)}:{_exact(value)}" for key, value in document.items()) + "}"
        case list():
            return "[" + ",".join(map(_exact, document)) + "]"
        case _:
            return _compact(document)


class StringConverter:
    """Text in UTF-8, or in the encoding `converter.encoding`; anything else as `str` writes it."""

    keys = (ConfigKey("converter.encoding", "string", "UTF-8", "The encoding of the text."),)

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        self._encoding = parse(self.keys, config)["converter.encoding"]

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else str(value).encode(self._encoding)

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        try:
            return {"type": "string", "optional": True}, None if data is None else data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise ConversionError(f"StringConverter, topic {topic}: {error}") from error


class _Fixed:
    def configure(self, config: Mapping[str, str], is_key: bool) -> None: ...


class ByteArrayConverter(_Fixed):
    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        raise ConversionError(f"ByteArrayConverter, topic {topic}: {value!r} is not bytes")

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return {"type": "bytes", "optional": True}, data


class _NumberConverter(_Fixed):
    """Numbers as Kafka's serializers write them, in network order."""

    name: str
    layout: struct.Struct

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        try:
            return None if value is None else self.layout.pack(value)
        except struct.error as error:
            raise ConversionError(f"topic {topic}: {value!r} is no {self.name}: {error}") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        schema = {"type": self.name, "optional": True}
        if data is None:
            return schema, None
        if len(data) != self.layout.size:
            raise ConversionError(
                f"topic {topic}: an {self.name} has {self.layout.size} bytes, and these are {len(data)}"
            )
        return schema, self.layout.unpack(data)[0]


NUMBERS: Final = {
    "Short": ("int16", ">h"), "Integer": ("int32", ">i"), "Long": ("int64", ">q"), "Float": ("float", ">f"),
    "Double": ("double", ">d"),
}  # fmt: skip


class BooleanConverter(_Fixed):
    """One byte, 1 or 0."""

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None or isinstance(value, bool):
            return None if value is None else bytes([value])
        raise ConversionError(f"BooleanConverter, topic {topic}: {value!r} is neither true nor false")

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data not in (None, b"\x00", b"\x01"):
            raise ConversionError(f"BooleanConverter, topic {topic}: {data!r} is neither 0 nor 1")
        return {"type": "boolean", "optional": True}, None if data is None else data == b"\x01"


def _number_converter(word: str) -> type[_NumberConverter]:
    name, layout = NUMBERS[word]
    return type(f"{word}Converter", (_NumberConverter,), {"name": name, "layout": struct.Struct(layout)})


PACKAGES: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "json": (JsonConverter,),
    "storage": (StringConverter,),
    "converters": (ByteArrayConverter, *map(_number_converter, NUMBERS), BooleanConverter),
}
CONVERTERS: Final[Mapping[str, type[Any]]] = {
    f"org.apache.kafka.connect.{package}.{converter.__name__}": converter
    for package, converters in PACKAGES.items()
    for converter in converters
}


def converter_of(config: Mapping[str, str], defaults: Mapping[str, str], kind: str) -> Converter:
    """From the key `key.converter` or `value.converter` of a connector, else of its worker; PluginError."""
    chosen = config if kind in config else defaults
    name = chosen.get(kind, "org.apache.kafka.connect.json.JsonConverter")
    converter = find_class(name, CONVERTERS, "converter", chosen.get(f"{kind}.{VERSION}"))()
    if not hasattr(converter, "configure"):
        raise PluginError(f"{name} is not a converter")
    converter.configure(with_prefix(chosen, f"{kind}."), kind.startswith("key"))
    return converter  # type: ignore[no-any-return]
