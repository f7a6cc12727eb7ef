"""How a process is held to a share of a processor."""

from pathlib import Path

import pytest
from bench import shares
from bench.shares import PROCESSES, held_to, quota_folder, with_quota

PID = 4711


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


def test_without_a_quota_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "quota_folder", lambda: None)
    with pytest.raises(RuntimeError, match="run it as root"), held_to(0.4, [PID]):
        raise AssertionError("it was measured")
