"""Tasks whose queries are at a server of Spark Connect; no Spark, but real processes that play one."""

import ast
import asyncio
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.client.errors import ConnectionFailedError
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs import at_server
from penstock.pipeline.jobs.code import packed
from penstock.pipeline.jobs.connector import PipelineConnector, PipelineTask, driver_of, sinks_of
from penstock.pipeline.jobs.keys import SINKS
from penstock.work.connect.api import Changes, Position, SourceContext, WorkerContext
from penstock.work.connect.config import ConfigError
from penstock.work.connect.runtime.kinds import SHUTDOWN

LIMIT_S = 60
YAML = "source: {subscribe: a}\nsink: {topic: one}\n"
CONFIG = {"name": "job", "connector.class": "x", "checkpoint.root": "/c", "pipeline": YAML, SINKS: '["one"]'}
SERVER = "sc://a:1/;token=secret"
PLAYED = """
import json, os, signal, sys

def say(**event):
    print(json.dumps(event), flush=True)

said = json.loads(os.environ["PENSTOCK_SPARK_SERVER"])
kind = os.environ["PLAYED"]
with open(os.environ["TOLD"], "a") as told:
    told.write(said["session"] + "\\n")
print(*sys.argv[1:], flush=True)
say(event="running")

def end(*_):
    if kind != "does not close":
        say(event="closed", session=said["session"])
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
if kind == "crashes":
    sys.exit(3)
if kind == "is out of reach":
    say(event="out of reach")
    sys.exit(1)
signal.pause()
"""
CLOSES = """
import json, os, sys

for server, session in json.load(sys.stdin):
    with open(os.environ["TOLD"], "a") as told:
        told.write(f"close {server} {session}\\n")
    gone = {"error": "it is gone"} if server in os.environ.get("GONE", "") else {}
    print(json.dumps({"event": "closed", "session": session, **gone}), flush=True)
"""


class Group:
    """What the workers of a group have in common, and what the played processes were told."""

    def __init__(self, folder: Path) -> None:
        self.offsets: dict[str, tuple[Position, Position]] = {}
        self._told = folder / "told"
        self.until_s = math.inf

    @property
    def told(self) -> list[str]:
        return self._told.read_text().splitlines() if self._told.exists() else []

    @property
    def sessions(self) -> list[str]:
        """Those that are stored."""
        return [str(partition["session"]) for partition, _ in self.offsets.values()]

    async def begin(self, generation: int, **config: str) -> PipelineTask:
        task = PipelineTask()
        await task.start({**CONFIG, SHUTDOWN.name: "1000", **config}, self.context(generation))
        return task

    def context(self, generation: int) -> SourceContext:
        async def store(offsets: Changes) -> None:
            for partition, offset in offsets:
                if offset is None:
                    del self.offsets[json.dumps(partition)]
                else:
                    self.offsets[json.dumps(partition)] = partition, offset

        return SourceContext(
            lambda _: None,
            lambda: self.until_s,
            all_stored=lambda: list(self.offsets.values()),
            store=store,
            generation=generation,
        )


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    for name, text in (("played.py", PLAYED), ("closes.py", CLOSES)):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(at_server, "RUN", (sys.executable, str(tmp_path / "played.py")))
    monkeypatch.setattr(at_server, "CLOSE", (sys.executable, str(tmp_path / "closes.py")))
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("PLAYED", "drains")
    return Group(tmp_path)


def report(task: PipelineTask) -> Mapping[str, Any]:
    return task.report()


async def is_running(task: PipelineTask) -> None:
    async with asyncio.timeout(LIMIT_S):
        while report(task)["state"] == "starting":
            await asyncio.sleep(0.01)


async def failure_of(task: PipelineTask) -> Exception:
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await task.poll()
            except (PipelineError, ConnectionFailedError) as error:
                return error


async def test_a_session_is_written_down_before_it_is_used_and_forgotten_when_it_is_closed(group: Group) -> None:
    task = await group.begin(7, **{"pipeline.driver": SERVER})
    assert len(group.sessions) == 1
    await is_running(task)
    assert group.told == group.sessions
    assert report(task)["driver"] == {"server": "sc://a:1", "session": group.sessions[0], "generation": 7}
    assert "secret" not in json.dumps(group.offsets)
    assert "--master" not in "".join(report(task)["log"])
    await task.stop()
    assert group.sessions == []
    assert len(group.told) == 1, "its own process has closed it"


