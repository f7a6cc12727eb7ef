"""Protobuf: which columns messages of a type have, as Spark's DDL, and how they are read.

A type comes from a set of descriptors: a file (`protoc --include_imports --descriptor_set_out=FILE`), or what a
registry has, which hands out descriptors as well, so nothing has to be compiled here.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from penstock.pipeline.errors import UnfitSchemaError
from penstock.protocol.errors import DecodeError as VarintError
from penstock.protocol.varint import decode_varint
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.kept import keep
from penstock.work.connect.registry import HEAD, SERIALIZED, Schemas, references_of, schema_id

PROTOBUF: Final = "PROTOBUF"
GOOGLES: Final = "google/protobuf/"
"""Files below it come with protobuf itself; few sets have them, and no registry."""
WRAPPERS: Final = tuple(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
SIMPLE: Final = {
    FieldDescriptor.TYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.TYPE_FLOAT: "FLOAT",
    FieldDescriptor.TYPE_INT32: "INT",
    FieldDescriptor.TYPE_SINT32: "INT",
    FieldDescriptor.TYPE_SFIXED32: "INT",
    FieldDescriptor.TYPE_UINT32: "BIGINT",
    FieldDescriptor.TYPE_FIXED32: "BIGINT",
    FieldDescriptor.TYPE_INT64: "BIGINT",
    FieldDescriptor.TYPE_SINT64: "BIGINT",
    FieldDescriptor.TYPE_SFIXED64: "BIGINT",
    FieldDescriptor.TYPE_UINT64: "DECIMAL(20, 0)",
    FieldDescriptor.TYPE_FIXED64: "DECIMAL(20, 0)",
    FieldDescriptor.TYPE_BOOL: "BOOLEAN",
    FieldDescriptor.TYPE_STRING: "STRING",
    FieldDescriptor.TYPE_BYTES: "BINARY",
    FieldDescriptor.TYPE_ENUM: "STRING",
}
Convert = Callable[[Any], Any]
Read = Callable[[Any], Any]


def _as_json(message: Message) -> str:
    text: str = MessageToJson(message, indent=None)
    return text


SPECIAL: Final[Mapping[str, tuple[str, Convert]]] = {
    "google.protobuf.Timestamp": ("TIMESTAMP", lambda message: message.ToDatetime(UTC)),
    "google.protobuf.Duration": ("INTERVAL DAY TO SECOND", lambda message: message.ToTimedelta()),
    "google.protobuf.Struct": ("STRING", _as_json),
    "google.protobuf.Value": ("STRING", _as_json),
    "google.protobuf.ListValue": ("STRING", _as_json),
}
"""Well-known types that are more than their fields; the last three may hold themselves."""


def message_type(schema: bytes, name: str) -> Descriptor:
    """The type of that name, or the first of the last file without a name; SchemaError."""
    files = FileDescriptorSet()
    try:
        files.ParseFromString(schema)
    except DecodeError:
        raise UnfitSchemaError("it is no set of descriptors, as protoc --descriptor_set_out writes it.") from None
    if not files.file:
        raise UnfitSchemaError("there is no file in it.")
    pool = DescriptorPool()
    try:
        _add_all({file.name: file for file in files.file}, pool)
        if not name:
            return next(iter(pool.FindFileByName(files.file[-1].name).message_types_by_name.values()))
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = ", ".join(_names(files.file[-1]))
        raise UnfitSchemaError(f"there is no message {name} in it; there are {known}.") from None
    except StopIteration:
        raise UnfitSchemaError("there is no message in it.") from None
    except TypeError as error:
        raise UnfitSchemaError(
            f"its files cannot be put together (was it protoc --include_imports?): {error}"
        ) from None


def protobuf_columns(kind: Descriptor) -> str:
    """The fields of a message as DDL; SchemaError."""
    fields = _fields(kind, " ", ())
    if not fields:
        raise UnfitSchemaError(f"{kind.full_name} has no fields.")
    return fields


def descriptors_of(registry: Schemas, answer: Mapping[str, Any], name: str) -> bytes:
    """The set of descriptors of a schema, in its serialized form, and of all its references; ConversionError."""
    files = FileDescriptorSet()
    for place, one in (*references_of(registry, answer, SERIALIZED).items(), (name, answer)):
        file = _file_of(one, place)
        file.name = place
        files.file.append(file)
    made: bytes = files.SerializeToString()
    return made


class ProtobufReader:
    """With a registry: only messages whose schema there has the type's name."""

    def __init__(self, kind: Descriptor, registry: Schemas | None) -> None:
        self._kind = kind
        self._class = GetMessageClass(kind)
        self._read = _reader(kind)
        self._registry = registry
        self._files: dict[int, FileDescriptorProto] = {}

    def __call__(self, data: bytes) -> Mapping[str, Any]:
        """ConversionError."""
        body = data if self._registry is None else self._body(self._registry, data)
        try:
            message = self._class.FromString(body)
            if not message.IsInitialized():
                raise ConversionError(f"there is no {', '.join(message.FindInitializationErrors())}")
            fields: Mapping[str, Any] = self._read(message)
        except (DecodeError, ValueError, OverflowError) as error:
            raise ConversionError(str(error)) from error
        return fields

    def _body(self, registry: Schemas, data: bytes) -> bytes:
        number = schema_id(data)
        if number not in self._files:
            answer = registry.schema(number, SERIALIZED)
            keep(self._files, number, _file_of(answer, f"schema {number}"))
        place, path = indexes(data, HEAD.size)
        name = name_at(self._files[number], path)
        if name != self._kind.full_name:
            raise ConversionError(f"it is a {name}")
        return data[place:]


