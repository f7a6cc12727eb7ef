"""Hold processes to a share of a processor, as if each ran on a small machine of its own. This needs Linux.

The kernel does it, by a quota of a group of its own for each process, where groups may be created (root may, as a
rule). Elsewhere a process that has had its share is stopped (SIGSTOP) until it may go on. That needs no rights, but
stopping and waking costs a process as much as it has threads: a JVM gets no more than a third of its share done.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.child import Background

PERIOD_S: Final = 0.02
LOOK_S: Final = 0.002
"""Between two looks at a process that is stopped and woken."""
GROUPS: Final = Path("/sys/fs/cgroup")
PROCESSES: Final = "cgroup.procs"


@contextmanager
def held_to(share: float, pids: Sequence[int]) -> Iterator[None]:
    folder = quota_folder()
    if folder is None:
        with _Governed(share, pids):
            yield
        return
    with ExitStack() as stack:
        for pid in pids:
            stack.enter_context(with_quota(folder, share, pid))
        yield


def quota_folder(groups: Path = GROUPS) -> Path | None:
    """Where this process may create groups with quotas, in cgroups of version 1 or 2; None if nowhere."""
    first, controllers = groups / "cpu", groups / "cgroup.subtree_control"
    if first.is_dir():
        folder = first
    elif controllers.exists() and "cpu" in controllers.read_text().split():
        folder = groups
    else:
        return None
    return folder if os.access(folder, os.W_OK) and os.access(folder / PROCESSES, os.W_OK) else None


@contextmanager
def with_quota(folder: Path, share: float, pid: int) -> Iterator[None]:
    """The process in a group of its own, and back where it was."""
    period_us = round(PERIOD_S * 1e6)
    quota_us = round(share * period_us)
    before = folder / _group_of(pid, is_first=folder.name == "cpu").lstrip("/") / PROCESSES
    group = folder / f"penstock-bench-{pid}"
    group.mkdir()
    try:
        if folder.name == "cpu":
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (group / "cpu.max").write_text(f"{quota_us} {period_us}")
        (group / PROCESSES).write_text(str(pid))
        yield
    finally:
        try:
            before.write_text(str(pid))
        except ProcessLookupError:
            pass  # it has ended
        group.rmdir()


def _group_of(pid: int, *, is_first: bool) -> str:
    """From the kernel's lines of `number:controllers:group`."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    return next(group for _, names, group in lines if ("cpu" in names.split(",") if is_first else not names))


class Share:
    """A process owes what it used beyond its share, and saves for a period at most."""

    def __init__(self, pid: int, share: float, now_s: float) -> None:
        self._pid = pid
        self._share = share
        self._used_s = run_time_s(pid)
        self._looked_s = now_s
        self._owed_s = -share * PERIOD_S
        self._is_stopped = False

    def enforce(self, now_s: float) -> None:
        used_s = run_time_s(self._pid)
        owed_s = self._owed_s + used_s - self._used_s - self._share * (now_s - self._looked_s)
        self._owed_s = max(owed_s, -self._share * PERIOD_S)
        self._used_s, self._looked_s = used_s, now_s
        if (self._owed_s > 0) != self._is_stopped:
            self._is_stopped = not self._is_stopped
            os.kill(self._pid, signal.SIGSTOP if self._is_stopped else signal.SIGCONT)

    def release(self) -> None:
        if self._is_stopped:
            os.kill(self._pid, signal.SIGCONT)
            self._is_stopped = False


def run_time_s(pid: int) -> float:
    """The run time of all threads, by the process's own clock."""
    return time.clock_gettime((~pid << 3) | 2)


class _Governed(Background):
    def __init__(self, share: float, pids: Sequence[int]) -> None:
        super().__init__()
        self._shares = [Share(pid, share, time.monotonic()) for pid in pids]

    def run(self) -> None:
        while not self.is_over.wait(LOOK_S):
            for one in self._shares:
                one.enforce(time.monotonic())
        for one in self._shares:
            one.release()
