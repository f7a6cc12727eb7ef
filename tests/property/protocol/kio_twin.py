"""Messages of kio, the oracle: which there are, values that both sides can hold, and ours turned into kio's."""

import dataclasses
import datetime as dt
import importlib
import io
import uuid
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from tools.generate_messages import kafka_name, shape

from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LAST_INSTANT_S = 253_402_300_799
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclasses.dataclass(frozen=True)
class Case:
    """One message in one version."""

    folder: str
    entity: str
    version: int
    kio_path: str

    def __str__(self) -> str:
        return f"{self.kio_path.rpartition(':')[2]}-{self.version}"

    @property
    def kio_class(self) -> Any:
        module, _, name = self.kio_path.partition(":")
        return getattr(importlib.import_module(module), name)

    @property
    def our_class(self) -> type[Message]:
        module = importlib.import_module(f"penstock.protocol.messages.{self.folder}")
        cls: type[Message] = getattr(module, self.kio_path.rpartition(":")[2])
        return cls


def cases() -> list[Case]:
    """Return every message in every version that kio has."""
    return [
        Case(folder, entity.name, version, path)
        for folder, versions in sorted(schema_name_map.items())
        for version, entities in sorted(versions.items())
        for entity, path in entities.items()
    ]


def strategy(kio_class: Any, our_class: type[Message]) -> st.SearchStrategy[Message]:
    """Return a strategy for our message, with only those values that kio can hold as well."""
    values = {}
    for item in dataclasses.fields(kio_class):
        name = kafka_name(kio_class.__name__, item)
        values[name] = _field_strategy(item, our_class.__fields__[name].kind)
    return st.builds(our_class, **values)


def _field_strategy(item: Any, kind: str | type[Message]) -> st.SearchStrategy[Any]:
    inner, is_array, nullable = shape(item.type)
    if isinstance(kind, str):
        value = _value_strategy(item.metadata["kafka_type"], inner, nullable and not is_array)
        if is_array and kind == "uuid":
            value = st.uuids()  # kio has its doubts about zero in arrays
    else:
        value = strategy(inner, kind)
    if is_array:
        value = st.lists(value, max_size=2)
    if nullable and inner is not uuid.UUID and item.metadata.get("kafka_type") != "datetime_i64":
        value = st.none() | value
    return value


def _value_strategy(kafka_type: str, inner: Any, nullable: bool) -> st.SearchStrategy[Any]:
    if kafka_type in INTEGERS:
        bits = INTEGERS[kafka_type] - 1
        return st.integers(-(1 << bits), (1 << bits) - 1)
    if kafka_type == "datetime_i64":
        seconds = st.integers(0, LAST_INSTANT_S).map(lambda s: s * 1000)  # kio's instants are floats: no odd fractions
        return st.just(-1) | seconds if nullable else seconds
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "uint16": st.integers(0, (1 << 16) - 1),
        "float64": st.floats(allow_nan=False, allow_infinity=False),
        "string": st.text(max_size=6) | st.just("ß" * 64),
        "bytes": st.binary(max_size=6) | st.just(b"x" * 127),
        "records": st.binary(max_size=6) | st.just(b"x" * 16384),
        "uuid": st.uuids() | st.just(ZERO_UUID),
        "error_code": st.sampled_from([int(code) for code in KioErrorCode]),
        "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1),
        "timedelta_i64": st.integers(-(10**12), 10**12),
    }
    return simple[kafka_type]


def to_kio(message: Message, kio_class: Any) -> Any:
    """Return kio's twin of our message."""
    values = {}
    for item in dataclasses.fields(kio_class):
        inner, is_array, nullable = shape(item.type)
        value = getattr(message, kafka_name(kio_class.__name__, item))
        if is_array:
            values[item.name] = None if value is None else tuple(_to_kio_value(v, item, inner, False) for v in value)
        else:
            values[item.name] = _to_kio_value(value, item, inner, nullable)
    return kio_class(**values)


def _to_kio_value(value: Any, item: Any, inner: Any, nullable: bool) -> Any:
    if isinstance(value, Message):
        return to_kio(value, inner)
    kafka_type = item.metadata.get("kafka_type", "")
    if kafka_type == "error_code":
        return KioErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return dt.timedelta(milliseconds=value)
    if kafka_type == "datetime_i64":
        return None if nullable and value == -1 else EPOCH + dt.timedelta(milliseconds=value)
    if kafka_type == "uuid" and value == ZERO_UUID and nullable:
        return None
    return value


def kio_bytes(message: Any) -> bytes:
    """Return the bytes that kio writes."""
    with io.BytesIO() as buffer:
        entity_writer(type(message))(buffer, message)
        return buffer.getvalue()


def kio_message(kio_class: Any, data: bytes) -> Any:
    """Return the message that kio reads; only ever give it bytes that are a message."""
    message, size = entity_reader(kio_class)(data, 0)
    assert size == len(data)
    return message
