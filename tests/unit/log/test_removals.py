"""What was renamed away goes when it is due, a few files at a time."""

from pathlib import Path

import pytest

from penstock.log.disk import Disk
from penstock.log.removals import Removals


class ReadOnly(Disk):
    def remove(self, path: str) -> None:
        raise PermissionError(path)


def test_what_cannot_be_removed_is_not_tried_again_and_again(tmp_path: Path) -> None:
    """The node would do nothing else."""
    removals = Removals(ReadOnly())
    for due_ms, name in enumerate(("first", "second")):
        (tmp_path / name).touch()
        removals.schedule(str(tmp_path / name), due_ms)
    with pytest.raises(PermissionError, match="first"):
        removals.remove_due(5)
    with pytest.raises(PermissionError, match="second"):
        removals.remove_due(5)
    assert removals.next_deadline_ms() is None
    assert removals.remove_due(5) == 0


def test_a_large_directory_goes_in_parts(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.mkdir()
    for number in range(5):
        (large / str(number)).touch()
    removals = Removals(Disk())
    removals.schedule(str(large), 3)
    assert [removals.remove_due(3, at_most=2) for _ in range(2)] == [0, 0]
    assert removals.next_deadline_ms() == 3
    assert removals.remove_due(3, at_most=2) == 1
    assert not large.exists()
    assert removals.next_deadline_ms() is None
