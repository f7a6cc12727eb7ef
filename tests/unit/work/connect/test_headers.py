from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.work.connect.converters import ConversionError
from penstock.work.connect.headers import header_converter_of
from penstock.work.connect.plugins import PluginError

SIMPLE = header_converter_of({}, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""), ("word", "word"), ("true", True), ("TRUE", "TRUE"), ("null", None), ("7", 7), ("007", 7),
        ("-1.5", -1.5), ("1.0", 1), ("1e3", 1000), ("+2", 2), ("1.", 1), ("1 2", "1 2"),
        ("1e999999999", "1e999999999"), ("1e500", "1e500"), ("٣", "٣"), ('"quoted \\"x"', 'quoted "x'),
        ('"a" b', '"a" b'), ("[1, 2.5]", [1, 2.5]), ('{"a":[true]}', {"a": [True]}), ("[a, b]", "[a, b]"),
        ("{", "{"), ("2026-11-22", "2026-11-22"), ("9" * 500, "9" * 500),
    ],
)  # fmt: skip
def test_what_a_header_is_read_as(text: str, value: Any) -> None:
    found = SIMPLE.from_header("t", "h", text.encode())
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None), ("text", b"text"), ('a "b"', b'a "b"'), (True, b"true"), (1.5, b"1.5"), (b"\x00\x01", b"AAE="),
        (["a\"b\\", None, 1], b'["a\\"b\\\\",null,1]'), ({"k": [False]}, b'{"k":[false]}'),
    ],
)  # fmt: skip
def test_what_a_header_is_written_as(value: Any, data: bytes | None) -> None:
    assert SIMPLE.to_header("t", "h", value) == data


def test_bytes_that_are_no_text_stay_bytes() -> None:
    assert SIMPLE.from_header("t", "h", b"\xff") == b"\xff"
    assert SIMPLE.from_header("t", "h", None) is None


def test_what_cannot_be_a_header() -> None:
    with pytest.raises(ConversionError, match="a header cannot be"):
        SIMPLE.to_header("t", "h", object())


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    SIMPLE.from_header("t", "h", text.encode())


ASCII = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | ASCII))
def test_lists_come_back(value: list[Any]) -> None:
    assert SIMPLE.from_header("t", "h", SIMPLE.to_header("t", "h", value)) == value


def test_other_converters_are_header_converters_too() -> None:
    json = header_converter_of({"header.converter": "JsonConverter", "header.converter.schemas.enable": "false"}, {})
    assert json.to_header("t", "h", "007") == b'"007"'
    assert json.from_header("t", "h", b'"007"') == "007"
    text = header_converter_of({}, {"header.converter": "org.apache.kafka.connect.storage.StringConverter"})
    assert text.from_header("t", "h", b"007") == "007"


def test_a_header_converter_that_is_not_there() -> None:
    with pytest.raises(PluginError, match="did you mean SimpleHeaderConverter"):
        header_converter_of({"header.converter": "SimplHeaderConverter"}, {})
