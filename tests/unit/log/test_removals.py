"""What was renamed away is removed a few files at a time, however many a directory has."""

from pathlib import Path

from penstock.log.disk import Disk
from penstock.log.removals import Removals

FILES = 25


def test_a_large_directory_goes_with_several_calls(tmp_path: Path) -> None:
    removals, large, last = Removals(Disk()), tmp_path / "large", tmp_path / "last"
    large.mkdir()
    for number in range(FILES):
        (large / str(number)).touch()
    last.touch()
    removals.schedule(str(large), 1)
    removals.schedule(str(last), 2)
    left = []
    for _ in range(4):
        removals.remove_due(2, at_most=10)
        left.append(len(list(large.iterdir())) if large.exists() else None)
    assert left == [15, 5, None, None]
    assert not last.exists()
    assert removals.next_deadline_ms() is None


def test_what_cannot_be_removed_stops_nothing(tmp_path: Path) -> None:
    """Directories in a partition's are none of ours."""
    removals, path, last = Removals(Disk()), tmp_path / "with directories", tmp_path / "last"
    for number in range(FILES):
        (path / str(number)).mkdir(parents=True)
    last.touch()
    removals.schedule(str(path), 1)
    removals.schedule(str(tmp_path / "gone"), 1)
    removals.schedule(str(last), 2)
    removals.remove_due(2, at_most=10)
    assert not path.exists()
    assert not last.exists()
