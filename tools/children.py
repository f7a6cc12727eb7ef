"""Runs something in a forked child that is allowed so much CPU time, memory and waiting: for `asking.py`."""

import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

NOTICED, SURVIVES, TOO_LONG, NO_VERDICT = "noticed", "survives", "takes too long", "no verdict"
"""A test failed, none did, the CPU time was used up or there was no more use of it, the clock ran out before."""

IDLE_S = 20
"""A child that used no CPU time for so long is at its end."""

WALL_S = 900
"""So long at most on the clock, of a machine that others use as well."""

MEMORY_BYTES = 4 << 30


def verdict_of(work: Callable[[], int], cpu_s: int, wall_s: int = WALL_S) -> str:
    """What came of `work`, which returns 0 when no test failed, in a child. What the child started ends with it."""
    child = os.fork()
    if not child:
        _be_the_child(work, cpu_s)
    begun = since = time.monotonic()
    used, verdict = 0, TOO_LONG
    try:
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            now = time.monotonic()
            if used != (used := _cpu_ticks(child)):
                since = now
            if now - since > IDLE_S or now - begun > wall_s:
                verdict = TOO_LONG if now - since > IDLE_S else NO_VERDICT
                os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return verdict
    return NOTICED if os.WEXITSTATUS(status) else SURVIVES


def _be_the_child(work: Callable[[], int], cpu_s: int) -> None:
    os.setpgid(0, 0)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    code = 1
    with suppress(BaseException):
        code = work()
    os._exit(code)


def _cpu_ticks(process: int) -> int:
    return sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]))
