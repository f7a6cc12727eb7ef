"""Schemas of values: from the options of a source, of files and registries to columns and readers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.values.avro import AvroReader, avro_columns, avro_schema
from penstock.pipeline.values.json_schema import JsonReader, JsonSchema, json_of
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues
from penstock.pipeline.values.protobuf import ProtobufReader, descriptors_of, message_type, protobuf_columns
from penstock.work.connect.api import RetriableError
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import SERIALIZED, Registry, references_of
from penstock.work.connect.registry_avro import avro_of

LATEST: Final = "latest"
Reader = Callable[[bytes], Any]


def typed_values(kind: str, options: dict[str, str]) -> TypedValues:
    """Takes its options out; SchemaError. A registry is not asked."""
    given = options.pop(kind)
    urls = tuple(filter(None, (url.strip() for url in options.pop("schema.registry.url", "").split(","))))
    user_info = options.pop("basic.auth.user.info", None)
    typed = TypedValues(
        kind=kind,
        schema=None if given == LATEST else _schema_in(given, is_text=kind != PROTOBUF),
        message=options.pop("message", "") if kind == PROTOBUF else "",
        registry=Registry(urls, user_info) if urls else None,
        subject=options.pop("subject", "") or f"{options.get('subscribe', '')}-value",
    )
    if typed.schema is not None:
        columns_of(typed)
    elif not urls:
        raise UnfitSchemaError("the latest schema is in a registry: give schema.registry.url.")
    elif typed.subject == "-value" or "," in typed.subject:
        raise UnfitSchemaError("of several topics there is no latest schema: give the subject.")
    return typed


def settled(typed: TypedValues) -> TypedValues:
    """With the schema of the registry if there is none; PipelineError."""
    if typed.schema is not None:
        return typed
    assert typed.registry is not None
    subject, form = typed.subject, SERIALIZED if typed.kind == PROTOBUF else ""
    with _told(typed):
        if typed.number is None:
            answer = typed.registry.version(subject, LATEST, form)
        else:
            answer = typed.registry.schema(typed.number, form)
        if typed.kind == AVRO:
            return typed.replace(schema=json.dumps(avro_of(typed.registry, answer, subject)).encode())
        if typed.kind == PROTOBUF:
            return typed.replace(schema=descriptors_of(typed.registry, answer, subject))
        others = references_of(typed.registry, answer)
        references = tuple((name, json_of(other, name)) for name, other in others.items())
        return typed.replace(schema=json_of(answer, subject), references=references)


def latest_id(typed: TypedValues) -> int:
    """In the registry, of its subject; PipelineError."""
    assert typed.registry is not None
    with _told(typed):
        number: int = typed.registry.version(typed.subject)["id"]
    return number


@contextmanager
def _told(typed: TypedValues) -> Iterator[None]:
    try:
        yield
    except (ConversionError, RetriableError) as error:
        raise PipelineError(f"{typed.subject}: {error}") from error


def columns_of(typed: TypedValues) -> str:
    """The fields as DDL, of a settled schema; SchemaError."""
    assert typed.schema is not None
    if typed.kind == AVRO:
        return avro_columns(avro_schema(typed.schema))
    if typed.kind == JSON_SCHEMA:
        return JsonSchema(typed.schema, typed.references).columns()
    return protobuf_columns(message_type(typed.schema, typed.message))


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
