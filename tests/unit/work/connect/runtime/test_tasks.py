import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.work.connect.api import SourceConnector, SourceTask
from penstock.work.connect.calls import Calls
from penstock.work.connect.clients import Clients
from penstock.work.connect.metrics import Metric
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.generations import FencedError
from penstock.work.connect.runtime.records import TASK, Target, TaskId, encode, properties
from penstock.work.connect.runtime.running_sink import RunningSink
from penstock.work.connect.runtime.running_tasks import Environment, RunningSource
from penstock.work.connect.runtime.source_offsets import OffsetStores, SourceOffsets
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.supervisor import Attempt
from penstock.work.connect.runtime.tasks import GroupMembership, Tasks, TaskSupervisor
from penstock.work.connect.standalone.logs import MemoryLog

ENVIRONMENT = Environment(
    clients=Clients(bootstrap_servers="127.0.0.1:1"),
    config={},
    providers=Providers({}),
    flush_interval_ms=1,
    flush_timeout_s=60.0,
    makes_topics=True,
    shutdown_timeout_s=1,
    tracks_topics=False,
)


def task(offsets: SourceOffsets, owned_until_s: Callable[[], float]) -> TaskSupervisor:
    statuses = Statuses("worker", lambda *_: None)
    return TaskSupervisor(TaskId("lines", 0), statuses, OffsetStores(offsets, "", None), ENVIRONMENT, owned_until_s)


async def test_only_a_task_of_this_worker_stores_offsets() -> None:
    offsets = SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None))
    now_s = asyncio.get_running_loop().time()
    mine, over = task(offsets, lambda: now_s + 3_600), task(offsets, lambda: now_s)
    await mine.store([({}, {"at": 1})])
    with pytest.raises(FencedError):
        await over.store([({}, {"at": 2})])
    mine.fence()
    with pytest.raises(FencedError):
        await mine.store([({}, {"at": 3})])
    assert offsets.get("lines", {}) == {"at": 1}
    await asyncio.gather(mine.fenced(), over.give_up())


class NoTask(SourceConnector):
    """A plugin whose author has forgotten what its tasks are."""

    task_class = object  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "config", "running"),
    [
        ("FileStreamSource", {"file": "f", "topic": "t"}, RunningSource),
        ("FileStreamSink", {"file": "f", "topics": "t"}, RunningSink),
        (f"{__name__}:NoTask", {}, None),
    ],
)
async def test_a_task_is_a_source_or_a_sink(kind: str, config: dict[str, str], running: type | None) -> None:
    supervisor = task(SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None)), lambda: 0.0)
    attempt = Attempt(Calls("c", lambda _: None), asyncio.Event(), lambda: None, {})
    settings = {"name": "c", "connector.class": kind, **config}
    if running is None:
        with pytest.raises(PluginError, match="neither"):
            supervisor.make(settings, attempt)
    else:
        assert type(supervisor.make(settings, attempt)) is running
        assert supervisor.patience_s == ENVIRONMENT.shutdown_timeout_s
        supervisor.make({**settings, "task.shutdown.graceful.timeout.ms": "7000"}, attempt)
        assert supervisor.patience_s == 7
    await supervisor.give_up()
    attempt.calls.close()


class Membership:
    """Notes which tasks have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.news = asyncio.Event()

    def owned_until_s(self) -> float:
        return asyncio.get_running_loop().time() + 3_600

    def task_ended(self, task: str) -> None:
        self.ended.append(task)
        self.news.set()


@pytest.mark.parametrize("end", [Tasks.stop, Tasks.abandon])
async def test_the_group_hears_when_a_task_has_ended(end: Callable[[Tasks, str], None]) -> None:
    told: list[str] = []
    membership = Membership()
    statuses = Statuses("worker", lambda key, value: told.append(json.loads(value or b"{}").get("state", "gone")))
    offsets = SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None))
    tasks = Tasks(
        ConfigState(), statuses, OffsetStores(offsets, "", None), ENVIRONMENT, cast("GroupMembership", membership)
    )
    task = TaskId("lines", 0)
    tasks.abandon(f"{TASK}{task}")
    tasks.start(f"{TASK}{task}")
    assert tasks.runs(task)
    end(tasks, f"{TASK}{task}")
    async with asyncio.timeout(20):
        await membership.news.wait()
    assert membership.ended == [f"{TASK}{task}"]
    assert not tasks.runs(task)
    assert told == ["UNASSIGNED"], "of a task that is in no configuration nothing more is told"


class Reporting(SourceTask):
    """Tells of itself, and has nothing to read."""

    def start(self, config: Any, context: Any) -> None: ...

    def poll(self) -> None: ...

    def stop(self) -> None: ...

    def report(self) -> Mapping[str, Any]:
        return {"well": True}

    def metrics(self) -> list[Metric]:
        return [Metric("own", 7, {"task": "mine", "more": "x"})]


class WithReports(SourceConnector):
    task_class = Reporting


class Told:
    """What the worker tells of its tasks."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self._news = asyncio.Event()

    def post(self, key: bytes, value: bytes | None) -> None:
        self.states.append(json.loads(value or b"{}").get("state", "gone"))
        self._news.set()

    async def until(self, *states: str) -> None:
        while tuple(self.states) != states:
            self._news.clear()
            await self._news.wait()


