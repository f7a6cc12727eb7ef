"""Avro with schemas in a registry: a zero byte, a schema's id in four bytes, then the value (Confluent's wire format).

It comes along as `io.confluent.connect.avro.AvroConverter`, in short `AvroConverter`, for those who have `fastavro`.
The schema of a topic's values is registered as `<topic>-value`, that of its keys as `<topic>-key` (TopicNameStrategy).
A registry is asked within the call, and so in the task's thread, where all converters are called that are not built in.
"""

import base64
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final, TypeVar
from urllib.parse import quote

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from penstock.work.connect.api import RetriableError
from penstock.work.connect.avro_schemas import (
    InexpressibleError,
    avro_schema,
    connect_schema,
    without_logical_types,
)
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.schemas import Schema, SchemaError, schema_of

MAGIC: Final = 0
TIMEOUT_S: Final = 30
MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MOST_SCHEMAS: Final = 1_000
"""So many schemas and ids are kept; the oldest go first."""
_HEAD: Final = struct.Struct(">bI")
_WRONG: Final = (
    SchemaError, SchemaParseException, UnknownType, ValueError, TypeError, LookupError, OverflowError, EOFError,
    AttributeError, struct.error,
)  # fmt: skip
"""What fastavro raises for bytes and values that are not what their schema says."""
Key = TypeVar("Key")
Kept = TypeVar("Kept")


class Registry:
    """Schemas by their ids, and ids of schemas; RetriableError if none of the addresses answers."""

    def __init__(self, urls: tuple[str, ...], user_info: str | None) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE}, application/json"}
        if user_info is not None:
            self._headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"

    def schema(self, number: int) -> Any:
        """The schema of that id; ConversionError."""
        return _avro(self._ask(f"/schemas/ids/{number}"), f"schema {number}")

    def latest(self, subject: str) -> tuple[int, Any]:
        """The latest schema of a subject, with its id; ConversionError."""
        answer = self._ask(f"/subjects/{quote(subject, '')}/versions/latest")
        return int(answer["id"]), _avro(answer, subject)

    def id_of(self, subject: str, schema: Any, *, registers: bool) -> int:
        """The id of a schema, which is registered where it is not known; ConversionError."""
        path = f"/subjects/{quote(subject, '')}" + ("/versions" if registers else "")
        return int(self._ask(path, {"schema": json.dumps(schema)})["id"])

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        error: Exception | None = None
        for url in self._urls:
            request = urllib.request.Request(f"{url}{path}", data, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as refusal:
                words = refusal.read(1_000).decode("utf-8", "replace")
                if refusal.code < 500 and refusal.code != 429:
                    raise ConversionError(f"the schema registry said {refusal.code} to {path}: {words}") from refusal
                error = refusal
            except (OSError, ValueError) as failure:
                error = failure
        raise RetriableError(f"the schema registry has not answered {path}: {error}") from error


class AvroConverter:
    """See the module."""

    keys = (
        ConfigKey("schema.registry.url", "list", required=True, documentation="where the schema registry is"),
        ConfigKey("auto.register.schemas", "boolean", True, "Whether schemas that are not there are registered."),
        ConfigKey("use.latest.version", "boolean", False, "Whether values are written by the subject's latest schema."),
        ConfigKey("basic.auth.credentials.source", default="URL", documentation="USER_INFO, for those below."),
        ConfigKey("basic.auth.user.info", "password", documentation="user:password"),
    )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """See Converter; ConfigError."""
        self._settings = parse(self.keys, config)
        for key, value in config.items():
            if key.endswith("subject.name.strategy") and not value.endswith("TopicNameStrategy"):
                raise ConfigError({key: [f"{key}={value}: there is TopicNameStrategy alone"]})
        user_info = None
        if self._settings["basic.auth.credentials.source"] == "USER_INFO":
            user_info = self._settings["basic.auth.user.info"] or ""
        self._registry = Registry(self._settings["schema.registry.url"], user_info)
        self._part = "key" if is_key else "value"
        self._read: dict[int, tuple[Any, Schema | None]] = {}
        self._written: dict[str, tuple[Schema, bytes, Any]] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter. A value without a schema gets the one that it has by itself."""
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
        except _WRONG as error:
            raise ConversionError(f"AvroConverter, topic {topic}: {error}") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """See Converter. A schema that Connect has nothing for is left out."""
        if data is None:
            return None, None
        if len(data) < _HEAD.size or data[0] != MAGIC:
            raise ConversionError(f"AvroConverter, topic {topic}: no zero byte and the id of a schema before the value")
        number = _HEAD.unpack_from(data)[1]
        try:
            if number not in self._read:
                avro = self._registry.schema(number)
                _keep(self._read, number, (_parsed(avro), _expressed(avro)))
            parsed, schema = self._read[number]
            value = fastavro.schemaless_reader(BytesIO(data[_HEAD.size :]), parsed, None)
            return schema, value
        except (ConversionError, RetriableError):
            raise
        except _WRONG as error:
            raise ConversionError(f"AvroConverter, topic {topic}, schema {number}: {error!r}") from error

    def _writing(self, topic: str, schema: Schema) -> tuple[bytes, Any]:
        """What stands before values with this schema, and how they are written."""
        known = self._written.get(topic)
        if known is not None and (known[0] is schema or known[0] == schema):
            return known[1:]
        subject = f"{topic}-{self._part}"
        if self._settings["use.latest.version"]:
            number, avro = self._registry.latest(subject)
        else:
            avro = avro_schema(schema)
            key = subject, json.dumps(avro)
            if key not in self._ids:
                registers = self._settings["auto.register.schemas"]
                _keep(self._ids, key, self._registry.id_of(subject, avro, registers=registers))
            number = self._ids[key]
        made = _HEAD.pack(MAGIC, number), _parsed(avro)
        _keep(self._written, topic, (schema, *made))
        return made


def _avro(answer: Mapping[str, Any], name: str) -> Any:
    if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
        raise ConversionError(f"{name} is no Avro, or refers to other schemas, which is not supported")
    return json.loads(answer["schema"])


def _parsed(avro: Any) -> Any:
    return fastavro.parse_schema(without_logical_types(avro))


def _expressed(avro: Any) -> Schema | None:
    try:
        return connect_schema(avro)
    except InexpressibleError:
        return None


def _keep(table: dict[Key, Kept], key: Key, value: Kept) -> None:
    if len(table) >= MOST_SCHEMAS:
        del table[next(iter(table))]
    table[key] = value
