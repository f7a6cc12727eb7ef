"""Rows of tests as values of Avro, Protobuf or JSON Schema, with a registry in memory that hands out what they need."""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.pipeline import SourceSpec
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues
from penstock.pipeline.values.protobuf import message_type
from penstock.pipeline.values.schemas import LATEST, settled
from penstock.protocol.value import Value
from penstock.protocol.varint import encode_varint
from penstock.work.connect.registry import HEAD, MAGIC, RegistryError

Encode = Callable[[Mapping[str, Any]], bytes]
TYPES: Final = {AVRO: "AVRO", PROTOBUF: "PROTOBUF", JSON_SCHEMA: "JSON"}
UNKNOWN: Final = 404


class MemoryRegistry(Value):
    """Subjects with the one version of each, as JSON; the ids are 1, 2, …"""

    known: tuple[tuple[str, str], ...]

    def schema(self, number: int, form: str = "") -> Any:
        if not 1 <= number <= len(self.known):
            raise RegistryError(UNKNOWN, f"there is no schema {number} in this test")
        return json.loads(self.known[number - 1][1])

    def version(self, subject: str, version: str = LATEST, form: str = "") -> Any:
        for number, (name, document) in enumerate(self.known, 1):
            if name == subject:
                return json.loads(document) | {"id": number}
        raise RegistryError(UNKNOWN, f"there is no subject {subject} in this test")


def in_memory(sources: Mapping[str, SourceSpec], schemas: Mapping[str, Any]) -> dict[str, SourceSpec]:
    """With registries in memory: of these schemas, which may refer to those before them, or of their own."""
    subjects = {source.typed.subject for source in sources.values() if source.typed is not None}
    shared = {name: schema for name, schema in schemas.items() if name not in subjects}
    return {name: _in_memory(source, schemas, shared) for name, source in sources.items()}


def _in_memory(source: SourceSpec, schemas: Mapping[str, Any], shared: Mapping[str, Any]) -> SourceSpec:
    typed = source.typed
    if typed is None or typed.registry is None or (typed.schema is None and typed.subject not in schemas):
        return source
    if typed.kind == PROTOBUF:
        given = schemas.get(typed.subject, typed.schema)
        known = _files(given if isinstance(given, bytes) else Path(given).read_bytes(), typed)
    else:
        known = [(subject, _text(schema)) for subject, schema in shared.items()]
        known.append((typed.subject, _text(schemas.get(typed.subject, typed.schema))))
    documents = []
    for place, (subject, schema) in enumerate(known):
        references = [{"name": name, "subject": name, "version": 1} for name, _ in known[:place]]
        document = {"schemaType": TYPES[typed.kind], "schema": schema, "references": references}
        documents.append((subject, json.dumps(document)))
    return source.replace(typed=typed.replace(registry=MemoryRegistry(tuple(documents))))


def encoder_of(typed: TypedValues) -> Encode:
    """Encodes a row as a producer would; ValueError and TypeError for an unfit one."""
    typed = settled(typed)
    assert typed.schema is not None
    head = b""
    if typed.registry is not None:
        head = HEAD.pack(MAGIC, typed.registry.version(typed.subject)["id"])
    if typed.kind == AVRO:
        schema = fastavro.parse_schema(json.loads(typed.schema))
        return lambda row: head + _avro(schema, row)
    if typed.kind == JSON_SCHEMA:
        return lambda row: head + json.dumps(row, default=_plain).encode()
    kind = message_type(typed.schema, typed.message)
    made, start = GetMessageClass(kind), head and head + _indexes(kind)
    return lambda row: start + ParseDict(json.loads(json.dumps(row, default=_plain)), made()).SerializeToString()


def _avro(schema: Any, row: Mapping[str, Any]) -> bytes:
    data = BytesIO()
    fastavro.schemaless_writer(data, schema, row)
    return data.getvalue()


def _text(schema: Any) -> str:
    if isinstance(schema, bytes):
        return schema.decode()
    if not isinstance(schema, str):
        return json.dumps(schema)
    return schema if schema.lstrip().startswith(("{", "[", '"')) else Path(schema).read_text(encoding="utf-8")


def _files(schema: bytes, typed: TypedValues) -> list[tuple[str, str]]:
    """The message's file comes last, under its subject."""
    of_message = message_type(schema, typed.message).file.name
    files = FileDescriptorSet.FromString(schema).file
    listed = sorted(files, key=lambda file: file.name == of_message)
    return [
        (
            typed.subject if file.name == of_message else file.name,
            base64.b64encode(file.SerializeToString()).decode(),
        )
        for file in listed
    ]


def _indexes(kind: Descriptor) -> bytes:
    """The message's place in its file, as Confluent's clients write it: a count and indexes, or 0 for the first."""
    path: list[int] = []
    at: Descriptor | None = kind
    while at is not None:
        outer = at.containing_type
        siblings = at.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.insert(0, [one.full_name for one in siblings].index(at.full_name))
        at = outer
    return b"\0" if path == [0] else b"".join(encode_varint(number) for number in (len(path), *path))


def _plain(value: Any) -> Any:
    """Values in the forms of Protobuf's JSON and JSON Schema, where JSON has none."""
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}s"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    raise TypeError(f"{value!r} has no form in JSON")


def encoded(name: str, source: SourceSpec, rows: list[Any]) -> list[Any]:
    """A source's rows as values; objects are encoded, text and bytes stay. PipelineError."""
    if source.typed is None or not any(isinstance(row, Mapping) for row in rows):
        return rows
    encode = encoder_of(source.typed)
    made = []
    for number, row in enumerate(rows):
        try:
            made.append(encode(row) if isinstance(row, Mapping) else row)
        except Exception as error:  # what fastavro and protobuf raise for a wrong row is any
            raise PipelineError(
                f"Row {number} of {name} is no value of its schema: {error!r}. To send such a value give its bytes."
            ) from error
    return made
