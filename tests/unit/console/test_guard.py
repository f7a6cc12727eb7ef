"""Who guesses passwords is stopped, and does not stop others."""

import asyncio

import pytest

from penstock.console.errors import ConsoleError
from penstock.console.serving.guard import FAILURES_S, MAX_FAILURES, MAX_FAILURES_OF_ALL, Guard
from penstock.console.serving.passwords import Passwords, hashed, is_hashed
from penstock.protocol.secret import Secret


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def guess(guard: Guard, address: str, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ConsoleError, match="wrong"):
            await guard.log_in("ada", "guess", address)


async def test_guesses_from_an_address_stop_that_one_for_a_while() -> None:
    clock = Clock()
    guard = Guard("127.0.0.1", (), {"ada": Secret("lovelace")}, clock)
    await guess(guard, "192.0.2.1", MAX_FAILURES)
    with pytest.raises(ConsoleError, match="wait"):
        await guard.log_in("ada", "lovelace", "192.0.2.1")
    assert await guard.log_in("ada", "lovelace", "192.0.2.2")
    clock.now_s = FAILURES_S
    assert await guard.log_in("ada", "lovelace", "192.0.2.1")


async def test_guesses_from_many_addresses_stop_all() -> None:
    guard = Guard("127.0.0.1", (), {"ada": Secret("lovelace")}, Clock())
    for number in range(MAX_FAILURES_OF_ALL):
        await guess(guard, f"192.0.2.{number}", 1)
    with pytest.raises(ConsoleError, match="wait"):
        await guard.log_in("ada", "lovelace", "198.51.100.1")


async def test_guesses_at_the_same_time_are_counted() -> None:
    guard = Guard("127.0.0.1", (), {"ada": Secret("lovelace")}, Clock())
    guesses = [guard.log_in("ada", "guess", "192.0.2.1") for _ in range(3 * MAX_FAILURES)]
    refused = [str(error) for error in await asyncio.gather(*guesses, return_exceptions=True)]
    assert sum("wrong" in words for words in refused) == MAX_FAILURES
    assert sum("wait" in words for words in refused) == 2 * MAX_FAILURES


async def test_passwords_may_be_hashed() -> None:
    stored = hashed("lovelace")
    assert "lovelace" not in stored
    assert stored != hashed("lovelace")
    passwords = Passwords({"ada": Secret(stored), "bob": Secret("builder")})
    tries = [("ada", "lovelace"), ("bob", "builder"), ("ada", stored), ("ada", ""), ("eve", ""), ("eve", "lovelace")]
    assert [await passwords.are_right(*one) for one in tries] == [True, True, False, False, False, False]
    assert not await passwords.are_right("ada", "x" * 2_000_000)


@pytest.mark.parametrize(
    "stored", ["scrypt:", "scrypt:1:a:b", f"scrypt:{2**30}:AAAA:AAAAAAAAAAAAAAAAAAAAAAAA", "scrypt:16384::"]
)
def test_what_is_no_hash_is_refused(stored: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        is_hashed(Secret(stored))
