"""What was renamed away goes when it is due, a few files at a time."""

from pathlib import Path
from random import Random

import pytest

from penstock.log.disk import Disk
from penstock.log.removals import LATER_MS, Removals


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


def test_what_lies_on_a_disk_that_is_passed_by_waits_a_moment(tmp_path: Path) -> None:
    removals = Removals(Disk())
    for name in ("d", "d1"):
        (tmp_path / name).mkdir()
        for number in range(3):
            (tmp_path / name / str(number)).touch()
            removals.schedule(str(tmp_path / name / str(number)), number)
    busy = [str(tmp_path / "d")]
    assert removals.remove_due(5, at_most=1, passing_by=busy) == 0, "what is passed by counts as work"
    assert removals.remove_due(5, passing_by=busy) == 3
    assert [len(list((tmp_path / name).iterdir())) for name in ("d", "d1")] == [3, 0]
    assert (removals.next_deadline_ms(), len(removals)) == (5 + LATER_MS, 3)
    assert removals.remove_due(4 + LATER_MS) == 0
    assert removals.remove_due(5 + LATER_MS) == 3


@pytest.mark.parametrize("seed", range(4))
def test_what_is_due_goes_little_by_little_and_nothing_else(tmp_path: Path, seed: int) -> None:
    random, removals, due = Random(seed), Removals(Disk()), dict[Path, int]()
    for number in range(20):
        path, due_ms = tmp_path / str(number), random.randrange(100)
        if random.random() < 0.5:
            path.touch()
        else:
            path.mkdir()
            for name in range(random.randrange(6)):
                (path / str(name)).touch()
        removals.schedule(str(path), due_ms)
        due[path] = due_ms
    for now_ms in range(0, 110, 10):
        while True:
            at_most, before = random.randint(1, 7), files_below(tmp_path)
            count = removals.remove_due(now_ms, at_most=at_most)
            gone = [path for path in due if not path.exists()]
            assert all(due[path] <= now_ms for path in gone)
            assert len(before - files_below(tmp_path)) <= at_most
            assert count == len(gone)
            for path in gone:
                del due[path]
            if not before - files_below(tmp_path) and not gone:
                break
        assert all(due_ms > now_ms for due_ms in due.values())
        assert (removals.next_deadline_ms(), len(removals)) == (min(due.values(), default=None), len(due))


def files_below(path: Path) -> set[Path]:
    return {one for one in path.rglob("*") if one.is_file()}
