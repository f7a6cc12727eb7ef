"""Values of a schema as JSON, and JSON as such values: Avro, JSON Schema and Protobuf, in Confluent's format."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from penstock.console.apart.schema import AVRO, JSON, PROTOBUF, KnownSchema, UnreadableError

MODULES: Final = {AVRO: "avro_values", JSON: "json_values", PROTOBUF: "protobuf_values"}
"""Loaded with the first schema of a kind: each has a library of its own, which need not be installed for the others."""
Decode = Callable[[bytes], str]
"""Of a value with its head."""
Encode = Callable[[str], bytes]


def decoder_of(schema: KnownSchema) -> Decode:
    """It raises UnreadableError for a bad value, as this does for a bad schema."""
    decode: Decode = _told(lambda one: _of(one).decoder(one))(schema)
    return _told(decode)


def encoder_of(schema: KnownSchema) -> Encode:
    """The same; of a Protobuf schema for the first message of its file."""
    encode: Encode = _told(lambda one: _of(one).encoder(one))(schema)
    return _told(encode)


def _of(schema: KnownSchema) -> ModuleType:
    try:
        return import_module(f"penstock.console.apart.{MODULES[schema.kind]}")
    except ModuleNotFoundError as error:
        raise UnreadableError(f"{error}: pip install 'penstock[console]'") from None


def _told(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What libraries raise for bad bytes and bad schemas has no common name. Memory that is out is no such thing."""

    def guarded(given: Any) -> Any:
        try:
            return step(given)
        except (MemoryError, UnreadableError):
            raise
        except Exception as error:
            raise UnreadableError(str(error)[:500] or type(error).__name__) from None

    return guarded
