"""One log directory: what its files say, and what is believed where they are damaged."""

import errno
from pathlib import Path

import pytest

from penstock.log.checkpoint import encode_offsets
from penstock.log.directories.description import DirectoryDescription, describe
from penstock.log.directories.errors import LockedDirectoryError
from penstock.log.directories.log_directory import CHECKPOINTS, LogDirectory
from penstock.log.disk import Disk
from penstock.log.names import CLEAN_SHUTDOWN, RECOVERY_POINTS

OFFSETS = {("t", 0): 5}


def read(directory: LogDirectory) -> list[dict[tuple[str, int], int]]:
    """In the order of `CHECKPOINTS`."""
    return [
        directory.recovery_points(),
        directory.log_start_offsets(),
        directory.cleaned_offsets(),
        directory.high_watermarks(),
    ]


@pytest.mark.parametrize("damaged", [None, *CHECKPOINTS])
def test_a_damaged_checkpoint_says_nothing_and_only_recovery_points_are_needed(
    tmp_path: Path, damaged: str | None
) -> None:
    for name in CHECKPOINTS:
        (tmp_path / name).write_bytes(b"no" if name == damaged else encode_offsets(OFFSETS))
    (tmp_path / CLEAN_SHUTDOWN).write_text('{"version": 0, "brokerEpoch": 7}')
    directory = LogDirectory(Disk(), str(tmp_path))
    assert (directory.is_clean, directory.clean_broker_epoch) == (True, 7)
    assert read(directory) == [{} if name == damaged else OFFSETS for name in CHECKPOINTS]
    assert directory.is_clean is (damaged != RECOVERY_POINTS)
    directory.gone([("t", 0), ("u", 1)])
    directory.make_way(("v", 0))
    assert read(directory) == [{} if name == damaged else OFFSETS for name in CHECKPOINTS], "it is in nobody's way"
    directory.make_way(("t", 0))
    assert read(directory) == [{}] * 4
    directory.forget_clean_shutdown()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists(), "a crash from here on would be taken for a clean stop"
    directory.abandon()


@pytest.mark.parametrize("mark", ["", "no", "{}", "[]", '{"brokerEpoch": "x"}', '{"brokerEpoch": null}'])
def test_a_mark_without_an_epoch_is_a_mark_all_the_same(tmp_path: Path, mark: str) -> None:
    (tmp_path / CLEAN_SHUTDOWN).write_text(mark)
    directory = LogDirectory(Disk(), str(tmp_path))
    assert (directory.is_clean, directory.clean_broker_epoch) == (True, -1)
    directory.forget_clean_shutdown()
    assert (directory.is_marked, (tmp_path / CLEAN_SHUTDOWN).exists()) == (False, False)
    directory.close_as_found()
    assert (tmp_path / CLEAN_SHUTDOWN).read_text() == mark


def test_one_process_has_it_until_it_is_closed(tmp_path: Path) -> None:
    directory = LogDirectory(Disk(), str(tmp_path))
    assert (directory.is_clean, directory.is_marked, directory.clean_broker_epoch) == (False, True, -1)
    with pytest.raises(LockedDirectoryError):
        LogDirectory(Disk(), str(tmp_path))
    directory.close(broker_epoch=3)
    again = LogDirectory(Disk(), str(tmp_path))
    assert (again.is_clean, again.clean_broker_epoch) == (True, 3)
    again.abandon()
    LogDirectory(Disk(), str(tmp_path)).abandon()


def test_a_checkpoint_is_written_where_it_changed(tmp_path: Path) -> None:
    directory = LogDirectory(Disk(), str(tmp_path))
    directory.write_cleaned_offsets({})
    assert not (tmp_path / CHECKPOINTS[2]).exists(), "nothing was ever compacted"
    writes = (
        directory.write_recovery_points,
        directory.write_log_start_offsets,
        directory.write_cleaned_offsets,
        directory.write_high_watermarks,
    )
    for write, name in zip(writes, CHECKPOINTS, strict=True):
        write(OFFSETS)
        (tmp_path / name).unlink()
        write(OFFSETS)
        assert not (tmp_path / name).exists()
        write({("t", 0): 6})
        assert (tmp_path / name).read_bytes() == encode_offsets({("t", 0): 6})
    directory.write_cleaned_offsets({})
    assert (tmp_path / CHECKPOINTS[2]).read_bytes() == encode_offsets({})
    directory.abandon()


class Measured(Disk):
    def space(self, path: str) -> tuple[int, int]:
        if path.endswith("broken"):
            raise OSError(errno.EIO, "Input/output error")
        return 50, 20


@pytest.mark.parametrize(("name", "fails"), [("well", False), ("well", True), ("broken", False), ("broken", True)])
def test_what_is_known_of_its_room(tmp_path: Path, name: str, fails: bool) -> None:
    path = str(tmp_path / name)
    directory = LogDirectory(Measured(), path)
    if fails:
        directory.health.report(OSError(errno.EIO, "Input/output error"), "reading")
    found = describe(Measured(), directory)
    if name == "well" and not fails:
        assert found == DirectoryDescription(path=path, total_bytes=50, usable_bytes=20)
        assert (found.failure, found.is_cordoned) == (None, False)
        return
    assert (found.path, found.total_bytes, found.usable_bytes) == (path, -1, -1)
    assert found.failure is not None
    assert ("reading" in str(found.failure.message)) is fails
    assert directory.health.failure is not None
    directory.abandon()
