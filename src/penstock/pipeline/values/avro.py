"""Avro: which columns values of a schema have, as Spark's DDL, and how they are read.

Logical types become Spark's (date, timestamps, decimal); of others the number or text below them is the value.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from penstock.pipeline.errors import UnfitSchemaError
from penstock.pipeline.values.avro_unions import branch_values, branches_of, member_structs
from penstock.work.connect.avro import WRONG
from penstock.work.connect.avro_schemas import full_name, kind_of
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.kept import keep
from penstock.work.connect.registry import HEAD, Schemas, schema_id
from penstock.work.connect.registry_avro import avro_of

SIMPLE: Final = {
    "null": "STRING", "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "string": "STRING", "fixed": "BINARY", "enum": "STRING",
}  # fmt: skip
LOGICAL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
MOST_DIGITS: Final = 38


def avro_schema(text: bytes) -> Any:
    """SchemaError."""
    try:
        schema = _without_others(json.loads(text))
        fastavro.parse_schema(schema)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        raise UnfitSchemaError(f"it is no schema of Avro: {error!s}.") from None
    return schema


def avro_columns(schema: Any) -> str:
    """The fields of a record as DDL, or another type; SchemaError."""
    if kind_of(schema) != "record":
        return _Columns().type_of(schema, "")
    if not schema["fields"]:
        raise UnfitSchemaError("it must be of a record with fields.")
    return _Columns().fields(schema, " ", "")


def avro_required(schema: Any) -> set[str]:
    """The fields of a record that each value has to have."""
    return {
        field["name"]
        for field in schema["fields"]
        if "default" not in field and not (isinstance(field["type"], list) and "null" in field["type"])
    }


class AvroReader:
    """With a registry: values of any schema that can be read as this one."""

    def __init__(self, schema: Any, registry: Schemas | None) -> None:
        self._schema = fastavro.parse_schema(schema)
        self._members = member_structs(schema)
        self._registry = registry
        self._writers: dict[int, Any] = {}

    def __call__(self, data: bytes) -> Any:
        """ConversionError."""
        writer = self._schema if self._registry is None else self._writer(self._registry, data)
        stream = BytesIO(data if self._registry is None else data[HEAD.size :])
        try:
            reader = None if writer is self._schema else self._schema
            value = fastavro.schemaless_reader(stream, writer, reader, return_named_type=self._members is not None)
        except (*WRONG, SchemaResolutionError) as error:
            raise ConversionError(str(error)) from error
        if stream.tell() < len(stream.getbuffer()):
            raise ConversionError("there are bytes behind it")
        return value if self._members is None else self._members(value)

    def _writer(self, registry: Schemas, data: bytes) -> Any:
        number = schema_id(data)
        if number in self._writers:
            return self._writers[number]
        avro = avro_of(registry, registry.schema(number), f"schema {number}")
        return keep(self._writers, number, fastavro.parse_schema(_without_others(avro)))


class AvroWriter:
    """Values by this schema, behind `head`."""

    def __init__(self, schema: Any, head: bytes) -> None:
        self._schema = fastavro.parse_schema(schema)
        self._branches = branch_values(schema)
        self._head = head

    def __call__(self, value: Any) -> bytes:
        """ConversionError."""
        stream = BytesIO()
        stream.write(self._head)
        try:
            given = value if self._branches is None else self._branches(value)
            fastavro.schemaless_writer(stream, self._schema, given, strict_allow_default=True)
        except WRONG as error:
            raise ConversionError(str(error) or type(error).__name__) from error
        return stream.getvalue()


class _Columns:
    """One schema while it is read: named types, and those that are being read."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        self._open: set[str] = set()

    def fields(self, record: Mapping[str, Any], between: str, namespace: str) -> str:
        name = full_name(record, namespace)
        self._open.add(name)
        inner = name.rpartition(".")[0]
        said = ", ".join(
            f"`{field['name']}`{between}{self.type_of(field['type'], inner)}" for field in record["fields"]
        )
        self._open.discard(name)
        return said

    def type_of(self, avro: Any, namespace: str) -> str:
        if isinstance(avro, list):
            kinds = [self.type_of(one, namespace) for one in branches_of(avro)]
            members = ", ".join(f"`member{place}`: {kind}" for place, kind in enumerate(kinds))
            return kinds[0] if len(kinds) == 1 else f"STRUCT<{members}>"
        kind = kind_of(avro)
        if isinstance(kind, dict | list):
            return self.type_of(kind, namespace)
        if kind == "array":
            return f"ARRAY<{self.type_of(avro['items'], namespace)}>"
        if kind == "map":
            return f"MAP<STRING, {self.type_of(avro['values'], namespace)}>"
        if kind in ("record", "error"):
            said = f"STRUCT<{self.fields(avro, ': ', namespace)}>"
        elif kind in SIMPLE:
            said = _plain(avro, kind)
        else:
            return self._known(str(kind), namespace)
        if isinstance(avro, dict) and "name" in avro:
            self._named[full_name(avro, namespace)] = said
        return said

    def _known(self, name: str, namespace: str) -> str:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self._open or name in self._open:
            raise UnfitSchemaError(f"{full} is part of itself.")
        return self._named.get(full) or self._named[name]


def _plain(avro: Any, kind: str) -> str:
    logical = avro.get("logicalType") if isinstance(avro, dict) else None
    if logical == "decimal":
        return f"DECIMAL({avro['precision']}, {avro.get('scale', 0)})"
    return LOGICAL.get((kind, logical or ""), SIMPLE[kind])


def _without_others(avro: Any) -> Any:
    """Without the logical types that Spark lacks."""
    if isinstance(avro, list):
        return [_without_others(part) for part in avro]
    if not isinstance(avro, dict):
        return avro
    kind, logical = avro.get("type"), avro.get("logicalType")
    is_decimal = logical == "decimal" and 0 < int(avro.get("precision", 0)) <= MOST_DIGITS
    keeps = is_decimal or (isinstance(kind, str) and (kind, logical) in LOGICAL)
    return {key: _without_others(part) for key, part in avro.items() if keeps or key != "logicalType"}
