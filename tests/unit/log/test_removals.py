"""What was renamed away goes when it is due, a few files at a time."""

import errno
from pathlib import Path
from random import Random

import pytest

from penstock.log.disk import Disk
from penstock.log.removals import Removals


class ReadOnly(Disk):
    def remove(self, path: str) -> None:
        raise PermissionError(path)


def test_what_cannot_be_removed_is_not_tried_again_and_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The node would do nothing else."""
    removals = Removals(ReadOnly())
    for due_ms, name in enumerate(("first", "second")):
        (tmp_path / name).touch()
        removals.schedule(str(tmp_path / name), due_ms)
    assert removals.remove(removals.take_due(5, 99), 9) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / name}: could not be removed, the next start tries again: {tmp_path / name}"
        for name in ("first", "second")
    ]
    assert removals.next_deadline_ms() is None
    assert removals.take_due(5, 99) == []


def test_a_large_directory_goes_in_parts(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.mkdir()
    for number in range(5):
        (large / str(number)).touch()
    removals = Removals(Disk())
    removals.schedule(str(large), 3)
    assert removals.take_due(2, 99) == []
    assert removals.next_deadline_ms() == 3
    (path,) = removals.take_due(3, 99)
    assert [removals.remove([path], 2) for _ in range(2)] == [0, 0]
    assert removals.remove([path], 2) == 1
    assert not large.exists()
    assert removals.next_deadline_ms() is None


def test_no_more_is_taken_than_was_asked_for() -> None:
    removals = Removals(Disk())
    for number in range(5):
        removals.schedule(str(number), number)
    assert removals.take_due(3, 2) == ["0", "1"]
    assert removals.take_due(3, 2) == ["2", "3"]
    assert removals.take_due(3, 2) == []
    assert removals.next_deadline_ms() == 4


def test_it_is_told_what_is_due_sooner_than_all_else() -> None:
    removals, told = Removals(Disk()), list[int | None]()
    removals.on_sooner = lambda: told.append(removals.next_deadline_ms())
    for due_ms in (7, 9, 7, 3, 5):
        removals.schedule(f"{due_ms} {len(told)}", due_ms)
    assert told == [7, 3]


def test_a_file_that_is_needed_no_more_gets_a_name_of_its_own_if_it_is_there(tmp_path: Path) -> None:
    removals, path = Removals(Disk()), tmp_path / "0.log"
    for content in (b"x", b"y", b"z"):
        path.write_bytes(content)
        for _ in range(2):
            removals.retire(str(path), 6)
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(left.values()) == [b"x", b"y", b"z"]
    assert sorted(removals.take_due(6, 9)) == sorted(str(tmp_path / name) for name in left)
    for _ in range(100):
        path.touch()
        removals.retire(str(path), 6)
    assert max(len(path.name) for path in tmp_path.iterdir()) < 20


def test_what_was_to_go_of_a_directory_that_was_renamed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be due in years: logs that come and go would leave more and more of it."""
    monkeypatch.setattr("penstock.log.removals.SWEEP_AT_LEAST", 10)
    removals = Removals(Disk())
    for number in range(500):
        for segment in range(4):
            removals.schedule(f"d/t-0/{segment}.deleted", 2**63)
        removals.renamed("d/t-0")
        removals.schedule(f"d/t-0.{number}-delete", number)
        assert removals.take_due(number, 9) == [f"d/t-0.{number}-delete"]
    removals.schedule("d/t-0/new.deleted", 1_000)  # of a later topic of that name
    assert len(removals) <= 10
    for number in range(20):
        removals.schedule(f"d/u-0/{number}.deleted", 1_000)
    assert len(removals) == 21, "all that is left of the others has gone by now"
    assert "d/t-0/new.deleted" in removals.take_due(1_000, 99)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_file_for_whose_longer_name_there_is_no_room_goes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def rename(*_: object) -> None:
        raise OSError(error, "it does not")

    removals, path = Removals(Disk()), tmp_path / "0.log"
    path.write_bytes(b"x")
    monkeypatch.setattr(Disk, "rename", rename)
    if error == errno.EIO:
        with pytest.raises(OSError, match="it does not"):
            removals.retire(str(path), 6)
    else:
        removals.retire(str(path), 6)
    assert (path.exists(), len(removals)) == (error == errno.EIO, 0)


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
        paths = removals.take_due(now_ms, 99)
        assert paths == [
            str(path) for path in sorted(due, key=lambda path: (due[path], str(path))) if due[path] <= now_ms
        ]
        while paths:
            at_most, before = random.randint(1, 7), files_below(tmp_path)
            done = removals.remove(paths, at_most)
            assert len(before - files_below(tmp_path)) + done > 0
            assert len(before - files_below(tmp_path)) <= at_most
            assert [Path(path).exists() for path in paths] == [False] * done + [True] * (len(paths) - done)
            for gone in paths[:done]:
                del due[Path(gone)]
            paths = paths[done:]
        assert all(path.exists() for path in due)
        assert (removals.next_deadline_ms(), len(removals)) == (min(due.values(), default=None), len(due))


def files_below(path: Path) -> set[Path]:
    return {one for one in path.rglob("*") if one.is_file()}
