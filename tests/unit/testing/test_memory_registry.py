"""A registry in memory knows its schemas by numbers from 1, and values have the forms of JSON that others read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from penstock.testing.typed_rows import MemoryRegistry, _plain, _text
from penstock.work.connect.registry import RegistryError

REGISTRY = MemoryRegistry((("a", '{"schema": "1"}'), ("b", '{"schema": "2"}')))


def test_what_is_known() -> None:
    assert [REGISTRY.schema(number) for number in (1, 2)] == [{"schema": "1"}, {"schema": "2"}]
    assert REGISTRY.version("b") == {"schema": "2", "id": 2}
    assert (REGISTRY.id_of("a", {}, registers=False), REGISTRY.version_of("b", {})) == (1, 1)
    assert REGISTRY.fits("a", {})


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_number_that_is_not_known(number: int) -> None:
    with pytest.raises(RegistryError, match=f"there is no schema {number} in this test"):
        REGISTRY.schema(number)
    with pytest.raises(RegistryError, match="there is no subject c in this test"):
        REGISTRY.version("c")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05Z"),  # one without a zone
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=1, microseconds=5), "1.000005s"),
        (b"\0\1", "AAE="),
        (Decimal("2.00"), 2),
        (Decimal("2.50"), 2.5),
    ],
)
def test_forms_of_values(value: Any, plain: Any) -> None:
    found = _plain(value)
    assert (found, type(found)) == (plain, type(plain))


def test_what_has_no_form_is_told() -> None:
    with pytest.raises(TypeError, match=r"\{1\} has no form in JSON"):
        _plain({1})


@pytest.mark.parametrize(
    ("schema", "text"),
    [(b'"long"', '"long"'), ({"a": 1}, '{"a": 1}'), (' {"a": 1}', ' {"a": 1}'), ("[1]", "[1]"), ('"x"', '"x"')],
)
def test_texts_of_schemas(schema: Any, text: str) -> None:
    assert _text(schema) == text
