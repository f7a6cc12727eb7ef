"""What a page may ask is taken up to its limit, and refused behind it."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from penstock.console import asked, query
from penstock.console.errors import ConsoleError

REFUSED = "refused"
ARABIC_THREE = "\u0663"


def given(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except ConsoleError as error:
        return REFUSED if error.status == HTTPStatus.BAD_REQUEST else error.status


@pytest.mark.parametrize(
    ("value", "text", "data", "number", "pairs"),
    [
        (None, REFUSED, None, -7, {}),
        ("", REFUSED, b"", -7, {}),
        ("0", "0", b"0", 0, REFUSED),
        ("32767", "32767", b"32767", 32767, REFUSED),
        ("32768", "32768", b"32768", REFUSED, REFUSED),
        ("0000000000000000017", "0000000000000000017", b"0000000000000000017", 17, REFUSED),
        ("00000000000000000017", "00000000000000000017", b"00000000000000000017", REFUSED, REFUSED),
        ("-1", "-1", b"-1", REFUSED, REFUSED),
        (ARABIC_THREE, ARABIC_THREE, ARABIC_THREE.encode(), REFUSED, REFUSED),
        ("x" * 1_000, "x" * 1_000, b"x" * 1_000, REFUSED, REFUSED),
        ("x" * 1_001, REFUSED, b"x" * 1_001, REFUSED, REFUSED),
        ("x" * 600_000, REFUSED, b"x" * 600_000, REFUSED, REFUSED),
        ("x" * 600_001, REFUSED, REFUSED, REFUSED, REFUSED),
        (0, REFUSED, REFUSED, REFUSED, {}),
        (5, REFUSED, REFUSED, REFUSED, REFUSED),
        ([], REFUSED, REFUSED, REFUSED, {}),
        (["a"], REFUSED, REFUSED, REFUSED, REFUSED),
        ({"a": "b", "c": ""}, REFUSED, REFUSED, REFUSED, {"a": "b", "c": ""}),
        ({"a": "b", "c": None}, REFUSED, REFUSED, REFUSED, REFUSED),
        ({str(n): "" for n in range(100)}, REFUSED, REFUSED, REFUSED, {str(n): "" for n in range(100)}),
        ({str(n): "" for n in range(101)}, REFUSED, REFUSED, REFUSED, REFUSED),
    ],
    ids=range(21),
)
def test_values_of_changes(value: Any, text: Any, data: Any, number: Any, pairs: Any) -> None:
    question = {"a": value}
    assert given(lambda: asked.text_of(question, "a")) == text
    assert given(lambda: asked.bytes_of(question, "a")) == data
    assert given(lambda: asked.number_of(question, "a", -7, asked.INT16)) == number
    assert given(lambda: asked.pairs_of(question, "a")) == pairs


def test_words_of_changes_stand_for_something() -> None:
    words = {"a": 1, "b": None}
    assert [given(lambda one=one: asked.one_of({"x": one}, "x", words)) for one in ("a", "b", "c", ["a"], None)] == [  # type: ignore[misc]
        *(1, None, REFUSED, REFUSED, REFUSED)
    ]
    assert given(lambda: asked.one_of({}, "x", words)) == REFUSED
    assert given(lambda: asked.number_of({"a": str(2**63 - 1)}, "a", 0)) == 2**63 - 1
    assert given(lambda: asked.number_of({"a": str(2**63)}, "a", 0)) == REFUSED


@pytest.mark.parametrize(
    ("value", "text", "needed", "number", "word"),
    [
        (None, "", REFUSED, 7, "1"),
        ("", "", REFUSED, 7, "1"),
        ("0", "0", "0", 0, REFUSED),
        ("2", "2", "2", 2, "2"),
        ("90", "90", "90", 90, REFUSED),
        ("91", "91", "91", REFUSED, REFUSED),
        ("-1", "-1", "-1", REFUSED, REFUSED),
        (ARABIC_THREE, ARABIC_THREE, ARABIC_THREE, REFUSED, REFUSED),
        ("0" * 1_000, "0" * 1_000, "0" * 1_000, 0, REFUSED),
        ("0" * 1_001, REFUSED, REFUSED, REFUSED, REFUSED),
    ],
    ids=range(10),
)
def test_values_of_queries(value: str | None, text: Any, needed: Any, number: Any, word: Any) -> None:
    question = {} if value is None else {"a": value}
    assert given(lambda: query.text(question, "a")) == text
    assert given(lambda: query.needed(question, "a")) == needed
    assert given(lambda: query.number(question, "a", 7, 90)) == number
    assert given(lambda: query.one_of(question, "a", "1", "2")) == word


def test_a_query_may_have_another_default_and_the_largest_number() -> None:
    assert query.text({}, "a", "b") == "b"
    assert query.number({"a": str(2**63 - 1)}, "a", 0) == 2**63 - 1
    assert given(lambda: query.number({"a": str(2**63)}, "a", 0)) == REFUSED
