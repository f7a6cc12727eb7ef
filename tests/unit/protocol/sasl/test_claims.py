"""What a token has to say of itself, and that anything else refuses it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from penstock.protocol.sasl.claims import (
    MAX_NAME_CHARACTERS,
    MAX_TIME_S,
    Checked,
    Expected,
    check_claims,
    claims_of,
    parse_token,
    time_of,
)
from penstock.protocol.sasl.oauthbearer import RefusedTokenError

NOW_S, SKEW_S = 1_000_000, 30
EXPECTED = Expected("issuer", ("us", "others"), SKEW_S)
GOOD: dict[str, Any] = {"iss": "issuer", "aud": ["x", "us"], "sub": "ada", "iat": NOW_S - 5, "exp": NOW_S + 60}


def part(content: object) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def claims(**changed: Any) -> dict[str, Any]:
    return {name: it for name, it in (GOOD | changed).items() if it is not None}


def checked(expected: Expected = EXPECTED, /, **changed: Any) -> Checked:
    return check_claims(claims(**changed), expected, NOW_S * 1000)


def test_who_it_is_and_for_how_long() -> None:
    assert checked() == Checked("ada", (60 + SKEW_S) * 1000)
    assert checked(aud="us", sub=" ada ", exp=NOW_S + 0.5).lifetime_ms == 500 + SKEW_S * 1000


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"exp": None}, "exp is missing"),
        ({"exp": NOW_S - SKEW_S}, "expired 30 s ago"),
        ({"exp": "soon"}, "exp is missing, or no time"),
        ({"exp": True}, "no time"),
        ({"exp": float("nan")}, "no time"),
        ({"exp": 1e300}, "no time"),
        ({"exp": -1}, "no time"),
        ({"iat": None}, "iat is missing"),
        ({"iat": "now"}, "iat is missing, or no time"),
        ({"nbf": NOW_S + SKEW_S + 1}, "it holds from 31 s on"),
        ({"nbf": "x"}, "nbf is missing, or no time"),
        ({"iss": None}, "its issuer is not said"),
        ({"iss": "issuer2"}, "its issuer is 'issuer2'"),
        ({"iss": ["issuer"]}, "its issuer is"),
        ({"aud": None}, "it is for not said"),
        ({"aud": "U"}, "it is for 'U'"),
        ({"aud": []}, "for no sasl.oauthbearer.expected.audience"),
        ({"aud": [1, "us"]}, "aud is no text"),
        ({"aud": {"us": 1}}, "aud is no text"),
        ({"sub": None}, "sub, which names the user, is missing"),
        ({"sub": "  "}, "is missing or no text"),
        ({"sub": 7}, "is missing or no text"),
        ({"sub": "a\0b"}, "no NUL"),
        ({"sub": "a\ud800"}, "half a character"),
        ({"sub": "a" * (MAX_NAME_CHARACTERS + 1)}, "at most"),
        ({"scope": ["a", "a"]}, "is empty, or there twice"),
        ({"scope": [""]}, "is empty, or there twice"),
        ({"scope": [7]}, "scope is no text"),
    ],
)
def test_what_refuses_a_token(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(RefusedTokenError, match=words):
        checked(**changed)


def test_clocks_may_differ_a_little() -> None:
    assert checked(exp=NOW_S - SKEW_S + 1).lifetime_ms == 1_000
    assert checked(nbf=NOW_S + SKEW_S).name == "ada"


def test_claims_have_the_names_that_are_configured() -> None:
    expected = EXPECTED.replace(name_claim="upn", scope_claim="scp", scopes=("read",))
    assert checked(expected, sub=None, upn="bob", scp="write read").name == "bob"
    with pytest.raises(RefusedTokenError, match="it lacks the scope read"):
        checked(expected, upn="bob", scope="read")


def test_who_wants_no_issuer_and_no_audience_takes_any() -> None:
    lax = Expected(None, (), 0, needs_issue_time=False)
    assert checked(lax, iss=None, aud=None, iat=None).name == "ada"


def test_the_parts_of_a_token() -> None:
    token = parse_token(f"{part({'alg': 'RS256', 'kid': 'k'})}.{part(GOOD)}.AAAA")
    assert (token.algorithm, token.key_id, token.signature) == ("RS256", "k", b"\0\0\0")
    assert token.claims == GOOD
    assert "ada" not in repr(token)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        (f"{part({})}.{part({})}.a.b.c", "and this one 5"),
        (f"{part({})}.{part([])}.", "no JSON"),
        (f"{part({})}.AAAA.", "no JSON"),
        (f"{part({})}.{urlsafe_b64encode(b'[' * 30_000).decode().rstrip('=')}.", "no JSON"),
        (f"{part({})}.a+b.", "no base64"),
        (f"{part({})}.a=.", "no base64"),
        (f"{part({})}.a.", "no base64"),
        (f"{part({'crit': ['exp']})}.{part({})}.", "an extension"),
        (f"{part({'b64': False})}.{part({})}.", "an extension"),
    ],
)
def test_what_is_no_token(text: str, words: str) -> None:
    with pytest.raises(RefusedTokenError, match=words):
        parse_token(text)


def test_the_name_of_a_key_is_text() -> None:
    with pytest.raises(RefusedTokenError, match="no text"):
        _ = parse_token(f"{part({'kid': 7})}.{part({})}.").key_id
    assert parse_token(f"{part({'alg': ['RS256']})}.{part({})}.").algorithm == ""


@pytest.mark.parametrize(
    ("found", "is_time"),
    [(0, True), (1.5, True), (MAX_TIME_S - 1, True), (MAX_TIME_S, False), (-1, False), (True, False), ("1", False)],
)
def test_what_is_a_time(found: Any, is_time: bool) -> None:
    if is_time:
        assert time_of({"exp": found}, "exp") == found
    else:
        with pytest.raises(RefusedTokenError, match="its claim exp is missing, or no time"):
            time_of({"exp": found}, "exp")


def test_limits_are_within() -> None:
    assert checked(sub="a" * MAX_NAME_CHARACTERS).name == "a" * MAX_NAME_CHARACTERS
    assert checked(exp=NOW_S - SKEW_S + 0.0001).lifetime_ms == 1
    assert checked(exp=NOW_S - SKEW_S + 0.002).lifetime_ms == 2


@pytest.mark.parametrize(
    ("scope", "wanted", "words"),
    [
        (None, (), ""),
        (7, (), ""),
        ("", (), "a scope in scope is empty"),
        (" ", (), "a scope in scope is empty"),
        ("a b", (), ""),
        (["a", "b"], (), ""),
        (["a", " "], (), "a scope in scope is empty"),
        ("a a", (), ""),
        (["a", "b", "a"], (), "or there twice"),
        ("a b", ("a", "b"), ""),
        (["a b", "c"], ("c", "a"), ""),
        ("a", ("a", "b", "c"), "^it lacks the scope b, c$"),
        (None, ("a",), "^it lacks the scope a$"),
        (7, ("a",), "^it lacks the scope a$"),
    ],
)
def test_scopes(scope: Any, wanted: tuple[str, ...], words: str) -> None:
    expected = EXPECTED.replace(scopes=wanted)
    if not words:
        assert checked(expected, scope=scope).name == "ada"
    else:
        with pytest.raises(RefusedTokenError, match=words):
            checked(expected, scope=scope)


@pytest.mark.parametrize(
    ("expected", "changed", "is_right"),
    [
        (EXPECTED.replace(needs_issue_time=False), {"iat": None}, True),
        (EXPECTED.replace(needs_issue_time=False), {"iat": "x"}, False),
        (EXPECTED.replace(issuer=None), {"iss": "whoever"}, True),
        (EXPECTED.replace(audiences=()), {"aud": [7]}, True),
        (EXPECTED, {"aud": "others"}, True),
        (EXPECTED, {"nbf": None}, True),
        (EXPECTED, {"nbf": 0}, True),
        (EXPECTED, {"sub": "a\ud7ff\ue000"}, True),
        (EXPECTED, {"sub": "a\udfff"}, False),
    ],
    ids=range(9),
)
def test_each_demand_counts_alone(expected: Expected, changed: dict[str, Any], is_right: bool) -> None:
    try:
        checked(expected, **changed)
    except RefusedTokenError:
        assert not is_right
    else:
        assert is_right


def test_claims_of_somebody_elses_token_and_what_is_signed() -> None:
    text = f"{part({})}.{part(GOOD)}."
    assert claims_of(text) == GOOD
    token = parse_token(f"{text}AA")
    assert (token.signed, token.signature) == (text[:-1].encode(), b"\0")
    assert (token.algorithm, token.key_id) == ("", None)
    for bad in ("crit", "b64"):
        with pytest.raises(RefusedTokenError):
            parse_token(f"{part({bad: None})}.{part({})}.")
