"""Hold processes to a share of a processor, as if each ran on a small machine of its own.

The kernel tells how long each thread has run (`/proc/PID/task/*/schedstat`, in nanoseconds). In each period a process
that has had its share is stopped (SIGSTOP) until the next one begins. This needs Linux and no rights.
"""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PERIOD_S: Final = 0.02
CHECKS: Final = 10
"""So often a process is looked at in a period: it may run over by that part of it, and the next period pays."""


class Share:
    """One process and what it may use: `budget_ns` grows by its share in each period and shrinks by what it uses."""

    def __init__(self, pid: int, share: float) -> None:
        self._pid = pid
        self._per_period_ns = share * PERIOD_S * 1e9
        self._used_ns = run_time_ns(pid)
        self._is_stopped = False
        self.budget_ns = self._per_period_ns

    def next_period(self) -> None:
        """What was left is not carried over; a debt is."""
        self.budget_ns = min(self.budget_ns, 0.0) + self._per_period_ns

    def enforce(self) -> None:
        """Stop the process, or let it go on."""
        used_ns = run_time_ns(self._pid)
        self.budget_ns -= used_ns - self._used_ns
        self._used_ns = used_ns
        if (self.budget_ns <= 0) != self._is_stopped:
            self._is_stopped = not self._is_stopped
            os.kill(self._pid, signal.SIGSTOP if self._is_stopped else signal.SIGCONT)

    def release(self) -> None:
        """Let it run as it likes."""
        if self._is_stopped:
            os.kill(self._pid, signal.SIGCONT)
            self._is_stopped = False


def run_time_ns(pid: int) -> int:
    """How long all threads of a process have run; those that have ended in between count no more."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            pass  # it has just ended
    return total


@contextmanager
def held_to(share: float, pids: Sequence[int]) -> Iterator[None]:
    """Hold each of these processes to this share of one processor, for as long as the block lasts."""
    shares = [Share(pid, share) for pid in pids]
    over = threading.Event()

    def govern() -> None:
        turn = 0
        while not over.wait(PERIOD_S / CHECKS):
            turn += 1
            for one in shares:
                if turn % CHECKS == 0:
                    one.next_period()
                one.enforce()

    thread = threading.Thread(target=govern, name="shares", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for one in shares:
            one.release()
