"""Avro's values as JSON. Logical types are shown as what lies below them, as Kafka's own tools do."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
from fastavro.validation import validate

from penstock.console.apart.schema import HEAD_BYTES, KnownSchema, UnreadableError
from penstock.work.connect.avro_schemas import without_logical_types


def decoder(schema: KnownSchema) -> Callable[[bytes], str]:
    parsed = _parsed(schema)

    def decode(data: bytes) -> str:
        stream = BytesIO(data[HEAD_BYTES:])
        value = fastavro.schemaless_reader(stream, parsed, None)
        if stream.tell() < len(data) - HEAD_BYTES:
            raise UnreadableError("there are bytes behind the value")
        return json.dumps(value, ensure_ascii=False, default=_latin)

    return decode


def encoder(schema: KnownSchema) -> Callable[[str], bytes]:
    parsed = _parsed(schema)

    def encode(text: str) -> bytes:
        value = json.loads(text)
        validate(value, parsed, strict=True)
        stream = BytesIO()
        stream.write(schema.head)
        fastavro.schemaless_writer(stream, parsed, value)
        return stream.getvalue()

    return encode


def _parsed(schema: KnownSchema) -> Any:
    return fastavro.parse_schema(without_logical_types(json.loads(schema.text)))


def _latin(value: Any) -> str:
    """Bytes as Avro's own JSON has them."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise TypeError(f"{type(value).__name__} is nothing of JSON")