def _add_all(files: Mapping[str, FileDescriptorProto], pool: DescriptorPool) -> None:
    """Each file after its imports; TypeError names a missing one."""
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        file = files.get(name) or _googles(name)
        if file is not None:
            for imported in file.dependency:
                add(imported)
            pool.AddSerializedFile(file.SerializeToString())

    for name in files:
        add(name)


def _googles(name: str) -> FileDescriptorProto | None:
    if not name.startswith(GOOGLES):
        return None
    try:
        module = importlib.import_module(f"google.protobuf.{name.removeprefix(GOOGLES).removesuffix('.proto')}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _names(file: FileDescriptorProto) -> list[str]:
    return [f"{file.package}.{one.name}".lstrip(".") for one in file.message_type]


def _fields(kind: Descriptor, between: str, outer: tuple[str, ...]) -> str:
    if kind.full_name in outer:
        raise UnfitSchemaError(f"{kind.full_name} is part of itself.")
    inner = (*outer, kind.full_name)
    return ", ".join(
        f"`{field.name}`{between}{_type(field, inner)}" for field in kind.fields if not _is_empty(field, inner)
    )


def _is_empty(field: FieldDescriptor, outer: tuple[str, ...] = ()) -> bool:
    """There is no column for a message without fields."""
    kind = field.message_type
    if kind is None or kind.full_name in SPECIAL or kind.full_name in outer:
        return False
    inner = (*outer, kind.full_name)
    return all(_is_empty(one, inner) for one in (kind.fields[1:] if _is_map(field) else kind.fields))


def _type(field: FieldDescriptor, outer: tuple[str, ...]) -> str:
    if _is_map(field):
        key, value = field.message_type.fields
        return f"MAP<{_single(key, outer)}, {_single(value, outer)}>"
    return f"ARRAY<{_single(field, outer)}>" if field.is_repeated else _single(field, outer)


def _single(field: FieldDescriptor, outer: tuple[str, ...]) -> str:
    kind = field.message_type
    if kind is None:
        return SIMPLE[field.type]
    if kind.full_name in SPECIAL:
        return SPECIAL[kind.full_name][0]
    if kind.full_name in WRAPPERS:
        return SIMPLE[kind.fields[0].type]
    return f"STRUCT<{_fields(kind, ': ', outer)}>"


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _reader(kind: Descriptor) -> Read:
    """Makes a row of a message; a field that may be missing, and is, is None."""
    fields = [(field.name, field.has_presence, _converter(field)) for field in kind.fields if not _is_empty(field)]

    def read(message: Message) -> dict[str, Any]:
        return {
            name: convert(getattr(message, name)) if not has_presence or message.HasField(name) else None
            for name, has_presence, convert in fields
        }

    return read


def _converter(field: FieldDescriptor) -> Convert:
    if _is_map(field):
        key, value = (_single_converter(one) for one in field.message_type.fields)
        return lambda entries: [(key(name), value(entries[name])) for name in entries]
    convert = _single_converter(field)
    return (lambda items: [convert(item) for item in items]) if field.is_repeated else convert


def _single_converter(field: FieldDescriptor) -> Convert:
    kind = field.message_type
    if field.enum_type is not None:
        names = {one.number: one.name for one in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if kind is None:
        return lambda value: value
    if kind.full_name in SPECIAL:
        return SPECIAL[kind.full_name][1]
    if kind.full_name in WRAPPERS:
        return lambda message: message.value
    return _reader(kind)


def _file_of(answer: Mapping[str, Any], name: str) -> FileDescriptorProto:
    if answer.get("schemaType") != PROTOBUF:
        raise ConversionError(f"{name} is no Protobuf")
    try:
        return FileDescriptorProto.FromString(base64.b64decode(answer["schema"], validate=True))
    except (ValueError, DecodeError) as error:
        raise ConversionError(f"{name} has not come as descriptors, but as {answer['schema']!s:.60}") from error


def indexes(data: bytes, place: int) -> tuple[int, list[int]]:
    """Of a value behind its head: where the message begins, and its type's indexes in the file, outermost first."""
    count, place = _zigzag(data, place)
    if count == 0:
        return place, [0]  # written short, as nearly all are the first
    path = []
    for _ in range(count):
        index, place = _zigzag(data, place)
        path.append(index)
    return place, path


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    try:
        return decode_varint(data, place)
    except (IndexError, VarintError):
        raise ConversionError("no indexes of a message before the value") from None


def name_at(file: FileDescriptorProto, path: list[int]) -> str:
    def walk() -> Iterator[str]:
        messages = file.message_type
        for index in path:
            if not 0 <= index < len(messages):
                raise ConversionError(f"its schema has no message {path}")
            yield messages[index].name
            messages = messages[index].nested_type

    return ".".join([*filter(None, [file.package]), *walk()])
