"""Metrics as OpenTelemetry writes them in Protobuf, by hand."""

import struct

from penstock.protocol.varint import encode_uvarint


def field(number: int, body: bytes) -> bytes:
    return encode_uvarint(number << 3 | 2) + encode_uvarint(len(body)) + body


def fixed(number: int, value: float) -> bytes:
    return encode_uvarint(number << 3 | 1) + (
        struct.pack("<q", value) if isinstance(value, int) else struct.pack("<d", value)
    )


def attribute(number: int, key: str, value: str) -> bytes:
    return field(number, field(1, key.encode()) + field(2, field(1, value.encode())))


def gauge(name: str, value: float, **labels: str) -> bytes:
    point = b"".join(attribute(7, key, text) for key, text in labels.items()) + fixed(
        6 if isinstance(value, int) else 4, value
    )
    return field(1, name.encode()) + field(5, field(1, point))


def total(name: str, value: int, temporality: int) -> bytes:
    return field(1, name.encode()) + field(
        7, field(1, fixed(6, value)) + encode_uvarint(2 << 3) + bytes([temporality]) + b"\x18\x01"
    )


def histogram(name: str, count: int, of: float) -> bytes:
    return field(1, name.encode()) + field(
        9, field(1, fixed(4, count) + fixed(5, of) + field(6, bytes(16))) + b"\x10\x02"
    )


def metrics_data(*metrics: bytes) -> bytes:
    return field(1, field(1, b"") + field(2, field(1, b"") + b"".join(field(2, metric) for metric in metrics)))
