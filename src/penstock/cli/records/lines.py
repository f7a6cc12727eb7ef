"""Lines in and out: how `produce` reads a record from a line, and how `consume` writes one."""

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from penstock.cli.terminal.lines import printable_json
from penstock.client.values import ConsumedRecord
from penstock.protocol.value import Value

BOOLEANS: Final = {"true": True, "false": False}


Deserializer = Callable[[bytes], str]


def _numbers(kind: str) -> Deserializer:
    layout = struct.Struct(kind)
    return lambda data: str(layout.unpack(data)[0])


DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    "StringDeserializer": lambda data: data.decode(errors="replace"),
    "ByteArrayDeserializer": str,
    "ShortDeserializer": _numbers(">h"),
    "IntegerDeserializer": _numbers(">i"),
    "LongDeserializer": _numbers(">q"),
    "FloatDeserializer": _numbers(">f"),
    "DoubleDeserializer": _numbers(">d"),
    "BooleanDeserializer": lambda data: _numbers(">?")(data).lower(),
    "UUIDDeserializer": lambda data: str(UUID(data.decode())),
}
"""By the names of Kafka's classes."""


def deserializer(name: str) -> Deserializer:
    """Takes the name of Kafka's class, with or without its package; ValueError."""
    found = DESERIALIZERS.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"{name} is not known: known are {', '.join(DESERIALIZERS)}")
    return found


class LineFormatError(ValueError):
    pass


class ParsedLine(Value):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineFormat(Value):
    """Headers, key and value, each before its separator, as far as they are there."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "LineFormat":
        """Takes Kafka's names (`parse.key=true`); ValueError."""
        return cls(**_values(cls, "a line", properties))

    def parse(self, line: bytes) -> ParsedLine:
        """Raises LineFormatError."""
        headers: list[tuple[str, bytes | None]] = []
        if self.parse_headers:
            head, line = self._cut(line, self.headers_delimiter, "headers")
            headers = [] if self._is_null(head) else self._headers(head)
        key: bytes | None = None
        if self.parse_key:
            key, line = self._cut(line, self.key_separator, "key")
        return ParsedLine(
            None if key is None or self._is_null(key) else key, None if self._is_null(line) else line, headers
        )

    def _headers(self, text: bytes) -> list[tuple[str, bytes | None]]:
        headers: list[tuple[str, bytes | None]] = []
        for pair in text.split(self.headers_separator):
            name, value = self._cut(pair, self.headers_key_separator, "name of a header")
            headers.append((name.decode(errors="replace"), None if self._is_null(value) else value))
        return headers

    def _cut(self, line: bytes, separator: bytes, what: str) -> tuple[bytes, bytes]:
        before, found, after = line.partition(separator)
        if not found:
            raise LineFormatError(f"no {separator.decode(errors='replace')!r} behind the {what} in {line[:80]!r}")
        return before, after

    def _is_null(self, text: bytes) -> bool:
        return self.null_marker is not None and text == self.null_marker


class RecordFormat(Value):
    """The fields are in the order of kafka-console-consumer.sh."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "RecordFormat":
        """Takes Kafka's names (`print.key=true`); ValueError."""
        return cls(**_values(cls, "the output", properties))

    def format(self, record: ConsumedRecord) -> bytes:
        """The record has its line's end; LineFormatError for what a deserializer cannot read."""
        parts: list[bytes] = []
        if self.print_timestamp:
            kind = "LogAppendTime" if record.is_log_append_time else "CreateTime"
            parts.append(f"{kind}:{record.timestamp_ms}".encode() if record.timestamp_ms >= 0 else b"NO_TIMESTAMP")
        if self.print_partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.print_offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.print_headers:
            pairs = [name.encode() + b":" + self._or_null(value) for name, value in record.headers]
            parts.append(self.headers_separator.join(pairs) or b"NO_HEADERS")
        if self.print_key:
            parts.append(self._shown(record.key, self.key_deserializer))
        if self.print_value:
            parts.append(self._shown(record.value, self.value_deserializer))
        return self.key_separator.join(parts) + self.line_separator

    def _shown(self, data: bytes | None, read: Deserializer | None) -> bytes:
        if data is None or read is None:
            return self._or_null(data)
        try:
            return read(data).encode()
        except (ValueError, struct.error) as error:
            raise LineFormatError(f"{data[:80]!r}: {error}") from None

    def _or_null(self, value: bytes | None) -> bytes:
        return self.null_literal if value is None else value


def record_as_json(record: ConsumedRecord) -> bytes:
    """One line. Bytes that are not UTF-8 stand as base64 under a key that ends in `_base64`."""
    document: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if record.is_log_append_time else "CreateTime",
    }
    for name, data in (("key", record.key), ("value", record.value)):
        key, shown = _readable(name, data)
        document[key] = shown
    headers: list[dict[str, object]] = []
    for name, data in record.headers:
        key, shown = _readable("value", data)
        headers.append({"name": name, key: shown})
    document["headers"] = headers
    return printable_json(document).encode() + b"\n"


def _readable(name: str, data: bytes | None) -> tuple[str, str | None]:
    if data is None:
        return name, None
    try:
        return name, data.decode()
    except UnicodeDecodeError:
        return f"{name}_base64", base64.b64encode(data).decode()


def _bool(key: str, text: str) -> bool:
    if text.strip().lower() not in BOOLEANS:
        raise ValueError(f"{key}={text}: allowed are true and false")
    return BOOLEANS[text.strip().lower()]


def _bytes(text: str) -> bytes:
    return text.replace("\\t", "\t").replace("\\n", "\n").encode()


def _values(format_class: type[Value], what: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Takes the properties of Kafka's tools, which have dots in their names; ValueError."""
    values: dict[str, Any] = {}
    for key, text in properties.items():
        name = key.replace(".", "_")
        if name not in format_class.__fields__:
            known = ", ".join(field.replace("_", ".") for field in format_class.__fields__)
            raise ValueError(f"{key} is no property of {what}: known are {known}")
        if name.endswith("_deserializer"):
            values[name] = deserializer(text)
        else:
            values[name] = _bool(key, text) if isinstance(format_class.__defaults__[name], bool) else _bytes(text)
    return values
