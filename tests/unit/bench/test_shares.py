"""How a process is held to a share of a processor."""

import os
import signal

import pytest
from bench import shares
from bench.shares import PERIOD_S, Share

PID = 4711
PERIOD_NS = PERIOD_S * 1e9


class Kernel:
    """How long the process has run, and the signals that it got."""

    def __init__(self) -> None:
        self.used_ns = 0.0
        self.signals: list[int] = []


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(shares, "run_time_ns", lambda pid: kernel.used_ns)
    monkeypatch.setattr(os, "kill", lambda pid, number: kernel.signals.append(number))
    return kernel


def test_a_process_stops_when_its_share_is_used_and_goes_on_in_the_next_period(kernel: Kernel) -> None:
    share = Share(PID, 0.5)
    kernel.used_ns = 0.4 * PERIOD_NS
    share.enforce()
    assert kernel.signals == []
    kernel.used_ns = 0.6 * PERIOD_NS
    share.enforce()
    share.enforce()
    assert kernel.signals == [signal.SIGSTOP]
    share.next_period()
    share.enforce()
    assert kernel.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_what_was_used_too_much_is_paid_for_and_what_was_left_is_lost(kernel: Kernel) -> None:
    share = Share(PID, 0.5)
    share.next_period()
    assert share.budget_ns == pytest.approx(0.5 * PERIOD_NS)
    kernel.used_ns = 1.5 * PERIOD_NS
    share.enforce()
    share.next_period()
    share.enforce()
    assert kernel.signals == [signal.SIGSTOP]
    share.next_period()
    share.next_period()
    share.enforce()
    assert kernel.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_a_process_that_is_let_go_runs(kernel: Kernel) -> None:
    share = Share(PID, 0.5)
    kernel.used_ns = PERIOD_NS
    share.enforce()
    share.release()
    share.release()
    assert kernel.signals == [signal.SIGSTOP, signal.SIGCONT]
