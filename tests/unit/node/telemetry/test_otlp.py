"""Metrics in OpenTelemetry's Protobuf are read, as Google's library writes them, and garbage ends in an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.node.telemetry.otlp_bytes import field, fixed, gauge, histogram, metrics_data, total

from penstock.node.telemetry import otlp
from penstock.node.telemetry.otlp import Point, _Reader, read_points
from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import encode_uvarint

MOST = 100


def test_gauges_sums_and_histograms() -> None:
    data = metrics_data(
        gauge("org.a", 1.5, node="1", client="x"),
        gauge("b", -3),
        total("c", 7, 1),
        total("d", 8, 2),
        histogram("e", 4, 2.5),
    )
    assert read_points(data, MOST) == [
        Point("org.a", (("client", "x"), ("node", "1")), 1.5, False),
        Point("b", (), -3.0, False),
        Point("c", (), 7.0, True),
        Point("d", (), 8.0, False),
        Point("e.count", (), 4.0, False),
        Point("e.sum", (), 2.5, False),
    ]


def test_what_is_not_known_is_passed_over() -> None:
    unknown = b"\x98\x06\x01" + field(101, b"later") + b"\xa5\x06\0\0\0\0"
    assert read_points(unknown + metrics_data(unknown + gauge("a", 1)), MOST) == [Point("a", (), 1.0, False)]


def test_a_long_name_is_cut_and_points_are_bounded() -> None:
    (point,) = read_points(metrics_data(gauge("é" * 5_000, 1)), MOST)
    assert point.name == "é" * otlp.LONGEST_TEXT
    assert len(read_points(metrics_data(*[gauge("a", number) for number in range(1000)]), MOST)) == MOST


@pytest.mark.parametrize(
    "garbage",
    [b"\x0a\x7f", b"\x0a" + b"\xff" * 11, b"\x0b", metrics_data(b"\x09\x01"), b"\x09\x01\x02", b"\x80"],
)
def test_what_is_no_protobuf_is_an_error(garbage: bytes) -> None:
    with pytest.raises(DecodeError):
        read_points(garbage, MOST)


def test_a_million_fields_are_not_looked_at() -> None:
    with pytest.raises(DecodeError, match="more than 100000 fields"):
        read_points(b"\x10\x01" * 500_000, MOST)


@given(st.binary(max_size=200))
def test_any_bytes_are_points_or_an_error(data: bytes) -> None:
    try:
        read_points(metrics_data(gauge("a", 1), data) + data, MOST)
    except DecodeError:
        pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (field(1, b"on"), "on"),
        (encode_uvarint(2 << 3) + encode_uvarint(1), "true"),
        (encode_uvarint(3 << 3) + encode_uvarint(5), "5"),
        (encode_uvarint(3 << 3) + encode_uvarint((1 << 64) - 5), "-5"),
        (fixed(4, 0.5), "0.5"),
        (b"", ""),
    ],
)
def test_values_of_attributes_are_text(value: bytes, text: str) -> None:
    assert _Reader()._any(memoryview(value)) == text
