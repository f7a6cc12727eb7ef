"""Hold processes to a share of a processor, as if each ran on a small machine of its own. This needs Linux.

The kernel does it, by a quota of a group of its own for each process, where groups may be created (root may, as a
rule). To stop and wake processes would need no rights, but costs a process as much as it has threads: a JVM gets no
more than a third of its share done.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

PERIOD_S: Final = 0.02
GROUPS: Final = Path("/sys/fs/cgroup")
PROCESSES: Final = "cgroup.procs"


@contextmanager
def held_to(share: float, pids: Sequence[int]) -> Iterator[None]:
    """RuntimeError where this process may not create groups."""
    folder = quota_folder()
    if folder is None:
        raise RuntimeError(f"a share of a processor needs a quota of the kernel: run it as root, with {GROUPS}")
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