async def test_a_task_that_is_given_runs_at_once_and_tells_of_itself() -> None:
    membership, state, told = Membership(), ConfigState(), Told()
    offsets = SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None))
    clients: Any = SimpleNamespace(producer=lambda *_, **__: nullcontext())
    tasks = Tasks(
        state,
        Statuses("worker", told.post),
        OffsetStores(offsets, "", None),
        ENVIRONMENT.replace(clients=clients),
        cast("GroupMembership", membership),
    )
    config = {"name": "lines", "connector.class": f"{__name__}:WithReports"}
    for key, value in (
        ("connector-lines", properties(config)),
        ("task-lines-0", properties({})),
        ("commit-lines", encode({"tasks": 1})),
    ):
        state.apply(key, value)
    one = TaskId("lines", 0)
    tasks.start(f"{TASK}{one}")
    assert (tasks.report(one), tasks.metrics()) == ({}, []), "it does not run yet"
    await told.until("UNASSIGNED", "RUNNING")
    assert tasks.report(one) == {"well": True}
    assert [(it.name, it.value, it.labels) for it in tasks.metrics()] == [
        ("connect_task_records_total", 0, {"connector": "lines", "task": "0"}),
        ("own", 7, {"connector": "lines", "task": "mine", "more": "x"}),
    ]
    tasks.restart(TaskId("lines", 1))
    tasks.stop(f"{TASK}{one}")
    await membership.news.wait()
    assert told.states == ["UNASSIGNED", "RUNNING", "UNASSIGNED"]
    assert tasks.metrics() == []


async def test_complaints_go_to_the_group() -> None:
    heard: list[str] = []
    membership: Any = SimpleNamespace(complain=heard.append)
    offsets = SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None))
    statuses = Statuses("worker", lambda *_: None)
    Tasks(ConfigState(), statuses, OffsetStores(offsets, "", None), ENVIRONMENT, membership).complain("why")
    assert heard == ["why"]


@pytest.mark.parametrize("tracks", [False, True])
async def test_a_topic_is_told_where_topics_are_kept(tracks: bool) -> None:
    told: list[tuple[bytes, dict[str, Any]]] = []
    statuses = Statuses("worker", lambda key, value: told.append((key, json.loads(value or b"{}"))))
    offsets = SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None))
    environment = ENVIRONMENT.replace(tracks_topics=tracks, clients=cast("Any", SimpleNamespace(now_ms=lambda: 77)))
    one = TaskSupervisor(TaskId("lines", 3), statuses, OffsetStores(offsets, "", None), environment, lambda: 0.0)
    one.uses("t")
    one.uses("t")
    topic = {"name": "t", "connector": "lines", "task": 3, "discoverTimestamp": 77}
    assert told == ([(b"status-topic-t:connector-lines", {"topic": topic})] if tracks else [])
    await one.give_up()


@pytest.mark.parametrize("generations", [None, SimpleNamespace(of={"lines": 5}.__getitem__)])
async def test_what_a_task_is_to_do_has_the_generation_of_its_connector(generations: Any) -> None:
    """0 where no worker fences the tasks of the last one."""
    state = ConfigState()
    offsets = SourceOffsets(lambda on_record: MemoryLog(on_record, lambda: None))
    tasks = Tasks(
        state,
        Statuses("worker", lambda *_: None),
        OffsetStores(offsets, "", None),
        ENVIRONMENT.replace(generations=generations),
        cast("GroupMembership", Membership()),
    )
    wanted: list[tuple[Any, ...]] = []
    tasks._supervisors["task-lines-0"] = cast("Any", SimpleNamespace(want=lambda *goal: wanted.append(goal)))
    tasks.look()
    config = {"name": "lines", "connector.class": "FileStreamSource"}
    state.apply("connector-lines", properties(config))
    state.apply("task-lines-0", properties({"file": "f"}))
    state.apply("commit-lines", encode({"tasks": 1}))
    tasks.look()
    generation = 0 if generations is None else 5
    assert wanted == [(None,), (state.task_config("task-lines-0"), Target.STARTED, generation)]
    assert wanted[1][0] == {**config, "file": "f"}
