"""Values of JSON Schema are JSON: what is written is checked, what is read is shown as it was written."""

from collections.abc import Callable

from penstock.console.apart.schema import HEAD_BYTES, KnownSchema
from penstock.pipeline.values.json_schema import JsonSchema, JsonWriter


def decoder(_: KnownSchema) -> Callable[[bytes], str]:
    return lambda data: data[HEAD_BYTES:].decode()


def encoder(schema: KnownSchema) -> Callable[[str], bytes]:
    return JsonWriter(JsonSchema(schema.text, schema.references), schema.head)
