"""Avro with schemas in a registry: a zero byte, a schema's id in four bytes, then the value (Confluent's wire format).

It comes along as `io.confluent.connect.avro.AvroConverter`, in short `AvroConverter`, where `fastavro` is installed.
The schema of a topic's values is registered as `<topic>-value`, that of its keys as `<topic>-key` (TopicNameStrategy).
A registry is asked within the call, and so in the task's thread, where all converters are called that are not built in.
"""

import json
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from penstock.work.connect.api import RetriableError
from penstock.work.connect.avro_schemas import avro_schema, connect_schema, without_logical_types
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.kept import keep
from penstock.work.connect.registry import HEAD, MAGIC, Registry, schema_id
from penstock.work.connect.registry_avro import avro_of
from penstock.work.connect.schemas import Schema, SchemaError, schema_of

WRONG: Final = (
    SchemaError, SchemaParseException, UnknownType, ValueError, TypeError, LookupError, OverflowError, EOFError,
    AttributeError, struct.error,
)  # fmt: skip
"""What fastavro raises for bytes and values that are not what their schema says."""


class AvroConverter:
    keys = (
        ConfigKey("schema.registry.url", "list", required=True, documentation="where the schema registry is"),
        ConfigKey("auto.register.schemas", "boolean", True, "Whether schemas that are not there are registered."),
        ConfigKey("use.latest.version", "boolean", False, "Whether values are written by the subject's latest schema."),
        ConfigKey("basic.auth.credentials.source", default="URL", documentation="USER_INFO, for those below."),
        ConfigKey("basic.auth.user.info", "password", documentation="user:password"),
    )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """ConfigError."""
        self._settings = parse(self.keys, config)
        for key, value in config.items():
            if key.endswith("subject.name.strategy") and not value.endswith("TopicNameStrategy"):
                raise ConfigError({key: [f"{key}={value}: there is TopicNameStrategy alone"]})
        user_info = None
        if self._settings["basic.auth.credentials.source"] == "USER_INFO":
            user_info = self._settings["basic.auth.user.info"] or ""
        self._registry = Registry(tuple(self._settings["schema.registry.url"]), user_info)
        self._part = "key" if is_key else "value"
        self._read: dict[int, tuple[Any, Schema | None]] = {}
        self._written: dict[str, tuple[Schema, bytes, Any]] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """A value without a schema gets the one that its type implies."""
        if value is None:
            return None
        try:
            known = schema if schema is not None or self._settings["use.latest.version"] else schema_of(value)
            head, parsed = self._writing(topic, known or {})
            data = BytesIO()
            data.write(head)
            fastavro.schemaless_writer(data, parsed, value, strict_allow_default=True)
            return data.getvalue()
        except (ConversionError, RetriableError):
            raise
        except WRONG as error:
            raise ConversionError(f"AvroConverter, topic {topic}: {error}") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Returns no schema where Connect cannot express it."""
        if data is None:
            return None, None
        number = schema_id(data)
        try:
            if number not in self._read:
                avro = avro_of(self._registry, self._registry.schema(number), f"schema {number}")
                keep(self._read, number, (_parsed(avro), connect_schema(avro)))
            parsed, schema = self._read[number]
            value = fastavro.schemaless_reader(BytesIO(data[HEAD.size :]), parsed, None)
            return schema, value
        except (ConversionError, RetriableError):
            raise
        except WRONG as error:
            raise ConversionError(f"AvroConverter, topic {topic}, schema {number}: {error!r}") from error

    def _writing(self, topic: str, schema: Schema) -> tuple[bytes, Any]:
        """What stands before values with this schema, and how they are written."""
        known = self._written.get(topic)
        if known is not None and (known[0] is schema or known[0] == schema):
            return known[1:]
        subject = f"{topic}-{self._part}"
        if self._settings["use.latest.version"]:
            answer = self._registry.version(subject)
            number, avro = int(answer["id"]), avro_of(self._registry, answer, subject)
        else:
            avro = avro_schema(schema)
            key = subject, json.dumps(avro)
            if key not in self._ids:
                registers = self._settings["auto.register.schemas"]
                keep(self._ids, key, self._registry.id_of(subject, {"schema": json.dumps(avro)}, registers=registers))
            number = self._ids[key]
        made = HEAD.pack(MAGIC, number), _parsed(avro)
        keep(self._written, topic, (schema, *made))
        return made


def _parsed(avro: Any) -> Any:
    return fastavro.parse_schema(without_logical_types(avro))
