"""Copies of logs that get their final names at a start, as their originals were renamed away before a crash."""

import errno
from typing import Any, cast
from uuid import UUID

from penstock.log.directories.finding import finish_swaps
from penstock.log.disk import Disk
from penstock.log.names import renamed_partition_directory


class Renaming(Disk):
    """It only writes down what is asked for, and fails below one directory."""

    __slots__ = ("done", "failing")

    def __init__(self, failing: str) -> None:
        self.done = list[str]()
        self.failing = failing

    def rename(self, source: str, target: str) -> None:
        if source.startswith(self.failing):
            raise OSError(errno.EIO, "Input/output error")
        self.done.append(f"{source} as {target}")

    def sync_directory(self, path: str) -> None:
        self.done.append(f"sync {path}")


class Root:
    def __init__(self) -> None:
        self.problems = list[Exception]()

    def give_up(self, problem: Exception) -> None:
        self.problems.append(problem)


def named(kind: str, topic: str, partition: int, number: int) -> str:
    return renamed_partition_directory(f"-{kind}", topic, partition, UUID(int=number))


def finished(failing: str = "none") -> tuple[list[str], dict[str, list[str]], dict[str, Root]]:
    names = {
        "p": [named("future", "a", 0, 1), named("future", "b", 0, 2), named("delete", "a", 1, 3)],
        "q": [named("delete", "b", 0, 2), named("future", "c", 0, 4), "c-0", named("future", "a", 1, 3)],
        "r": [named("delete", "c", 0, 4), named("stray", "a", 0, 1)],
    }
    disk, roots = Renaming(failing), {path: Root() for path in names}
    finish_swaps(disk, cast("Any", roots), names)
    return disk.done, names, roots


def test_a_copy_whose_original_was_renamed_away_gets_its_name_unless_that_is_there() -> None:
    done, names, roots = finished()
    assert done == [
        f"p/{named('future', 'b', 0, 2)} as p/b-0",
        "sync p",
        f"q/{named('future', 'a', 1, 3)} as q/a-1",
        "sync q",
    ]
    assert names["p"] == [named("future", "a", 0, 1), "b-0", named("delete", "a", 1, 3)]
    assert names["q"] == [named("delete", "b", 0, 2), named("future", "c", 0, 4), "c-0", "a-1"]
    assert not any(root.problems for root in roots.values())


def test_a_directory_in_which_that_fails_is_given_up_and_the_others_go_on() -> None:
    done, names, roots = finished("p/")
    assert done == [f"q/{named('future', 'a', 1, 3)} as q/a-1", "sync q"]
    assert named("future", "b", 0, 2) in names["p"]
    assert [len(roots[path].problems) for path in "pqr"] == [1, 0, 0]
