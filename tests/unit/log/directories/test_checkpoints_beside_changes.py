"""A thread gathers checkpoints while the event loop changes the logs."""

from pathlib import Path

import pytest
from tests.unit.log.directories.opened import CONFIG, TOPIC_ID, open_directories, write_checkpoints
from tests.unit.log.logs import NOW, append, batch

from penstock.log.disk import Disk
from penstock.log.names import RECOVERY_POINTS
from penstock.log.segments import Segments


def test_a_log_that_begins_anew_ends_no_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread may have its turn whenever a file is removed."""
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    log.load().roll(5, NOW)
    remove = Disk.remove

    def removing(disk: Disk, path: str) -> None:
        remove(disk, path)
        write_checkpoints(directories)

    monkeypatch.setattr(Disk, "remove", removing)
    log.truncate_fully_and_start_at(70)
    assert (tmp_path / RECOVERY_POINTS).read_text() == "0\n1\nt 0 70\n"
    directories.abandon()


@pytest.mark.parametrize("name", ["recovery_point", "start_to_checkpoint"])
def test_a_log_that_is_put_away_tells_the_same_all_the_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    append(log, batch(5))
    log.flush()
    log.advance_log_start(5)
    told, forget_files = [getattr(log, name)], Segments.forget_files

    def forget(segments: Segments) -> None:
        told.append(getattr(log, name))
        forget_files(segments)
        told.append(getattr(log, name))

    monkeypatch.setattr(Segments, "forget_files", forget)
    log.abandon()
    assert told == [told[0]] * 3
    assert told[0] in (10, 5)
    directories.abandon()
