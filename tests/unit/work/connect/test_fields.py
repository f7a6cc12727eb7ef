"""Paths of fields, as KIP-821 has them."""

import pytest

from penstock.work.connect.fields import TransformError, changed_at, path_of, value_at


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("foo.bar.baz", ("foo", "bar", "baz")),
        ("foobar", ("foobar",)),
        ("..", ("", "", "")),
        (".bar.", ("", "bar", "")),
        ("foo`bar`baz", ("foo`bar`baz",)),
        ("`foo.bar`.baz", ("foo.bar", "baz")),
        ("foo.`bar.baz`", ("foo", "bar.baz")),
        ("foo.``bar.baz`", ("foo", "`bar.baz")),
        ("foo.`ba`r.baz`", ("foo", "ba`r.baz")),
        ("``foo.bar.baz``", ("`foo.bar.baz`",)),
        ("foo.`bar\\`.baz`", ("foo", "bar`.baz")),
        ("foo.`bar\\\\`.\\`baz`", ("foo", "bar\\`.\\`baz")),
    ],
)
def test_a_path_is_names_with_dots_between_them(text: str, path: tuple[str, ...]) -> None:
    assert path_of(text, "V2") == path
    assert path_of(text, "V1") == (text,)


@pytest.mark.parametrize("text", ["`foo.bar", "foo.`bar.baz", "foo.bar.`baz\\`"])
def test_a_backtick_that_does_not_end(text: str) -> None:
    with pytest.raises(ValueError, match="no backtick ends"):
        path_of(text, "V2")


def test_what_lies_at_a_path() -> None:
    content = {"a": {"b": 1, "none": None}, "text": "x"}
    assert value_at(content, ("a", "b")) == 1
    assert value_at(content, ("a", "none", "deeper")) is None
    with pytest.raises(KeyError):
        value_at(content, ("a", "c"))
    with pytest.raises(TransformError, match=r"text\.b leads into 'x'"):
        value_at(content, ("text", "b"))
    assert changed_at(content, ("a", "b"), str) == {"a": {"b": "1", "none": None}, "text": "x"}
    assert changed_at(content, ("a", "none"), str) == changed_at(content, ("a", "c"), str) == content
