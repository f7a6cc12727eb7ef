import asyncio
import json
from collections.abc import Callable
from typing import cast

import pytest

from penstock.work.connect.api import SourceConnector
from penstock.work.connect.calls import Calls
from penstock.work.connect.clients import Clients
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.generations import FencedError
from penstock.work.connect.runtime.records import TASK, TaskId
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
