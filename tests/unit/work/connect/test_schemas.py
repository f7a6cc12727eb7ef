"""Values beside their schemas, form by form: what each kind takes, at its limits, and what is said of other values."""

import base64
from decimal import Decimal
from typing import Any

import pytest

from penstock.work.connect.schemas import (
    DECIMAL,
    ExactFloat,
    JsonForm,
    SchemaError,
    bytes_of,
    decimal_of,
    from_json,
    schema_of,
    to_json,
)

NUMBERS = JsonForm(numeric_decimals=True)
KEEPING = JsonForm(replaces_null=False)
BYTES = {"type": "bytes"}
MONEY = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}}
OTHER = {"type": "bytes", "name": "other", "parameters": {"scale": "2"}}
WITH_DEFAULT = {"type": "int8", "default": 7}
WORDS = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int8"}}
COUNTS = {"type": "map", "keys": {"type": "int8"}, "values": {"type": "string"}}
ROW = {"type": "struct", "fields": [{"type": "int8", "field": "a"}, {"type": "bytes", "field": "b", "optional": True}]}

FITS: list[tuple[Any, Any, Any]] = [
    ({"type": "boolean"}, True, True),
    ({"type": "string"}, "x", "x"),
    ({"type": "float"}, 1, 1),
    ({"type": "double"}, 0.5, 0.5),
    (BYTES, b"\x01\x02", "AQI="),
    (MONEY, b"\x00\x96", "AJY="),
    ({"type": "array", "items": {"type": "int8"}}, (1, 2), [1, 2]),
    ({"type": "array", "items": BYTES}, [b"\x01"], ["AQ=="]),
    (WORDS, {"a": 1}, {"a": 1}),
    (COUNTS, {1: "a", 2: "b"}, [[1, "a"], [2, "b"]]),
    (ROW, {"a": 1}, {"a": 1, "b": None}),
    (ROW, {"a": 1, "b": b"\x01"}, {"a": 1, "b": "AQ=="}),
    ({"type": "int8", "optional": True}, None, None),
    (WITH_DEFAULT, None, 7),
    ({"type": "int8", "default": 0}, None, 0),
]


@pytest.mark.parametrize(("schema", "value", "written"), FITS)
def test_what_fits_is_written_and_comes_back(schema: Any, value: Any, written: Any) -> None:
    assert to_json(value, schema) == written
    whole = dict.fromkeys(one["field"] for one in schema.get("fields", ())) | value if "fields" in schema else value
    expected = list(whole) if isinstance(whole, tuple) else 7 if schema is WITH_DEFAULT else whole
    read = from_json(written, schema)
    assert (read, type(read)) == (written if value is None else expected, type(read))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_have_their_limits(bits: int) -> None:
    schema, most = {"type": f"int{bits}"}, (1 << bits - 1) - 1
    for number in (most, -most - 1, 0):
        assert to_json(number, schema) == from_json(number, schema) == number
    for number in (most + 1, -most - 2):
        for way in (to_json, from_json):
            with pytest.raises(
                SchemaError, match=f"^{number} is no int{bits}, as a value of type int{bits} has to be$"
            ):
                way(number, schema)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("boolean", (1, "true", b"x")),
        ("int8", (True, 1.0, "1", b"1")),
        ("int64", (True, 1.5, "1")),
        ("float", (True, "1.5", b"1")),
        ("double", (True, "1.5")),
        ("string", (1, b"x", True, ["x"])),
        ("array", ("ab", {"a": 1}, 1)),
        ("nonsense", (1, "x", b"x", True)),
        (None, (1, "x", b"x")),
    ],
)
def test_a_kind_takes_no_other(kind: str | None, wrong: tuple[Any, ...]) -> None:
    for schema, place in (({"type": kind}, f"a value of type {kind}"), ({"type": kind, "field": "f"}, "field f")):
        for value in wrong:
            for way in (to_json, from_json):
                with pytest.raises(SchemaError) as raised:
                    way(value, schema)
                assert str(raised.value) == f"{value!r} is no {kind}, as {place} has to be"


@pytest.mark.parametrize("value", [{"a": 1, "c": 2}, [1], "a", {"c": 1}])
def test_a_struct_has_its_fields_alone(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"is not a struct of \['a', 'b'\]$"):
        to_json(value, ROW)


def test_what_must_be_there() -> None:
    with pytest.raises(SchemaError, match=r"^there is no value for field a, which is not optional$"):
        to_json({}, ROW)
    with pytest.raises(SchemaError, match=r"^there is no value for a value of type int8, which is not optional$"):
        to_json(None, {"type": "int8"})


