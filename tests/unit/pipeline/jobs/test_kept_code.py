"""The code of jobs on a worker's disk: what is in use stays, and what none has used for long goes."""

import asyncio
import os
from pathlib import Path, PosixPath
from typing import Any, Self

import pytest

from penstock.pipeline.jobs import commands, connector
from penstock.pipeline.jobs.code import UNUSED_S, hash_of, made_once, packed, remove_unused, touch, unpacked
from penstock.pipeline.jobs.commands import packages_of
from penstock.pipeline.jobs.connector import TOUCH_EVERY_S, KeptCode, PipelineTask
from penstock.pipeline.jobs.keys import REQUIREMENTS
from penstock.work.connect.api import SourceContext, WorkerContext

LONG_AGO_S = 1_000.0
NOW_S = LONG_AGO_S + UNUSED_S + 1


def aged(path: Path, time_s: float = LONG_AGO_S) -> Path:
    os.utime(path, (time_s, time_s))
    return path


def test_what_was_used_a_month_ago_for_the_last_time_goes(tmp_path: Path) -> None:
    remove_unused(tmp_path / "not made yet", NOW_S)
    for name in ("old", "old.draft", "just used"):
        (tmp_path / name / "modules").mkdir(parents=True)
        (tmp_path / name / "modules" / "a.py").touch()
    for name in ("requirements-old.txt", "requirements-new.txt"):
        (tmp_path / name).touch()
    for name in ("old", "old.draft", "requirements-old.txt"):
        aged(tmp_path / name)
    aged(tmp_path / "just used", LONG_AGO_S + 1)
    remove_unused(tmp_path, NOW_S)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["just used", "requirements-new.txt"]


def test_what_is_asked_for_is_used_then(tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    text = packed([tmp_path / "job.py"])
    aged(unpacked(text, tmp_path / "code"))
    remove_unused(unpacked(text, tmp_path / "code").parent, NOW_S)
    assert (tmp_path / "code" / hash_of(text) / "modules" / "job.py").exists()


class Wanted(PosixPath):
    """Somebody comes for it just before it goes."""

    def rename(self, target: str | os.PathLike[str]) -> Self:
        if self.name == "code":
            touch(self)
        return super().rename(target)


def test_who_comes_for_it_at_that_moment_finds_it(tmp_path: Path) -> None:
    folder = made_once(tmp_path / "code", lambda draft: (draft / "a.py").touch())
    aged(folder)
    remove_unused(Wanted(tmp_path), NOW_S)
    assert (folder / "a.py").exists()


async def test_code_of_a_job_that_runs_is_in_use_and_other_code_goes_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(connector, "LOOK_EVERY_S", 0)
    config, now = {"pipeline.code": "code", REQUIREMENTS: "a==1"}, [0.0]
    folders = [tmp_path / "code" / hash_of("code"), packages_of("a==1")]
    others = tmp_path / "code" / "others"
    for folder in (*folders, others):
        folder.mkdir(parents=True)
        aged(folder)
    task: Any = PipelineTask()
    task._config, task._context = config, SourceContext(lambda _: None, now_s=lambda: now[0])
    task._report, task._run = Quiet(), Quiet()
    task._touch()
    kept = WorkerContext().shared(KeptCode)
    await asyncio.to_thread(kept.removing.join)
    assert not others.exists()
    for now[0], is_touched in ((1.0, False), (TOUCH_EVERY_S, True), (TOUCH_EVERY_S + 1, False)):
        for folder in folders:
            aged(folder)
        await task.poll()
        assert [folder.stat().st_mtime != LONG_AGO_S for folder in folders] == [is_touched] * 2


class Quiet:
    """Runs on."""

    state, is_alive = "running", True

    def renew(self) -> None: ...
