"""One message with a token: what is taken for one, and how a refusal is told."""

from __future__ import annotations

import pytest

from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.sasl.oauthbearer import (
    MAX_EXTENSIONS,
    MAX_TOKEN_BYTES,
    REFUSED,
    OAuthClient,
    OAuthServer,
    RefusedTokenError,
    TokenUser,
)
from penstock.protocol.secret import Secret


def check(token: str) -> TokenUser:
    if token != "good":
        raise RefusedTokenError(f"{token} is not good")
    return TokenUser("ada", 1_000, "proof")


def message(pairs: str = "auth=Bearer good\x01", header: str = "n,,") -> bytes:
    return f"{header}\x01{pairs}\x01".encode("latin-1")


def test_a_token_says_who_it_is_and_for_how_long() -> None:
    server, client = OAuthServer(check), OAuthClient(Secret("good"), {})
    challenge = server.evaluate(client.first())
    assert (challenge, server.user, server.lifetime_ms, server.proof) == (b"", "ada", 1_000, "proof")
    assert client.evaluate(challenge) is None


def test_a_refusal_is_told_in_two_steps_and_says_nothing_of_its_cause() -> None:
    server, client = OAuthServer(check), OAuthClient(Secret("bad"), {})
    challenge = server.evaluate(client.first())
    assert (challenge.decode(), server.user) == (REFUSED, None)
    answer = client.evaluate(challenge)
    assert answer == b"\x01"
    with pytest.raises(SaslError, match="invalid_token") as refused:
        server.evaluate(answer)
    assert refused.value.cause == "bad is not good"
    assert "not good" not in str(refused.value)


def test_a_good_token_behind_a_bad_one_comes_too_late() -> None:
    server = OAuthServer(check)
    server.evaluate(message("auth=Bearer bad\x01"))
    with pytest.raises(SaslError):
        server.evaluate(message())
    assert server.user is None


@pytest.mark.parametrize(
    "taken",
    [
        message("auth=bearer   good\x01"),
        message("auth=Bearer good\x01pool=a=b, c\x01"),
        message("pool=a\x01auth=BEARER good\x01"),
        message(header="n,a=ada,"),
    ],
)
def test_what_is_taken(taken: bytes) -> None:
    server = OAuthServer(check)
    assert server.evaluate(taken) == b""
    assert server.user == "ada"


@pytest.mark.parametrize(
    "refused",
    [
        b"",
        b"\x01",
        b"\x00ada\x00engine",
        message(""),
        message("auth=Basic good\x01"),
        message("auth=Bearer \x01"),
        message("auth=Bearer go od\x01"),
        message("auth=Bearer good\x01auth=Bearer good\x01"),
        message("auth=Bearer good\x01po1ol=a\x01"),
        message("auth=Bearer good\x01pool=\x00\x01"),
        message("auth=Bearer g\xf6od\x01"),
        message("auth=Bearer good\x01" + "".join(f"{'a' * n}=1\x01" for n in range(1, MAX_EXTENSIONS + 1))),
        message(header="y,,"),
        message(header="p=tls-unique,,"),
        message(header="n,a=a=b,"),
        message("auth=Bearer " + "g" * MAX_TOKEN_BYTES + "\x01"),
        b"n,,\x01auth=Bearer good\x01",
        message() + b"\x01",
    ],
)
def test_what_is_no_message_ends_the_log_in(refused: bytes) -> None:
    server = OAuthServer(check)
    with pytest.raises(SaslError, match="Authentication failed"):
        server.evaluate(refused)
    assert server.user is None


def test_a_token_is_for_nobody_else() -> None:
    server = OAuthServer(check)
    with pytest.raises(SaslError, match="authorization id"):
        server.evaluate(message(header="n,a=bob,"))
    assert server.user is None


def test_extensions_go_with_the_token() -> None:
    assert OAuthClient(Secret("good"), {"pool": "eu"}).first() == message("auth=Bearer good\x01pool=eu\x01")


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}, {"a": "ä"}])
def test_extensions_that_cannot_be_sent_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(SaslError, match="extension"):
        OAuthClient(Secret("good"), extensions)


def test_no_token_is_shown() -> None:
    assert "good" not in repr(OAuthClient(Secret("good"), {}))
