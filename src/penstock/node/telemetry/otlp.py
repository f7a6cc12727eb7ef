"""Reads the metrics of OpenTelemetry's protocol, `MetricsData` in Protobuf, as far as clients of Kafka use it.

A number that only grows comes as a total, or as what was added since the last push (`is_delta`). Of a histogram there
are its count and its sum. What is not known is passed over; what is no Protobuf raises DecodeError. The input decides
how much work this is, so bound it; no more than `most` points are made of it.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from penstock.protocol.errors import DecodeError

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
DELTA: Final = 1
MOST_FIELDS: Final = 100_000
"""A tenth of a second; a client's metrics have some thousand."""
LONGEST_VARINT: Final = 10
MOST_ATTRIBUTES: Final = 16
LONGEST_TEXT: Final = 200
"""A longer name or value is cut."""
_DOUBLE: Final = struct.Struct("<d")
_FIXED64: Final = struct.Struct("<q")

Data = memoryview
Item = tuple[int, int, int, Data]
"""Number and type of a field, and its value as a number or as bytes, whichever it has."""
EMPTY: Final = memoryview(b"")


class Point(NamedTuple):
    """`labels` are pairs, sorted."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_delta: bool


def read_points(data: bytes | bytearray | memoryview, most: int) -> list[Point]:
    return list(islice(_Reader().points(memoryview(data)), most))


class _Reader:
    """Looks at so many fields at most, whatever the input is made of."""

    def __init__(self) -> None:
        self._left = MOST_FIELDS

    def points(self, data: Data) -> Iterator[Point]:
        for of_resource in self._each(data, 1):
            for of_scope in self._each(of_resource, 2):
                for metric in self._each(of_scope, 2):
                    yield from self._of_metric(metric)

    def _of_metric(self, metric: Data) -> Iterator[Point]:
        name = self._first_text(metric)
        for number, kind, _, body in self._fields(metric):
            if kind == BYTES and number in (5, 7):  # a gauge, a sum
                is_delta = self._number(body, 2) == DELTA
                for point in self._each(body, 1):
                    value = self._value(point)
                    if value is not None:
                        yield Point(name, self._attributes(point, 7), value, is_delta)
            elif kind == BYTES and number == 9:  # a histogram
                is_delta = self._number(body, 2) == DELTA
                for point in self._each(body, 1):
                    labels = self._attributes(point, 9)
                    yield Point(f"{name}.count", labels, float(self._number(point, 4)), is_delta)
                    yield Point(f"{name}.sum", labels, _double(self._number(point, 5)), is_delta)

    def _value(self, point: Data) -> float | None:
        """Which is a double or a whole number."""
        for number, kind, raw, _ in self._fields(point):
            if number == 4 and kind == FIXED64:
                return _double(raw)
            if number == 6 and kind == FIXED64:
                return float(_FIXED64.unpack(raw.to_bytes(8, "little"))[0])
        return None

    def _attributes(self, point: Data, wanted: int) -> tuple[tuple[str, str], ...]:
        pairs: dict[str, str] = {}
        for pair in self._each(point, wanted):
            if len(pairs) < MOST_ATTRIBUTES:
                pairs[self._first_text(pair)] = next(map(self._any, self._each(pair, 2)), "")
        return tuple(sorted(pairs.items()))

    def _any(self, value: Data) -> str:
        for number, kind, raw, body in self._fields(value):
            match number, kind:
                case 1, 2:
                    return _text(body)
                case 2, 0:
                    return "true" if raw else "false"
                case 3, 0:
                    return str(raw - (1 << 64) if raw >= 1 << 63 else raw)
                case 4, 1:
                    return repr(_double(raw))
        return ""

    def _first_text(self, data: Data) -> str:
        return next(map(_text, self._each(data, 1)), "")

    def _number(self, data: Data, wanted: int) -> int:
        return next((raw for number, kind, raw, _ in self._fields(data) if number == wanted and kind != BYTES), 0)

    def _each(self, data: Data, wanted: int) -> Iterator[Data]:
        return (body for number, kind, _, body in self._fields(data) if number == wanted and kind == BYTES)

    def _fields(self, data: Data) -> Iterator[Item]:
        position, end = 0, len(data)
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise DecodeError(f"more than {MOST_FIELDS} fields")
            tag, position = _varint(data, position)
            kind, raw, body = tag & 7, 0, EMPTY
            if kind == VARINT:
                raw, position = _varint(data, position)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
                raw, position = int.from_bytes(data[position : position + size], "little"), position + size
            elif kind == BYTES:
                size, position = _varint(data, position)
                body, position = data[position : position + size], position + size
            else:
                raise DecodeError(f"a field of wire type {kind}")
            if position > end:
                raise DecodeError("a field goes on behind the end")
            yield tag >> 3, kind, raw, body


def _double(raw: int) -> float:
    return float(_DOUBLE.unpack(raw.to_bytes(8, "little"))[0])


def _text(data: Data) -> str:
    return bytes(data[: 4 * LONGEST_TEXT]).decode("utf-8", "replace")[:LONGEST_TEXT]


def _varint(data: Data, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(LONGEST_VARINT):
        if position >= len(data):
            raise DecodeError("a number goes on behind the end")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return result & ((1 << 64) - 1), position
    raise DecodeError("a number of more than ten bytes")
