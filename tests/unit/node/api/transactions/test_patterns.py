"""Patterns of transactional ids fit as a whole, and none takes long."""

import re

import pytest

from penstock.node.api.transactions.patterns import MOST_CHARACTERS, matcher


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        (None, ["a", ""], []),
        ("", ["a", ""], []),
        ("app-.*", ["app-1", "app-"], ["my-app-1"]),
        (".*pay.*", ["pay", "repayment"], ["pax"]),
        ("(a|b)-[0-9]{1,3}", ["a-1", "b-123"], ["c-1", "a-1234"]),
        (r"a\*[*+]+", ["a*+*"], ["aa*"]),
        ("(?:x)y", ["xy"], ["y"]),
        ("a?b|" * 10 + "c", ["ab", "c"], ["a"]),
        ("(?:)" * 30 + r"[?|]\?", ["??"], [""]),
    ],
)
def test_the_whole_id_fits(pattern: str | None, fits: list[str], others: list[str]) -> None:
    is_fit = matcher(pattern)
    assert [text for text in [*fits, *others] if is_fit(text)] == fits


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+b", "(a|a)*b", "a*a*a*b", r"(a)\1", "(?=a)a", "(a{2,}){2,}", "[", "x" * (MOST_CHARACTERS + 1)),
        *("a{1,}b*c+", "a?" * 21, "(aa|ab)" * 21, "a{,9}" * 3, "a*b*c?"),
    ],
)
def test_what_may_take_long_is_no_pattern(pattern: str) -> None:
    with pytest.raises(re.error):
        matcher(pattern)


def test_very_long_ids_fit_none() -> None:
    assert not matcher("a*")("a" * (MOST_CHARACTERS + 1))
