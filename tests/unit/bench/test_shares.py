"""How a process is held to a share of a processor."""

import os
import signal
from pathlib import Path

import pytest
from bench import shares
from bench.shares import PERIOD_S, PROCESSES, Share, quota_folder, with_quota

PID = 4711


class Kernel:
    """How long the process has run, and the signals that it got."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self.signals: list[int] = []


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(shares, "run_time_s", lambda pid: kernel.used_s)
    monkeypatch.setattr(os, "kill", lambda pid, number: kernel.signals.append(number))
    return kernel


def test_a_process_stops_when_its_share_is_used_and_goes_on_when_time_has_paid_for_it(kernel: Kernel) -> None:
    share = Share(PID, 0.5, 0.0)
    kernel.used_s = 0.9 * PERIOD_S
    share.enforce(PERIOD_S)
    assert kernel.signals == []
    kernel.used_s = 1.6 * PERIOD_S
    share.enforce(2 * PERIOD_S)
    share.enforce(2 * PERIOD_S)
    assert kernel.signals == [signal.SIGSTOP]
    share.enforce(2.3 * PERIOD_S)
    assert kernel.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_the_share_is_one_of_the_time_that_passed_however_seldom_a_process_is_looked_at(kernel: Kernel) -> None:
    share = Share(PID, 0.5, 0.0)
    kernel.used_s = 20.4 * PERIOD_S
    share.enforce(40 * PERIOD_S)
    assert kernel.signals == []
    kernel.used_s += 1.2 * PERIOD_S
    share.enforce(41 * PERIOD_S)
    assert kernel.signals == [signal.SIGSTOP]


def test_of_what_was_left_a_period_is_saved(kernel: Kernel) -> None:
    share = Share(PID, 0.5, 0.0)
    share.enforce(100 * PERIOD_S)
    kernel.used_s = 0.6 * PERIOD_S
    share.enforce(100 * PERIOD_S)
    assert kernel.signals == [signal.SIGSTOP]


def test_a_process_that_is_let_go_runs(kernel: Kernel) -> None:
    share = Share(PID, 0.5, 0.0)
    kernel.used_s = PERIOD_S
    share.enforce(0.0)
    share.release()
    share.release()
    assert kernel.signals == [signal.SIGSTOP, signal.SIGCONT]


class Written:
    """What was written into files of the kernel, in place of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, group: str) -> None:
        self.files: list[tuple[str, str]] = []
        monkeypatch.setattr(
            Path, "write_text", lambda path, text: self.files.append((f"{path.parent.name}/{path.name}", text))
        )
        monkeypatch.setattr(shares, "_group_of", lambda pid, is_first: group)


@pytest.mark.parametrize(
    ("version", "quota"),
    [(1, [("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "8000")]), (2, [("cpu.max", "8000 20000")])],
)
def test_the_kernel_holds_a_process_in_a_group_of_its_own_and_it_goes_back_to_its_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, quota: list[tuple[str, str]]
) -> None:
    folder = tmp_path / "cpu" if version == 1 else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / PROCESSES).touch()
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory")
    assert quota_folder(tmp_path) == folder
    written = Written(monkeypatch, "/users/one")
    with with_quota(folder, 0.4, PID):
        (group,) = (path for path in folder.iterdir() if path.is_dir())
    assert written.files == [
        *((f"{group.name}/{name}", text) for name, text in quota),
        (f"{group.name}/{PROCESSES}", str(PID)),
        (f"one/{PROCESSES}", str(PID)),
    ]
    assert not group.exists()


@pytest.mark.parametrize("controllers", [None, "memory io"])
def test_no_groups_no_quota(tmp_path: Path, controllers: str | None) -> None:
    if controllers is not None:
        (tmp_path / "cgroup.subtree_control").write_text(controllers)
    assert quota_folder(tmp_path) is None
