"""Fields of OpenTelemetry's Protobuf count where they have the type that they should have, and are bounded exactly."""

from __future__ import annotations

import struct

import pytest
from tests.unit.node.telemetry.otlp_bytes import attribute, field, fixed, gauge, metrics_data

from penstock.node.telemetry import otlp
from penstock.node.telemetry.otlp import MOST_ATTRIBUTES, Point, _Reader, read_points
from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import encode_uvarint

MOST = 100


def number(field_number: int, value: int) -> bytes:
    return encode_uvarint(field_number << 3) + encode_uvarint(value)


def of_32_bits(field_number: int, value: int) -> bytes:
    return encode_uvarint(field_number << 3 | 5) + struct.pack("<I", value)


def points_of(metric: bytes) -> list[Point]:
    return read_points(metrics_data(field(1, b"m") + metric), MOST)


POINT = fixed(6, 7)
OTHERS = (number(5, 1), fixed(5, 1), of_32_bits(5, 1), number(7, 1), fixed(7, 1), number(9, 1), fixed(9, 1))


@pytest.mark.parametrize(
    ("metric", "points"),
    [
        *((other + field(5, field(1, POINT)), [("m", 7.0, False)]) for other in OTHERS),
        (field(6, field(1, POINT)), []),
        (field(8, field(1, POINT)), []),
        (field(10, field(1, POINT)), []),
        (field(5, field(2, POINT)), []),
        (field(5, number(1, 9) + field(1, POINT)), [("m", 7.0, False)]),
        (field(5, field(1, POINT) + field(1, POINT)), [("m", 7.0, False)] * 2),
        # the kind of a total: of the first field 2 that is a number
        (field(7, field(1, POINT) + number(2, 1)), [("m", 7.0, True)]),
        (field(7, field(1, POINT) + number(2, 2)), [("m", 7.0, False)]),
        (field(7, field(1, POINT) + number(3, 1)), [("m", 7.0, False)]),
        (field(7, field(1, POINT) + field(2, b"x") + number(2, 1)), [("m", 7.0, True)]),
        (field(7, field(1, POINT) + number(2, 1) + number(2, 2)), [("m", 7.0, True)]),
        # a value is a double in field 4, or a whole number in field 6
        (field(5, field(1, fixed(4, 1.5))), [("m", 1.5, False)]),
        (field(5, field(1, fixed(6, -1))), [("m", -1.0, False)]),
        (field(5, field(1, number(4, 5) + fixed(6, 7))), [("m", 7.0, False)]),
        (field(5, field(1, number(6, 5) + fixed(4, 1.5))), [("m", 1.5, False)]),
        (field(5, field(1, field(4, bytes(8)) + fixed(6, 7))), [("m", 7.0, False)]),
        (field(5, field(1, fixed(5, 1.5) + of_32_bits(4, 1) + fixed(6, 7))), [("m", 7.0, False)]),
        (field(5, field(1, number(4, 5))), []),
        (field(5, field(1, b"")), []),
        # of a histogram there are count and sum
        (
            field(9, field(1, fixed(4, 3) + fixed(5, 2.5)) + number(2, 1)),
            [("m.count", 3.0, True), ("m.sum", 2.5, True)],
        ),
        (field(9, field(1, b"") + number(2, 2)), [("m.count", 0.0, False), ("m.sum", 0.0, False)]),
        (field(9, field(2, fixed(4, 3))), []),
    ],
)
def test_a_field_counts_with_its_type(metric: bytes, points: list[tuple[str, float, bool]]) -> None:
    assert [(name, value, is_delta) for name, _, value, is_delta in points_of(metric)] == points


@pytest.mark.parametrize(("kind", "wanted", "others"), [(5, 7, 9), (7, 7, 9), (9, 9, 7)])
def test_attributes_have_a_field_for_each_kind_of_metric(kind: int, wanted: int, others: int) -> None:
    point = POINT + attribute(wanted, "b", "1") + attribute(others, "c", "2") + attribute(wanted, "a", "3")
    found = points_of(field(kind, field(1, point)))
    assert {labels for _, labels, _, _ in found} == {(("a", "3"), ("b", "1"))}


def test_a_name_without_a_value_is_empty_and_the_last_of_two_counts() -> None:
    point = POINT + field(7, field(1, b"a")) + attribute(7, "b", "1") + attribute(7, "b", "2")
    assert points_of(field(5, field(1, point))) == [Point("m", (("a", ""), ("b", "2")), 7.0, False)]


def test_so_many_attributes_are_kept() -> None:
    names = [f"n{count:02}" for count in range(MOST_ATTRIBUTES + 1)]
    (point,) = points_of(field(5, field(1, POINT + b"".join(attribute(7, name, "v") for name in names))))
    assert [name for name, _ in point.labels] == names[:16]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (number(1, 5) + field(1, b"a"), "a"),
        (field(2, b"a"), ""),
        (number(2, 0), "false"),
        (number(2, 7), "true"),
        (fixed(2, 1), ""),
        (number(3, (1 << 63) - 1), str((1 << 63) - 1)),
        (number(3, 1 << 63), str(-(1 << 63))),
        (fixed(3, 1), ""),
        (number(4, 1), ""),
        (fixed(4, float("inf")), "inf"),
        (number(5, 1) + number(3, 2), "2"),
        (field(1, b"\xff"), "�"),
    ],
)
def test_a_value_is_told_by_its_type(value: bytes, text: str) -> None:
    assert _Reader()._any(memoryview(value)) == text


def test_the_last_field_that_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_FIELDS", 4)
    assert read_points(number(2, 1) * 4, MOST) == []
    with pytest.raises(DecodeError, match="more than 4 fields"):
        read_points(number(2, 1) * 5, MOST)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x10" + b"\xff" * 9 + b"\x7f", None),
        (b"\x10" + b"\xff" * 10 + b"\x01", "more than ten bytes"),
        (b"\x10", "a number goes on behind the end"),
        (b"\x10\x80", "a number goes on behind the end"),
        (b"\x11" + bytes(8), None),
        (b"\x11" + bytes(7), "a field goes on behind the end"),
        (b"\x15" + bytes(4), None),
        (b"\x15" + bytes(3), "a field goes on behind the end"),
        (b"\x12\x02ab", None),
        (b"\x12\x02a", "a field goes on behind the end"),
        (b"\x13", "a field of wire type 3"),
        (b"\x14", "a field of wire type 4"),
        (b"\x16", "a field of wire type 6"),
    ],
)
def test_where_a_field_ends(data: bytes, words: str | None) -> None:
    behind = gauge("a", 1)
    whole = data + metrics_data(behind) if words is None else data
    if words is None:
        assert read_points(whole, MOST) == [Point("a", (), 1.0, False)]
    else:
        with pytest.raises(DecodeError, match=words):
            read_points(whole, MOST)


@pytest.mark.parametrize(
    ("value", "read"), [(0, 0), (127, 127), (128, 128), ((1 << 64) - 1, (1 << 64) - 1), ((1 << 65) + 5, 5)]
)
def test_numbers_have_64_bits(value: int, read: int) -> None:
    assert _Reader()._number(memoryview(number(3, value)), 3) == read
