"""Protobuf's messages as JSON, in Protobuf's own mapping: 64-bit numbers are texts, fields have their own names."""

import base64
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message_factory import GetMessageClass

from penstock.console.apart.schema import HEAD_BYTES, KnownSchema
from penstock.pipeline.values.protobuf import indexes, message_type, name_at
from penstock.pipeline.values.protobuf_writing import indexes_of


def decoder(schema: KnownSchema) -> Callable[[bytes], str]:
    files = _files(schema)
    whole = files.SerializeToString()
    classes: dict[str, Any] = {}

    def decode(data: bytes) -> str:
        place, path = indexes(data, HEAD_BYTES)
        name = name_at(files.file[-1], path)
        if name not in classes:
            classes[name] = GetMessageClass(message_type(whole, name))
        message = classes[name].FromString(data[place:])
        return str(MessageToJson(message, indent=None, preserving_proto_field_name=True, ensure_ascii=False))

    return decode


def encoder(schema: KnownSchema) -> Callable[[str], bytes]:
    kind = message_type(_files(schema).SerializeToString(), "")
    head = schema.head + indexes_of(kind)

    def encode(text: str) -> bytes:
        message = Parse(text, GetMessageClass(kind)())
        return head + bytes(message.SerializeToString(deterministic=True))

    return encode


def _files(schema: KnownSchema) -> FileDescriptorSet:
    """As a registry has them: each in base64, what is referred to before what refers to it."""
    files = FileDescriptorSet()
    for name, text in (*schema.references, (f"schema {schema.number}", schema.text)):
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        file.name = name
        files.file.append(file)
    return files
