"""Calls in a thread that nothing waits for."""

import threading
from concurrent.futures import Future

import pytest

from penstock.client.daemon_thread import DaemonThread


def raising(error: BaseException) -> None:
    raise error


def test_calls_are_made_one_after_the_other_in_one_daemon_thread() -> None:
    thread = DaemonThread("t")
    first, second = (thread.submit(lambda word: (word, threading.current_thread()), word) for word in "ab")
    assert [it.result()[0] for it in (first, second)] == ["a", "b"]
    assert first.result()[1] is second.result()[1]
    assert first.result()[1].daemon
    assert first.result()[1].name == "t"
    thread.shutdown()
    first.result()[1].join()


@pytest.mark.parametrize(
    ("error", "carried"),
    [
        (ValueError("x"), "ValueError('x')"),
        (StopIteration(), "RuntimeError('a call raised StopIteration()')"),
        (SystemExit(3), "RuntimeError('a call raised SystemExit(3)')"),
    ],
)
def test_what_a_call_raises_is_carried_and_the_next_call_is_made(error: BaseException, carried: str) -> None:
    thread = DaemonThread("t")
    assert repr(thread.submit(raising, error).exception()) == carried
    assert thread.submit(int, "7", base=8).result() == 7
    thread.shutdown()


def test_a_call_that_was_cancelled_before_its_turn_is_not_made() -> None:
    thread, may_go, made = DaemonThread("t"), threading.Event(), list[int]()
    running = thread.submit(may_go.wait)
    waiting: Future[None] = thread.submit(made.append, 1)
    assert waiting.cancel()
    may_go.set()
    assert running.result()
    thread.submit(made.append, 2).result()
    assert made == [2]
    thread.shutdown()
