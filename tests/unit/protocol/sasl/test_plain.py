"""PLAIN: one token, and who may not log in with it."""

import pytest

from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.sasl.plain import PlainClient, PlainServer
from penstock.protocol.secret import Secret

USERS = {"ada": Secret("engine"), "bob": Secret("böb")}


@pytest.mark.parametrize("name", USERS)
def test_a_user_logs_in(name: str) -> None:
    serves, asked = PlainServer(USERS), PlainClient(name, USERS[name])
    assert serves.evaluate(asked.first()) == b""
    assert asked.evaluate(b"") is None
    assert serves.user == name


def test_an_authorization_id_is_the_users_own() -> None:
    serves = PlainServer(USERS)
    serves.evaluate(b"ada\0ada\0engine")
    assert serves.user == "ada"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (b"\0ada\0engin", "wrong"),
        (b"\0ada\0engine1", "wrong"),
        (b"\0ada\0Engine", "wrong"),
        (b"\0eve\0engine", "wrong"),
        (b"bob\0ada\0engine", "authorization id"),
        (b"bob\0ada\0guessed", "the password is wrong"),
        (b"\0ada\0", "empty"),
        (b"\0\0engine", "empty"),
        (b"\0eve\0", "empty"),
        (b"ada\0engine", "2"),
        (b"\0ada\0engine\0", "4"),
        (b"\0ad\0a\0engine", "4"),
        (b"", "1"),
        (b"\0ada\0\xff", "UTF-8"),
        (b"\xff" + b"\0" * 100_000, "100001"),
        (b"\0" + b"a" * 1_000_000 + b"\0engine", "wrong"),
    ],
)
def test_who_does_not_log_in(token: bytes, why: str) -> None:
    serves = PlainServer(USERS)
    with pytest.raises(SaslError, match=why) as refused:
        serves.evaluate(token)
    assert serves.user is None
    assert "engine" not in refused.value.cause
    assert len(refused.value.cause) < 300
