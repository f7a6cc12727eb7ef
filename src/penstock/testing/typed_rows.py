"""Rows of tests as values of Avro, Protobuf or JSON Schema, with a registry in memory that hands out what they need."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.pipeline import PipelineSpec, SinkSpec
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues
from penstock.pipeline.values.protobuf import message_type
from penstock.pipeline.values.protobuf_writing import indexes_of
from penstock.pipeline.values.schemas import LATEST, reader_of, settled
from penstock.protocol.value import Value
from penstock.work.connect.registry import HEAD, MAGIC, UNKNOWN, RegistryError

Encode = Callable[[Mapping[str, Any]], bytes]
TYPES: Final = {AVRO: "AVRO", PROTOBUF: "PROTOBUF", JSON_SCHEMA: "JSON"}


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

    def id_of(self, subject: str, document: Mapping[str, Any], *, registers: bool) -> int:
        return int(self.version(subject)["id"])

    def version_of(self, subject: str, document: Mapping[str, Any]) -> int:
        return 1

    def fits(self, subject: str, document: Mapping[str, Any]) -> bool:
        return True


def in_memory(spec: PipelineSpec, schemas: Mapping[str, Any]) -> PipelineSpec:
    """With registries in memory: of these schemas, which may refer to those before them, or of their own.

    What sinks write has nothing of a registry before it.
    """
    declared = [typed for source in spec.sources.values() for typed in (source.typed, source.typed_key)]
    declared += [typed for sink in spec.sinks for typed in (sink.typed, sink.typed_key)]
    subjects = {typed.subject for typed in declared if typed is not None}
    shared = {name: schema for name, schema in schemas.items() if name not in subjects}

    def known(typed: TypedValues | None) -> TypedValues | None:
        return typed and _in_memory(typed, schemas, shared)

    def alone(typed: TypedValues | None) -> TypedValues | None:
        return typed and settled(_in_memory(typed, schemas, shared)).replace(registry=None, number=None)

    return spec.replace(
        sources={
            name: source.replace(typed=known(source.typed), typed_key=known(source.typed_key))
            for name, source in spec.sources.items()
        },
        sinks=tuple(sink.replace(typed=alone(sink.typed), typed_key=alone(sink.typed_key)) for sink in spec.sinks),
    )


def _in_memory(typed: TypedValues, schemas: Mapping[str, Any], shared: Mapping[str, Any]) -> TypedValues:
    if typed.registry is None or (typed.schema is None and typed.subject not in schemas):
        return typed
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
    return typed.replace(registry=MemoryRegistry(tuple(documents)))


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
    made, start = GetMessageClass(kind), head and head + indexes_of(kind)
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


def encoded(name: str, typed: TypedValues | None, rows: list[Any]) -> list[Any]:
    """A source's rows as values, or their keys; objects are encoded, text and bytes stay. PipelineError."""
    if typed is None or not any(isinstance(row, Mapping) for row in rows):
        return rows
    encode = encoder_of(typed)
    made = []
    for number, row in enumerate(rows):
        try:
            made.append(encode(row) if isinstance(row, Mapping) else row)
        except Exception as error:  # what fastavro and protobuf raise for a wrong row is any
            raise PipelineError(
                f"Row {number} of {name} is no value of its schema: {error!r}. To send such a value give its bytes."
            ) from error
    return made


def decoded(sink: SinkSpec, row: dict[str, Any]) -> dict[str, Any]:
    """A row that a sink gets, with keys and values that are of a schema as objects again."""
    typed = {"key": sink.typed_key, "value": sink.typed}
    read = {part: reader_of(one) for part, one in typed.items() if one is not None and row[part] is not None}
    return row | {part: reader(bytes(row[part])) for part, reader in read.items()}
