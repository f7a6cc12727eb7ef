"""Files that were renamed away go when they are due, by threads, from each log directory for itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node.turns import until

from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk
from penstock.node.environment import remover as remover_module
from penstock.node.environment.remover import LONGEST_MS, LONGEST_WAIT_S, MAX_FILES_AT_ONCE, Remover


class Removing:
    """Log directories on disks that may be held, and their remover."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 1_000
        self.paths = [str(path / name) for name in "ab"]
        for one in self.paths:
            Path(one).mkdir()
        self.directories = LogDirectories(self.paths, node_id=1, random=Random(1))
        self.remover = Remover(self.directories, lambda: self.now_ms)
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.held = ""
        """A path on which the disk hangs."""
        self.broken = ""
        self.takes_ms = 0
        self.removed: list[str] = []
        monkeypatch.setattr(Disk, "remove", lambda _, path: self._remove(path))

    def _remove(self, path: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        if path == self.held:
            self.begun.set()
            assert self.may_go_on.wait(30)
        self.removed.append(path)
        self.now_ms += self.takes_ms
        if path == self.broken:
            raise PermissionError(path)

    def scheduled(self, count: int, due_ms: int, where: int = 0) -> list[str]:
        paths = [f"{self.paths[where]}/{due_ms}-{number:04}.deleted" for number in range(count)]
        for path in paths:
            self.directories._removals.schedule(path, due_ms)
        return paths


@asynccontextmanager
async def removing(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Removing]:
    made = Removing(path, monkeypatch)
    made.remover.start()
    try:
        yield made
    finally:
        made.may_go_on.set()
        await made.remover.stop()
        made.directories.abandon()


async def test_what_is_due_goes_and_one_that_cannot_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remover_module, "MAX_PATHS_AT_ONCE", MAX_FILES_AT_ONCE + 3)
    async with removing(tmp_path, monkeypatch) as one:
        paths = one.scheduled(2 * MAX_FILES_AT_ONCE + 5, 1_000)
        later = one.scheduled(1, 2_000)
        one.broken = paths[0]
        await until(lambda: len(one.removed) == len(paths) and not one.remover._leaving)
        assert one.removed == paths
        assert one.directories.next_removal_ms() == 2_000
        one.now_ms = 2_000
        sooner = one.scheduled(1, 1_500)
        await until(lambda: len(one.removed) == len(paths) + 2)
        assert one.removed[len(paths) :] == [*sooner, *later]


@pytest.mark.parametrize(
    ("takes_ms", "at_once"), [(0, MAX_FILES_AT_ONCE), (LONGEST_MS // 2, 2), (LONGEST_MS - 1, 2), (LONGEST_MS, 1)]
)
async def test_other_work_of_the_disk_has_its_turn_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes_ms: int, at_once: int
) -> None:
    async with removing(tmp_path, monkeypatch) as one:
        done, remove = [], one.directories.remove

        def counted(*given: Any) -> int:
            done.append(remove(*given))
            return done[-1]

        monkeypatch.setattr(one.directories, "remove", counted)
        one.takes_ms = takes_ms
        paths = one.scheduled(MAX_FILES_AT_ONCE + 1, 0)
        await until(lambda: len(one.removed) == len(paths))
        assert done[:-1] == [at_once] * ((len(paths) - 1) // at_once)


async def test_what_a_thread_schedules_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with removing(tmp_path, monkeypatch) as one:
        await asyncio.sleep(0)
        await asyncio.to_thread(one.scheduled, 1, 0)
        await until(lambda: one.removed)


async def test_a_disk_that_hangs_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with removing(tmp_path, monkeypatch) as one:
        (one.held,) = one.scheduled(1, 0, where=0)
        assert await asyncio.to_thread(one.begun.wait, 30)
        paths = one.scheduled(MAX_FILES_AT_ONCE + 1, 1, where=1)
        await until(lambda: one.removed == paths)
        more = one.scheduled(1, 2, where=0)
        await until(lambda: one.remover._leaving[one.paths[0]])
        one.may_go_on.set()
        await until(lambda: one.removed == [*paths, one.held, *more])


async def test_a_name_that_is_used_again_while_a_thread_works_is_removed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with removing(tmp_path, monkeypatch) as one:
        first, one.held = one.scheduled(2, 0)
        assert await asyncio.to_thread(one.begun.wait, 30)
        one.directories._removals.schedule(first, 0)
        await until(lambda: first in one.remover._leaving[one.paths[0]])
        one.may_go_on.set()
        await until(lambda: one.removed == [first, one.held, first])


async def test_a_stop_waits_for_a_file_and_leaves_the_others_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with removing(tmp_path, monkeypatch) as one:
        paths = one.scheduled(3 * MAX_FILES_AT_ONCE, 0)
        one.held = paths[0]
        assert await asyncio.to_thread(one.begun.wait, 30)
        stopping = asyncio.create_task(one.remover.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        one.may_go_on.set()
        await stopping
        assert one.removed == [one.held]
        one.scheduled(1, -1)  # nobody is told any more


@pytest.mark.parametrize(
    ("due_ms", "seconds"), [(None, None), (1_000, 0), (5, 0), (3_500, 2.5), (10_000_000, LONGEST_WAIT_S)]
)
async def test_how_long_nothing_is_looked_for(due_ms: int | None, seconds: float | None) -> None:
    directories: Any = SimpleNamespace(next_removal_ms=partial(lambda due_ms: due_ms, due_ms))
    assert Remover(directories, lambda: 1_000)._seconds_to_next() == seconds
