"""Who guesses passwords is stopped, and does not stop others."""

import pytest

from penstock.console.errors import ConsoleError
from penstock.console.serving.guard import FAILURES_S, MAX_FAILURES, MAX_FAILURES_OF_ALL, Guard
from penstock.protocol.secret import Secret


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def guess(guard: Guard, address: str, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ConsoleError, match="wrong"):
            guard.log_in("ada", "guess", address)


def test_guesses_from_an_address_stop_that_one_for_a_while() -> None:
    clock = Clock()
    guard = Guard("127.0.0.1", (), {"ada": Secret("lovelace")}, clock)
    guess(guard, "192.0.2.1", MAX_FAILURES)
    with pytest.raises(ConsoleError, match="wait"):
        guard.log_in("ada", "lovelace", "192.0.2.1")
    assert guard.log_in("ada", "lovelace", "192.0.2.2")
    clock.now_s = FAILURES_S
    assert guard.log_in("ada", "lovelace", "192.0.2.1")


def test_guesses_from_many_addresses_stop_all() -> None:
    guard = Guard("127.0.0.1", (), {"ada": Secret("lovelace")}, Clock())
    for number in range(MAX_FAILURES_OF_ALL):
        guess(guard, f"192.0.2.{number}", 1)
    with pytest.raises(ConsoleError, match="wait"):
        guard.log_in("ada", "lovelace", "198.51.100.1")
