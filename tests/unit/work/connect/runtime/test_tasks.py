import asyncio
from collections.abc import Callable

import pytest

from penstock.work.connect.clients import Clients
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.records import TaskId
from penstock.work.connect.runtime.running_tasks import Environment
from penstock.work.connect.runtime.source_offsets import SourceOffsets
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.tasks import FencedError, TaskSupervisor
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
    return TaskSupervisor(TaskId("lines", 0), statuses, offsets, ENVIRONMENT, owned_until_s)


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
