"""Who has logged in, for how long, and who is heard at which names."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.console.errors import ConsoleError
from penstock.console.serving import guard as module
from penstock.console.serving import passwords
from penstock.console.serving.guard import COOKIE, FAILURES_S, SESSION_S, Guard
from penstock.console.serving.passwords import Passwords, hashed, is_hashed
from penstock.protocol.secret import Secret

USERS = {"ada": Secret("lovelace"), "bob": Secret("builder")}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def bearing(cookie: str | None) -> Any:
    return cast("Any", SimpleNamespace(cookies={} if cookie is None else {COOKIE: cookie}))


async def test_sessions_end_by_time_by_log_out_and_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 3)
    clock = Clock()
    guard = Guard("localhost", (), USERS, clock)
    ada = await guard.log_in("ada", "lovelace", "1")
    clock.now_s = 10
    bob = await guard.log_in("bob", "builder", "1")
    assert ada != bob
    assert [guard.who(bearing(one)) for one in (ada, bob, "", None, "x")] == ["ada", "bob", None, None, None]
    clock.now_s = SESSION_S
    assert [guard.who(bearing(one)) for one in (ada, bob)] == [None, "bob"]
    third = await guard.log_in("ada", "lovelace", "1")
    assert set(guard._sessions) == {bob, third}, "those that are over are forgotten"
    fourth = await guard.log_in("ada", "lovelace", "1")
    fifth = await guard.log_in("ada", "lovelace", "1")
    assert set(guard._sessions) == {third, fourth, fifth}, "the oldest goes"
    guard.log_out(bearing(third))
    guard.log_out(bearing("x"))
    assert set(guard._sessions) == {fourth, fifth}
    assert Guard("localhost", (), {}, clock).who(bearing(None)) == "anybody"


async def test_a_log_in_that_succeeds_is_no_failure_and_failures_are_forgotten() -> None:
    clock = Clock()
    guard = Guard("localhost", (), USERS, clock)
    for _ in range(30):
        await guard.log_in("ada", "lovelace", "1")
    assert guard._failures == []
    for seconds in (0.0, 1.0):
        clock.now_s = seconds
        with pytest.raises(ConsoleError) as refused:
            await guard.log_in("ada", "x", "1")
        assert refused.value.status == 401
    clock.now_s = FAILURES_S
    await guard.log_in("ada", "lovelace", "2")
    assert guard._failures == [(1.0, "1")]


NAMES: tuple[str, ...] = (
    "localhost",
    "127.0.0.1:8085",
    "[::1]:1",
    "[::1]",
    "Me.Example:",
    "me.example.",
    "a.b",
    "192.0.2.7",
    "",
    ":1",
)
NAMES += ("[192.0.2.7]", "a@localhost", "localhost/", "[::1", "localhost:x", socket.gethostname())


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1", "localhost 127.0.0.1:8085 [::1]:1 [::1] a.b"),
        ("Me.Example", "localhost 127.0.0.1:8085 [::1]:1 [::1] Me.Example: me.example. a.b"),
        ("0.0.0.0", "localhost 127.0.0.1:8085 [::1]:1 [::1] a.b 192.0.2.7 [192.0.2.7] HERE"),
    ],
)
def test_own_names(host: str, known: str) -> None:
    guard = Guard(host, ("A.B",), {}, Clock())
    expected = {socket.gethostname() if one == "HERE" else one for one in known.split()}
    assert {name for name in NAMES if guard._knows(name)} == expected


KNOWN = "iBtHxIYVu_avG5aoMjaGL4nEUywXQrbETtto-W2Wlws="
SALT, HASH = "AAAA", "A" * 22 + "=="


@pytest.mark.parametrize(
    ("stored", "is_one"),
    [
        (f"scrypt:4096:{SALT}:{HASH}", True),
        (f"scrypt:65536:{SALT}:{HASH}", True),
        (f"scrypt:2048:{SALT}:{HASH}", False),
        (f"scrypt:131072:{SALT}:{HASH}", False),
        (f"scrypt:4097:{SALT}:{HASH}", False),
        (f"scrypt:12288:{SALT}:{HASH}", False),
        (f"scrypt:4096::{HASH}", False),
        (f"scrypt:4096:{SALT}:{'A' * 20}", False),
        ("plain:4096", None),
    ],
)
def test_which_hashes_are_taken(stored: str, is_one: bool | None) -> None:
    if is_one is False:
        with pytest.raises(ValueError, match=r"\w"):
            is_hashed(Secret(stored))
    else:
        assert is_hashed(Secret(stored)) is bool(is_one)


async def test_a_password_is_compared_whole_and_nobodys_takes_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", 2**12)
    stored = hashed("lovelace")
    assert stored.split(":")[:2] == ["scrypt", "4096"]
    compared: list[bool] = []
    matches = passwords._matches

    def noted(secret: Secret, password: str) -> bool:
        compared.append(is_hashed(secret))
        return matches(secret, password)

    monkeypatch.setattr(passwords, "_matches", noted)
    plain, mixed = Passwords(USERS), Passwords({**USERS, "eve": Secret(stored)})
    assert [await plain.are_right(*one) for one in (("ada", "lovelace"), ("ada", "Lovelace"), ("zoe", ""))] == [
        *(True, False, False)
    ]
    assert [await mixed.are_right(*one) for one in (("eve", "lovelace"), ("eve", "x"), ("zoe", ""))] == [
        *(True, False, False)
    ]
    assert compared == [False, False, False, True, True, True]
    longest = Passwords({"ada": Secret("x" * 1_000), "bob": Secret("x" * 1_001)})
    assert [await longest.are_right("ada", "x" * 1_000), await longest.are_right("bob", "x" * 1_001)] == [True, False]


async def test_a_hash_is_that_of_scrypt() -> None:
    """As `hashlib` says of this salt, so that a file with it is good for the next version as well."""
    stored = Secret("scrypt:4096:c2FsdHNhbHQ=:" + KNOWN)
    assert await Passwords({"ada": stored}).are_right("ada", "lovelace")