def test_null_is_replaced_unless_it_is_to_stay() -> None:
    schema = WITH_DEFAULT | {"optional": True}
    assert (to_json(None, schema), from_json(None, schema)) == (7, 7)
    assert (to_json(None, schema, KEEPING), from_json(None, schema, KEEPING)) == (None, None)
    assert from_json(None, {"type": "int8"}) is None, "who has written it may have meant it"
    within = {"type": "array", "items": schema}
    assert (to_json([None], within), to_json([None], within, KEEPING)) == ([7], [None])
    assert (from_json([None], within), from_json([None], within, KEEPING)) == ([7], [None])
    of_map = {"type": "map", "keys": {"type": "string"}, "values": schema}
    assert (to_json({"a": None}, of_map), to_json({"a": None}, of_map, KEEPING)) == ({"a": 7}, {"a": None})
    assert (from_json({"a": None}, of_map), from_json({"a": None}, of_map, KEEPING)) == ({"a": 7}, {"a": None})
    with pytest.raises(SchemaError, match="which is not optional"):
        to_json(None, WITH_DEFAULT, KEEPING)


DECIMALS = [
    (0, b"\x00", "0.00"),
    (1, b"\x01", "0.01"),
    (-1, b"\xff", "-0.01"),
    (127, b"\x7f", "1.27"),
    (128, b"\x00\x80", "1.28"),
    (-128, b"\x80", "-1.28"),
    (-129, b"\xff\x7f", "-1.29"),
    (255, b"\x00\xff", "2.55"),
    (32767, b"\x7f\xff", "327.67"),
    (-32768, b"\x80\x00", "-327.68"),
]


@pytest.mark.parametrize(("unscaled", "data", "text"), DECIMALS)
def test_decimals_have_as_few_bytes_as_java_gives_them(unscaled: int, data: bytes, text: str) -> None:
    assert bytes_of(Decimal(text), MONEY) == data
    assert str(decimal_of(data, MONEY)) == text
    assert int.from_bytes(data, "big", signed=True) == unscaled
    assert (to_json(data, MONEY), to_json(data, MONEY, NUMBERS)) == (base64.b64encode(data).decode(), Decimal(text))
    assert from_json(ExactFloat(text), MONEY) == from_json(base64.b64encode(data).decode(), MONEY) == data


def test_only_decimals_are_numbers() -> None:
    for schema in (OTHER, BYTES):
        assert to_json(b"\x01", schema, NUMBERS) == "AQ=="
        with pytest.raises(SchemaError, match=r"^1 is no bytes"):
            from_json(1, schema)
    assert from_json(3, MONEY) == b"\x01\x2c"
    with pytest.raises(SchemaError, match=r"^'x' is no int8"):
        from_json("x", MONEY | {"type": "int8"})
    with pytest.raises(SchemaError, match=r"^\[\] is no bytes"):
        from_json([], MONEY)
    assert from_json(5, MONEY | {"type": "int8"}) == 5, "the type says what it is, not the name"


def test_numbers_keep_all_their_digits() -> None:
    text = "12345678901234567890123456789.01"
    assert bytes_of(Decimal(text), MONEY) == from_json(ExactFloat(text), MONEY)
    assert str(decimal_of(bytes_of(Decimal(text), MONEY), MONEY)) == text
    assert ExactFloat("0.10") == 0.1
    with pytest.raises(SchemaError, match=r"^0\.001 has more places than the scale 2 of a value of type bytes$"):
        bytes_of(Decimal("0.001"), MONEY)


@pytest.mark.parametrize("parameters", [None, {}, {"scale": "x"}, {"scale": None}])
def test_a_decimal_has_a_scale(parameters: Any) -> None:
    schema = {**MONEY, "parameters": parameters, "field": "price"}
    for way in (lambda: decimal_of(b"\x01", schema), lambda: bytes_of(Decimal(1), schema)):
        with pytest.raises(SchemaError, match=r"^field price is a Decimal, and its schema has no scale"):
            way()


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (None, None),
        (True, {"type": "boolean", "optional": True}),
        (1, {"type": "int64", "optional": True}),
        (0.5, {"type": "double", "optional": True}),
        ("x", {"type": "string", "optional": True}),
        (b"x", {"type": "bytes", "optional": True}),
        ([None, 1], {"type": "array", "items": {"type": "int64", "optional": True}, "optional": True}),
        ((), {"type": "array", "items": {"type": "string", "optional": True}, "optional": True}),
        (
            {"a": None, "b": 1},
            {
                "type": "struct",
                "fields": [
                    {"type": "string", "optional": True, "field": "a"},
                    {"type": "int64", "optional": True, "field": "b"},
                ],
                "optional": True,
            },
        ),
    ],
)
def test_what_a_value_is_when_nobody_says(value: Any, schema: Any) -> None:
    assert schema_of(value) == schema


def test_plain_values_are_as_json_has_them() -> None:
    plain = {"a": [1, (2.5, None)], 3: b"\x01", "t": True}
    assert to_json(plain, None) == {"a": [1, [2.5, None]], "3": "AQ==", "t": True}
    assert from_json(plain, None) is plain
    for wrong in ({1}, object()):
        with pytest.raises(SchemaError, match=rf"^JSON cannot hold a {type(wrong).__name__}$"):
            to_json([wrong], None)
        with pytest.raises(SchemaError, match=rf"^there is no schema for a {type(wrong).__name__}$"):
            schema_of(wrong)
