"""Protobuf: rows become messages, and their files are registered, each with what it imports."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from penstock.pipeline.values.protobuf import GOOGLES, PROTOBUF, WRAPPERS
from penstock.protocol.varint import encode_varint
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import Schemas

Fill = Callable[[Message, Any], object]
"""Puts a value into a message."""
SPECIAL: Final[Mapping[str, Fill]] = {
    "google.protobuf.Timestamp": lambda message, time: message.FromDatetime(time),
    "google.protobuf.Duration": lambda message, time: message.FromTimedelta(time),
    "google.protobuf.Struct": lambda message, text: Parse(text, message),
    "google.protobuf.Value": lambda message, text: Parse(text, message),
    "google.protobuf.ListValue": lambda message, text: Parse(text, message),
}
UNFIT: Final = (TypeError, ValueError, KeyError, AttributeError, EncodeError, ParseError)


class ProtobufWriter:
    """Messages of this type, behind `head` with their indexes where there is one."""

    def __init__(self, kind: Descriptor, head: bytes) -> None:
        self._class = GetMessageClass(kind)
        self._fill = _filler(kind)
        self._head = head and head + indexes_of(kind)

    def __call__(self, row: Mapping[str, Any]) -> bytes:
        """ConversionError."""
        message = self._class()
        try:
            self._fill(message, row)
            return self._head + bytes(message.SerializeToString(deterministic=True))
        except UNFIT as error:
            raise ConversionError(str(error) or type(error).__name__) from error


def indexes_of(kind: Descriptor) -> bytes:
    """The message's place in its file, as Confluent's clients write it: a count and indexes, or 0 for the first."""
    path: list[int] = []
    at: Descriptor | None = kind
    while at is not None:
        outer = at.containing_type
        siblings = at.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.insert(0, [one.full_name for one in siblings].index(at.full_name))
        at = outer
    return b"\0" if path == [0] else b"".join(encode_varint(number) for number in (len(path), *path))


def document_of(registry: Schemas, file: FileDescriptor) -> dict[str, Any]:
    """As a registry takes it; what the file imports is registered before, by its name."""
    references = []
    for imported in file.dependencies:
        if not imported.name.startswith(GOOGLES):
            document = document_of(registry, imported)
            registry.id_of(imported.name, document, registers=True)
            version = registry.version_of(imported.name, document)
            references.append({"name": imported.name, "subject": imported.name, "version": version})
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    schema = base64.b64encode(proto.SerializeToString()).decode()
    return {"schemaType": PROTOBUF, "schema": schema, "references": references}


def _filler(kind: Descriptor) -> Fill:
    """A field whose value is None, or missing, stays unset."""
    fillers: dict[str, Fill] = {}

    def fill(message: Message, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            if value is not None:
                if name not in fillers:  # at first use: types may be part of themselves
                    fillers[name] = _field_filler(kind.fields_by_name[name])
                fillers[name](message, value)

    return fill


def _field_filler(field: FieldDescriptor) -> Fill:
    name, kind = field.name, field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return _map_filler(name, *kind.fields)
    if kind is not None:
        inner = _message_filler(kind)
        if field.is_repeated:
            return lambda message, values: [inner(getattr(message, name).add(), value) for value in values]
        return lambda message, value: (getattr(message, name).SetInParent(), inner(getattr(message, name), value))
    convert = _converter(field)
    if field.is_repeated:
        return lambda message, values: getattr(message, name).extend(map(convert, values))
    return lambda message, value: setattr(message, name, convert(value))


def _map_filler(name: str, key: FieldDescriptor, value: FieldDescriptor) -> Fill:
    key_of = _converter(key)
    if value.message_type is not None:
        inner = _message_filler(value.message_type)
        return lambda message, given: [inner(getattr(message, name)[key_of(one)], given[one]) for one in given]
    value_of = _converter(value)
    return lambda message, given: getattr(message, name).update(dict(_converted(given, key_of, value_of)))


def _converted(
    given: Mapping[Any, Any], key_of: Callable[[Any], Any], value_of: Callable[[Any], Any]
) -> Iterator[tuple[Any, Any]]:
    return ((key_of(key), value_of(value)) for key, value in given.items())


def _message_filler(kind: Descriptor) -> Fill:
    if kind.full_name in WRAPPERS:
        convert = _converter(kind.fields[0])
        return lambda message, value: setattr(message, "value", convert(value))
    return SPECIAL.get(kind.full_name) or _filler(kind)


def _converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        numbers = {one.name: one.number for one in field.enum_type.values}
        return lambda name: numbers[name] if name in numbers else int(name)
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return int  # a decimal in Spark
    return lambda value: value
