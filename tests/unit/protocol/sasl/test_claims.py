"""What a token has to say of itself, and that anything else refuses it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from penstock.protocol.sasl.claims import MAX_NAME_CHARACTERS, Checked, Expected, check_claims, parse_token
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
