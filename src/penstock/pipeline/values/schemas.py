"""Schemas of values: from the options of a source, of files and registries to columns and readers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.values.avro import AvroReader, AvroWriter, avro_columns, avro_required, avro_schema
from penstock.pipeline.values.json_schema import JsonReader, JsonSchema, JsonWriter, json_of
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues
from penstock.pipeline.values.protobuf import ProtobufReader, descriptors_of, message_type, protobuf_columns
from penstock.pipeline.values.protobuf_writing import ProtobufWriter, document_of
from penstock.work.connect.api import RetriableError
from penstock.work.connect.avro_schemas import kind_of
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import HEAD, MAGIC, SERIALIZED, Registry, Schemas, references_of
from penstock.work.connect.registry_avro import avro_of

LATEST: Final = "latest"
REGISTRY, USER_INFO = "schema.registry.url", "basic.auth.user.info"
VALUE, KEY = "value", "key"
Reader = Callable[[bytes], Any]
Writer = Callable[[Any], bytes]
"""Of a row as a dict, or of a text of JSON."""


def typed_values(kind: str, options: dict[str, str], part: str = VALUE) -> TypedValues:
    """Of values, or of keys, whose options begin with `key_`: they are taken out, but not where the registry is.

    A registry is not asked. SchemaError.
    """
    prefix = "" if part == VALUE else f"{part}_"
    given = options.pop(f"{prefix}{kind}")
    urls = tuple(filter(None, (url.strip() for url in options.get(REGISTRY, "").split(","))))
    topic = options.get("subscribe", "") or options.get("topic", "")
    typed = TypedValues(
        kind=kind,
        schema=None if given == LATEST else _schema_in(given, is_text=kind != PROTOBUF),
        message=options.pop(f"{prefix}message", "") if kind == PROTOBUF else "",
        registry=Registry(urls, options.get(USER_INFO)) if urls else None,
        subject=options.pop(f"{prefix}subject", "") or f"{topic}-{part}",
    )
    if typed.schema is not None:
        columns = columns_of(typed)
        if part == VALUE and kind == AVRO and kind_of(avro_schema(typed.schema)) != "record":
            raise UnfitSchemaError(f"it must be of a record with fields, and is {columns}.")
    elif not urls:
        raise UnfitSchemaError("the latest schema is in a registry: give schema.registry.url.")
    elif typed.subject == f"-{part}" or "," in typed.subject:
        raise UnfitSchemaError(f"of several topics there is no latest schema: give the {prefix}subject.")
    return typed


def settled(typed: TypedValues) -> TypedValues:
    """With the latest schema of the subject if there is none; PipelineError."""
    if typed.schema is not None:
        return typed
    assert typed.registry is not None
    subject, registry = typed.subject, typed.registry
    try:
        answer = registry.version(subject, LATEST, SERIALIZED if typed.kind == PROTOBUF else "")
        typed = typed.replace(number=answer.get("id"))
        if typed.kind == AVRO:
            return typed.replace(schema=json.dumps(avro_of(registry, answer, subject)).encode())
        if typed.kind == PROTOBUF:
            return typed.replace(schema=descriptors_of(registry, answer, subject))
        others = references_of(registry, answer)
        references = tuple((name, json_of(other, name)) for name, other in others.items())
        return typed.replace(schema=json_of(answer, subject), references=references)
    except (ConversionError, RetriableError) as error:
        raise PipelineError(f"{subject}: {error}") from error


def columns_of(typed: TypedValues) -> str:
    """The fields as DDL, of a settled schema; SchemaError."""
    assert typed.schema is not None
    if typed.kind == AVRO:
        return avro_columns(avro_schema(typed.schema))
    if typed.kind == JSON_SCHEMA:
        return JsonSchema(typed.schema, typed.references).columns()
    return protobuf_columns(message_type(typed.schema, typed.message))


def required_by(typed: TypedValues) -> set[str]:
    """Fields of a settled schema that each value has to have."""
    assert typed.schema is not None
    if typed.kind == AVRO:
        return avro_required(avro_schema(typed.schema))
    if typed.kind == JSON_SCHEMA:
        return JsonSchema(typed.schema, typed.references).required()
    return {field.name for field in message_type(typed.schema, typed.message).fields if field.is_required}


def registered(typed: TypedValues) -> TypedValues:
    """With the number of its schema, which is registered if it is unknown; PipelineError where it does not fit."""
    if typed.schema is None or typed.registry is None:
        return settled(typed)
    if typed.subject.startswith("-"):
        raise PipelineError("A schema is registered for a topic: give the topic, or the subject.")
    try:
        document = _document(typed, typed.registry)
        return typed.replace(number=typed.registry.id_of(typed.subject, document, registers=True))
    except (ConversionError, RetriableError) as error:
        raise PipelineError(f"The schema of {typed.subject} cannot be registered: {error}") from error


def fitting(typed: TypedValues) -> TypedValues:
    """The same without registering: PipelineError where the registry says that the schema does not fit."""
    if typed.schema is None or typed.registry is None or typed.kind == PROTOBUF:  # what Protobuf imports may be unknown
        return settled(typed)
    try:
        if typed.registry.fits(typed.subject, _document(typed, typed.registry)):
            return typed
    except (ConversionError, RetriableError) as error:
        raise PipelineError(f"{typed.subject}: {error}") from error
    raise PipelineError(f"The schema of {typed.subject} cannot be registered: it is incompatible with the latest one.")


def _document(typed: TypedValues, registry: Schemas) -> dict[str, Any]:
    assert typed.schema is not None
    if typed.kind == PROTOBUF:
        return document_of(registry, message_type(typed.schema, typed.message).file)
    return {"schemaType": "AVRO" if typed.kind == AVRO else "JSON", "schema": typed.schema.decode()}


def writer_of(typed: TypedValues) -> Writer:
    """For a settled schema; the writer raises ConversionError for what is no such value."""
    assert typed.schema is not None
    head = b"" if typed.number is None else HEAD.pack(MAGIC, typed.number)
    if typed.kind == AVRO:
        return AvroWriter(avro_schema(typed.schema), head)
    if typed.kind == JSON_SCHEMA:
        return JsonWriter(JsonSchema(typed.schema, typed.references), head)
    return ProtobufWriter(message_type(typed.schema, typed.message), head)


def reader_of(typed: TypedValues) -> Reader:
    """For a settled schema; the reader raises ConversionError for a bad value."""
    assert typed.schema is not None
    if typed.kind == AVRO:
        return AvroReader(avro_schema(typed.schema), typed.registry)
    if typed.kind == JSON_SCHEMA:
        return JsonReader(JsonSchema(typed.schema, typed.references), typed.registry)
    return ProtobufReader(message_type(typed.schema, typed.message), typed.registry)


def _schema_in(given: str, *, is_text: bool) -> bytes:
    if is_text and given.lstrip().startswith("{"):
        return given.encode()
    try:
        return Path(given).read_bytes()
    except OSError as error:
        raise UnfitSchemaError(f"{given} cannot be read: {error.strerror}.") from None
