from typing import Any

import pytest

from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix

KEYS = (
    ConfigKey("name", required=True, documentation="what it is called"),
    ConfigKey("count", "int", 3, least=1),
    ConfigKey("loud", "boolean", False),
    ConfigKey("colour", default="red", choices=("red", "green")),
    ConfigKey("topics", "list", ()),
)


def test_values_have_their_types_and_defaults() -> None:
    assert parse(KEYS, {"name": "n"}) == {"name": "n", "count": 3, "loud": False, "colour": "red", "topics": ()}
    given = {"name": "n", "count": " 7 ", "loud": "TRUE", "colour": "green", "topics": "a, b,", "other": "x"}
    assert parse(KEYS, given) == {"name": "n", "count": 7, "loud": True, "colour": "green", "topics": ("a", "b")}


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        parse(KEYS, {"count": "0", "loud": "perhaps", "colour": "gren"})
    assert raised.value.errors == {
        "name": ["name is missing: what it is called"],
        "count": ["count=0 is less than 1"],
        "loud": ["loud=perhaps is no boolean: it is true or false"],
        "colour": ["colour=gren: allowed are red, green; did you mean green?"],
    }


@pytest.mark.parametrize(("text", "kind"), [("x", "int"), ("1.5", "long"), ("one", "double")])
def test_numbers(text: str, kind: Any) -> None:
    with pytest.raises(ConfigError, match=f"is no {kind}"):
        parse([ConfigKey("key", kind)], {"key": text})


def test_prefixes() -> None:
    assert with_prefix({"a.b": "1", "a.c.d": "2", "b": "3"}, "a.") == {"b": "1", "c.d": "2"}
