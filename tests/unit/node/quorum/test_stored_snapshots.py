import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.log.disk import Disk, OpenFile
from penstock.log.health import Health
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.ports import SnapshotId

FIRST, SECOND, THIRD = SnapshotId(10, 1), SnapshotId(20, 1), SnapshotId(30, 2)


def opened(tmp_path: Path, disk: Disk | None = None) -> StoredSnapshots:
    return StoredSnapshots(disk or Disk(), str(tmp_path / "log"))


def names(tmp_path: Path) -> list[str]:
    return sorted(os.listdir(tmp_path / "log"))


def test_an_empty_directory_has_none(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)
    assert snapshots.latest is None
    assert snapshots.size(FIRST) is None


def test_what_was_written_is_there_by_its_kafka_name_also_after_a_restart(tmp_path: Path) -> None:
    opened(tmp_path).write(FIRST, [b"first", b"", b" chunk"])
    for snapshots in (opened(tmp_path), opened(tmp_path)):
        assert snapshots.latest == FIRST
        assert snapshots.size(FIRST) == 11
        assert snapshots.load(FIRST) == b"first chunk"
        assert snapshots.read(FIRST, 2, 5) == b"rst c"
        assert snapshots.read(FIRST, 9, 5) == b"nk"
        assert snapshots.size(SnapshotId(10, 2)) is None
    assert names(tmp_path) == ["00000000000000000010-0000000001.checkpoint"]


def test_a_fetched_one_counts_when_it_is_finished(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)
    snapshots.begin(FIRST)
    snapshots.add(FIRST, b"abc")
    snapshots.add(FIRST, b"def")
    assert snapshots.latest is None
    assert snapshots.size(FIRST) is None
    assert names(tmp_path) == ["00000000000000000010-0000000001.checkpoint.part"]
    snapshots.finish(FIRST)
    assert snapshots.latest == FIRST
    assert opened(tmp_path).load(FIRST) == b"abcdef"


def test_to_begin_forgets_what_was_there(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)
    snapshots.begin(FIRST)
    snapshots.add(FIRST, b"a long piece")
    snapshots.begin(FIRST)
    snapshots.add(FIRST, b"short")
    snapshots.finish(FIRST)
    assert snapshots.load(FIRST) == b"short"
    snapshots.begin(SECOND)
    snapshots.begin(THIRD)
    assert [name for name in names(tmp_path) if name.endswith(".part")] == [
        "00000000000000000030-0000000002.checkpoint.part"
    ]


class SlowFile(OpenFile):
    """Something else happens while it is synced."""

    meanwhile: Callable[[], None]

    def sync(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        super().sync()


class SlowDisk(Disk):
    meanwhile: Callable[[], None]

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        file = super().open(path, create=create)
        fd, file.fd = file.fd, -1
        slow = SlowFile(fd)
        slow.meanwhile, self.meanwhile = self.meanwhile, lambda: None
        return slow


@pytest.mark.parametrize("following", [FIRST, SECOND])
def test_a_fetch_that_begins_while_a_thread_reads_the_one_before_does_not_disturb_it(
    tmp_path: Path, following: SnapshotId
) -> None:
    """As where the leader changes: the next one may know of another snapshot, or of the same."""
    disk = SlowDisk()
    disk.meanwhile = lambda: snapshots.begin(following)
    health = Health("log")
    snapshots = StoredSnapshots(disk, str(tmp_path / "log"), health)
    snapshots.begin(FIRST)
    snapshots.add(FIRST, b"whole")
    assert snapshots.fetched(FIRST)() == b"whole"
    assert health.failure is None
    snapshots.add(following, b"another")
    late = snapshots.fetched(following)
    snapshots.begin(following)
    snapshots.add(following, b"an")
    assert late() == b"another"


def test_one_that_is_finished_while_a_thread_still_reads_it_does_not_disturb_it(tmp_path: Path) -> None:
    """It was fetched twice, and the first reading said that it is good."""
    snapshots = opened(tmp_path)
    snapshots.begin(FIRST)
    snapshots.add(FIRST, b"whole")
    late = snapshots.fetched(FIRST)
    snapshots.finish(FIRST)
    assert late() == b"whole"


def test_what_a_crash_left_is_removed_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    whole = "00000000000000000010-0000000001.checkpoint"
    others = ["00000000000000000000.log", "leader-epoch-checkpoint", "notes.part", "quorum-state"]
    for name in [whole, whole + ".part", whole.replace("1", "2") + ".part", whole + ".tmp", *others]:
        (tmp_path / "log" / name).write_bytes(b"left")
    snapshots = opened(tmp_path)
    assert names(tmp_path) == sorted([*others, whole])
    assert snapshots.latest == FIRST


def test_the_newest_two_are_kept_once_the_log_is_cut(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)
    for snapshot in (FIRST, THIRD, SECOND):
        snapshots.write(snapshot, [b"x"])
    assert snapshots.latest == THIRD
    assert snapshots.size(FIRST) == 1
    retired: list[str] = []
    snapshots.forget_older(retired.append)
    assert [snapshots.size(snapshot) for snapshot in (FIRST, SECOND, THIRD)] == [None, 1, 1]
    assert retired == [snapshots.path(FIRST)]


def test_a_whole_one_never_changes(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)
    snapshots.write(FIRST, [b"first"])
    snapshots.write(FIRST, [b"another"])
    assert snapshots.load(FIRST) == b"first"


def test_a_fetch_and_a_write_of_the_same_snapshot_do_not_disturb_each_other(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)
    snapshots.begin(FIRST)
    snapshots.add(FIRST, b"fet")
    snapshots.write(FIRST, [b"written"])
    assert snapshots.load(FIRST) == b"written"
    snapshots.add(FIRST, b"ched")
    snapshots.finish(FIRST)
    assert snapshots.load(FIRST) == b"fetched"
    assert snapshots.size(FIRST) == 7


def test_one_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    snapshots = opened(tmp_path)

    def chunks() -> Iterator[bytes]:
        yield b"first"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(KafkaError, match="No space left") as refusal:
        snapshots.write(FIRST, chunks())
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert snapshots.latest is None
    assert names(tmp_path) == []


class WatchedFile(OpenFile):
    """Tells of its syncs."""

    __slots__ = ("_steps", "_synced")

    def __init__(self, fd: int, steps: list[str], synced: str) -> None:
        super().__init__(fd)
        self._steps = steps
        self._synced = synced

    def sync(self) -> None:
        super().sync()
        self._steps.append(self._synced)


class WatchedDisk(Disk):
    """Tells what is brought to the disk, in order."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: list[str] = []

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        file = super().open(path, create=create)
        fd, file.fd = file.fd, -1
        return WatchedFile(fd, self.steps, "sync " + path.rpartition(".")[2])

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.steps.append("rename")

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.steps.append("sync directory")


def test_it_is_on_the_disk_before_it_has_its_name_and_its_name_is_before_it_counts(tmp_path: Path) -> None:
    disk = WatchedDisk()
    snapshots = opened(tmp_path, disk)
    disk.steps.clear()
    snapshots.write(FIRST, [b"x"])
    assert disk.steps == ["sync tmp", "rename", "sync directory"]
    disk.steps.clear()
    snapshots.begin(SECOND)
    snapshots.add(SECOND, b"x")
    snapshots.finish(SECOND)
    assert disk.steps == ["sync part", "rename", "sync directory"]