async def test_its_modules_are_imported_here_and_taken_along(group: Group, tmp_path: Path) -> None:
    module = tmp_path / "speaks.py"
    module.write_text("print('imported', flush=True)\n")
    (tmp_path / "played.py").write_text("import speaks\n" + PLAYED.replace("signal.pause()", "print(said['modules'])"))
    task = await group.begin(7, **{"pipeline.driver": SERVER, "pipeline.code": packed([module])})
    await is_running(task)
    await failure_of(task)
    log = report(task)["log"]
    assert "imported" in log
    (place,) = ast.literal_eval(log[-1])
    assert [path.name for path in Path(place).glob("*.py")] == ["speaks.py"]
    await task.stop()


async def test_who_has_the_task_next_closes_what_a_dead_worker_has_left(group: Group) -> None:
    dead = await group.begin(7, **{"pipeline.driver": SERVER})
    await is_running(dead)
    (old,) = group.sessions
    os.killpg(dead._run.pid, 9)
    task = await group.begin(8, **{"pipeline.driver": SERVER})
    await is_running(task)
    assert group.told == [old, f"close {SERVER} {old}", *group.sessions]
    assert old not in group.sessions
    await task.stop()


async def test_also_where_it_has_a_driver_of_its_own_by_now(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = await group.begin(7, **{"pipeline.driver": SERVER})
    await is_running(dead)
    os.killpg(dead._run.pid, 9)
    monkeypatch.setattr("penstock.pipeline.jobs.commands.RUN", (sys.executable, "-c", "pass"))
    task = await group.begin(8)
    await task.stop()
    assert group.told[1].startswith("close sc://a:1 "), "what it has no address of any more has no token either"
    assert group.sessions == []


async def test_one_whose_time_is_over_begins_nothing(group: Group) -> None:
    """Its worker stood still for a while, and the next one has begun."""
    task = await group.begin(8, **{"pipeline.driver": SERVER})
    group.until_s = -math.inf
    with pytest.raises(PipelineError, match=r"sc://a:1 runs the queries of this task for generation 8"):
        await group.begin(7, **{"pipeline.driver": SERVER})
    assert not any(line.startswith("close") for line in group.told)
    group.until_s = math.inf
    await task.stop()


async def test_a_group_that_was_forgotten_counts_its_generations_anew(group: Group) -> None:
    """All workers were killed, and their group went as nobody was in it: a later generation stands there for good."""
    dead = await group.begin(8, **{"pipeline.driver": SERVER})
    await is_running(dead)
    os.killpg(dead._run.pid, 9)
    (old,), group.until_s = group.sessions, time.monotonic() + LIMIT_S
    beginning = asyncio.create_task(group.begin(1, **{"pipeline.driver": SERVER}))
    await asyncio.sleep(0)
    assert group.sessions == [old], "nothing begins before the group has answered"
    group.until_s += 1
    task = await beginning
    assert f"close {SERVER} {old}" in group.told
    assert old not in group.sessions
    assert len(group.sessions) == 1
    await task.stop()


async def test_a_session_is_closed_as_the_user_that_has_begun_it(group: Group) -> None:
    """A server keeps sessions by user and id: another user's of that id is another one."""
    for before, after, said in (
        ("sc://a/;user_id=me;token=x", "sc://A:15002/;token=y;user_id=you", "sc://a:15002/;token=y;user_id=me"),
        ("sc://a/;use_ssl=true;user_id=me;token=x", "sc://b", "sc://a:15002/;use_ssl=true;user_id=me"),
        ("sc://a/;token=x", "sc://a/;user_id=you", "sc://a:15002"),
    ):
        dead = await group.begin(7, **{"pipeline.driver": before})
        await is_running(dead)
        os.killpg(dead._run.pid, 9)
        (old,) = group.sessions
        assert "token" not in json.dumps(group.offsets)
        task = await group.begin(8, **{"pipeline.driver": after})
        await is_running(task)
        assert f"close {said} {old}" in group.told
        await task.stop()


@pytest.mark.parametrize("kind", ["crashes", "does not close", "is out of reach"])
async def test_a_session_that_its_process_has_not_closed_is_closed_by_another(
    group: Group, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PLAYED", kind)
    task = await group.begin(7, **{"pipeline.driver": SERVER})
    await is_running(task)
    (session,) = group.sessions
    if kind != "does not close":
        error = await failure_of(task)
        assert isinstance(error, ConnectionFailedError) == (kind == "is out of reach"), (
            "such a failure costs no restart"
        )
    await task.stop()
    assert group.told == [session, f"close {SERVER} {session}"]
    assert group.sessions == []


async def test_where_a_server_does_not_answer_nothing_begins_there(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PLAYED", "does not close")
    task = await group.begin(7, **{"pipeline.driver": SERVER})
    await is_running(task)
    monkeypatch.setenv("GONE", SERVER)
    await task.stop()
    assert "Its queries end when the task begins again" in caplog.text
    (old,) = group.sessions
    with pytest.raises(ConnectionFailedError, match=r"does not say that it has closed session .*: it is gone"):
        await group.begin(8, **{"pipeline.driver": SERVER})
    assert group.sessions == [old]
    task = await group.begin(9, **{"pipeline.driver": "sc://b:1"})
    assert group.sessions[0] == old, "who has the task next tries again"
    assert "ends when this one has written its batch" in caplog.text
    await task.stop()


async def test_nothing_is_closed_for_a_task_that_is_somebody_elses(group: Group) -> None:
    task = await group.begin(7, **{"pipeline.driver": SERVER})
    await is_running(task)
    group.until_s = -math.inf
    await task.stop()
    assert len(group.sessions) == len(group.told) == 1


async def test_a_job_that_is_deleted_has_its_sessions_closed(group: Group) -> None:
    """Those of all its sinks, with the token of its address."""
    dead = await group.begin(7, **{"pipeline.driver": SERVER, SINKS: '["one", "two"]'})
    await is_running(dead)
    os.killpg(dead._run.pid, 9)
    (old,) = set(group.sessions)
    assert len(group.sessions) == 2
    await PipelineConnector().deleted({**CONFIG, "pipeline.driver": SERVER}, group.context(0))
    assert group.told == [old, f"close {SERVER} {old}"]
    assert group.sessions == []


def test_who_is_at_a_server() -> None:
    at = WorkerContext({"pipeline.driver": "sc://a:1"})
    assert driver_of(CONFIG, at) == "sc://a:1"
    assert driver_of({**CONFIG, "pipeline.driver": "own"}, at) == "own"
    assert driver_of({**CONFIG, "pipeline.code": "modules"}, at) == "sc://a:1"
    for key, why in (("pipeline.requirements", "send what is plain Python as modules"), ("master", "the server's")):
        own = {**CONFIG, key: "a==1"}
        assert driver_of(own, at) == "own"
        with pytest.raises(ConfigError, match=rf"pipeline.driver=sc://a:1 \(--driver\) is not for this job: .*{why}"):
            sinks_of({**own, "pipeline.driver": "sc://a:1"})
    for address in ("sc://", "sc://a:b", "sc:///;token=secret"):
        with pytest.raises(ConfigError, match="is no address of a server of Spark Connect: say sc://host:port"):
            sinks_of({**CONFIG, "pipeline.driver": address})


def test_what_is_written_down_of_sessions_can_be_forgotten_only() -> None:
    connector = PipelineConnector()
    connector.alter_offsets({}, [({"sink": "one"}, None)])
    with pytest.raises(ValueError, match="can be forgotten only"):
        connector.alter_offsets({}, [({"sink": "one"}, {"sessions": "what nobody can read"})])


@pytest.mark.parametrize("kind", ["no address", "another scheme", "what Spark does not take", "not for this job"])
def test_no_error_has_what_is_behind_the_place(kind: str) -> None:
    for address in {
        "no address": ("sc://a;token=secret", "sc://a:1;token=secret", "sc://a/b/;token=secret", "sc://u:secret@a:1"),
        "another scheme": ("SC://a:1/;token=secret",),
        "what Spark does not take": ("sc://a:1/;token=secret==", "sc://a:1/;secret"),
        "not for this job": ("sc://a:1/;token=secret",),
    }[kind]:
        with pytest.raises(ConfigError) as caught:
            sinks_of({**CONFIG, "pipeline.driver": address} | ({"master": "x"} if kind == "not for this job" else {}))
        assert "secret" not in str(caught.value)
