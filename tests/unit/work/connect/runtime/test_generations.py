"""Exactly once: nobody begins before older tasks are fenced, and nobody goes on who is one of them."""

import asyncio
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.errors import ConnectionFailedError
from penstock.client.providers import Resolved
from penstock.work.connect.rest.offsets import ConnectorOffsets
from penstock.work.connect.runtime import fencing
from penstock.work.connect.runtime.config_state import ConfigState, Known
from penstock.work.connect.runtime.fencing import Fencing
from penstock.work.connect.runtime.generations import FencedError, Generations
from penstock.work.connect.runtime.kinds import Kind, kind_of
from penstock.work.connect.runtime.leading import Leading
from penstock.work.connect.runtime.records import (
    COMMIT,
    CONNECTOR,
    FENCING,
    TASK,
    Target,
    encode,
    properties,
    task_count,
)
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.worker import ConnectWorker
from penstock.work.connect.standalone.logs import MemoryLog

SOURCE = {"name": "lines", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
SINK = {"name": "out", "connector.class": "FileStreamSink", "file": "f", "topics": "t"}


def forever() -> float:
    return 1e12


class Admin:
    """Stands in for the client: notes what it is to fence, and fails as often as it is told."""

    def __init__(self) -> None:
        self.fenced: list[str] = []
        self.failures = 0
        self.failure: Exception = ConnectionFailedError("not now")
        self.before = [lambda: None]
        self.transactions = self

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def terminate(self, transactional_id: str) -> None:
        if self.failures:
            self.failures -= 1
            raise self.failure
        self.fenced.append(transactional_id)
        self.before[0]()


class Group:
    """A leader's state, log and fencing."""

    def __init__(self) -> None:
        self.state, self.admin = ConfigState(), Admin()
        self.log = MemoryLog(lambda key, value, _: self.take(key.decode(), value), lambda: None)
        statuses = Statuses("one:1", lambda key, value: None)
        self.generations = Generations("workers", self.state, self.log)
        self.leading = Leading(self.state, self.log, statuses, 1.0, lambda: True, Resolved)

        async def new_admin(_: str) -> Any:
            return self.admin

        self.fencing = Fencing(self.generations, self.state, self.leading, new_admin)
        self.leading.leads = True

    def take(self, key: str, value: bytes | None) -> None:
        self.state.apply(key, value)

    def commit(self, name: str, count: int, config: dict[str, str] = SOURCE) -> None:
        self.take(f"{CONNECTOR}{name}", properties(config))
        for number in range(count):
            self.take(f"{TASK}{name}-{number}", properties(config))
        self.take(f"{COMMIT}{name}", encode({"tasks": count}))

    async def fenced(self, name: str) -> None:
        self.fencing.look()
        async with asyncio.timeout(10):
            assert await self.generations.may_begin(name, asyncio.Event())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "RETRY_S", 0.0)


async def test_all_tasks_of_the_last_generation_are_fenced_before_those_of_the_next_begin() -> None:
    group = Group()
    group.commit("lines", 2)
    await group.fenced("lines")
    assert (group.admin.fenced, group.state.task_counts) == ([], {"lines": 2}), "no older one has written any"
    group.commit("lines", 1)
    assert "lines" in group.state.unfenced
    await group.fenced("lines")
    assert group.admin.fenced == ["workers-lines-0", "workers-lines-1"]
    assert group.state.task_counts == {"lines": 1}
    await group.fencing.stop()


@pytest.mark.parametrize("failure", [ConnectionFailedError("not now"), KeyError("of a plugin")])
async def test_what_cannot_be_fenced_is_tried_again_and_nobody_begins_meanwhile(failure: Exception) -> None:
    group = Group()
    group.admin.failure = failure
    group.commit("lines", 1)
    await group.fenced("lines")
    group.commit("lines", 1)
    group.admin.failures = 2
    await group.fenced("lines")
    assert (group.admin.failures, group.admin.fenced) == (0, ["workers-lines-0"])
    await group.fencing.stop()


async def test_who_leads_no_longer_when_a_class_is_loaded_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of the generation that the next leader has begun have the same transactional ids."""
    group = Group()
    group.commit("lines", 1)
    await group.fenced("lines")
    group.commit("lines", 1)

    def found(config: Mapping[str, str]) -> Kind:
        group.leading.leads = False
        return kind_of(config)

    monkeypatch.setattr(fencing, "kind_of", found)
    group.fencing._are_sources.clear()
    group.fencing.look()
    async with asyncio.timeout(10):
        while group.fencing._rounds:
            await asyncio.sleep(0)
    assert (group.admin.fenced, "lines" in group.state.unfenced) == ([], True)
    await group.fencing.stop()


async def test_a_class_is_loaded_in_a_thread_and_once_for_all_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    group, loaded_by = Group(), list[threading.Thread]()

    def found(config: Mapping[str, str]) -> Kind:
        loaded_by.append(threading.current_thread())
        return kind_of(config)

    monkeypatch.setattr(fencing, "kind_of", found)
    for name in ("lines", "others"):
        group.commit(name, 1)
        await group.fenced(name)
    assert len(loaded_by) == 1
    assert loaded_by[0] is not threading.main_thread()
    await group.fencing.stop()


async def test_offsets_change_only_when_no_task_that_hangs_can_store_any() -> None:
    group = Group()
    group.commit("lines", 1)
    await group.fenced("lines")
    stopped = Known(SOURCE, Target.STOPPED)
    worker = Worker(group.fencing)
    herder: Any = SimpleNamespace(worker=worker, lead=lambda: None, known=lambda name: stopped)
    group.commit("lines", 0)
    changing = asyncio.create_task(ConnectorOffsets(herder)._stopped("lines"))
    await asyncio.sleep(0)
    group.admin.before[0] = lambda: worker.steps.append("fenced")
    await group.fenced("lines")
    assert await changing is stopped
    assert worker.steps == ["ended", "fenced", "settled"]
    await group.fencing.stop()


class Worker:
    """What changes offsets: tasks that it can see have ended."""

    def __init__(self, fencing: Fencing) -> None:
        self._fencing = fencing
        self.steps: list[str] = []

    async def until_ended(self, connector: str) -> None:
        self.steps.append("ended")

    async def until_settled(self, connector: str) -> None:
        await ConnectWorker.until_settled(cast("ConnectWorker", self), connector)
        self.steps.append("settled")


async def test_tasks_that_came_during_a_round_have_one_of_their_own() -> None:
    group = Group()
    group.commit("lines", 2)
    await group.fenced("lines")
    group.commit("lines", 3)
    news = iter([lambda: group.commit("lines", 1)])
    group.admin.before[0] = lambda: next(news, lambda: None)()
    await group.fenced("lines")
    assert group.state.task_counts == {"lines": 1}
    assert group.admin.fenced == ["workers-lines-0", "workers-lines-1"] * 2, "nobody of the three has begun"
    await group.fencing.stop()


async def test_sinks_and_those_of_another_leader_are_left_alone() -> None:
    group = Group()
    group.commit("out", 1, SINK)
    group.fencing.look()
    group.leading.leads = False
    group.commit("lines", 1)
    group.fencing.look()
    await asyncio.sleep(0)
    assert group.state.unfenced.keys() == {"out", "lines"}
    stopping = asyncio.Event()
    stopping.set()
    assert not await group.generations.may_begin("lines", stopping)


async def test_a_task_of_an_older_generation_or_of_another_worker_does_not_go_on() -> None:
    group = Group()
    group.commit("lines", 1)
    generation = group.generations.of("lines")
    await group.generations.verify("lines", generation, forever)
    with pytest.raises(FencedError, match="elsewhere"):
        await group.generations.verify("lines", generation, lambda: 0.0)
    group.commit("lines", 1)
    with pytest.raises(FencedError, match="other tasks"):
        await group.generations.verify("lines", generation, forever)


def test_a_count_survives_its_connector_and_other_values_are_none() -> None:
    group = Group()
    group.commit("lines", 2)
    group.take(f"{FENCING}lines", encode({"task-count": "two"}))
    assert "lines" in group.state.unfenced
    group.take(f"{FENCING}lines", task_count(2))
    group.take(f"{CONNECTOR}lines", None)
    group.commit("lines", 1)
    assert (group.state.task_counts, list(group.state.unfenced)) == ({"lines": 2}, ["lines"])


async def test_what_is_known_to_be_a_sink_or_gone_is_looked_at_no_more() -> None:
    group = Group()
    group.commit("out", 1, SINK)
    group.commit("gone", 1)
    group.take(f"{CONNECTOR}gone", None)
    group.fencing.look()
    assert [task.get_name() for task in group.fencing._under_way] == ["fencing of out"], "its class is not known yet"
    await asyncio.gather(*group.fencing._under_way)
    group.fencing.look()
    assert list(group.fencing._under_way) == []


async def test_a_class_that_hangs_has_one_thread_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    group, asked, gate = Group(), list[str](), threading.Event()

    def found(config: Mapping[str, str]) -> Kind:
        asked.append(config["connector.class"])
        gate.wait(30)
        return kind_of(config)

    monkeypatch.setattr(fencing, "kind_of", found)
    waiting = []
    for name in ("lines", "others"):
        group.commit(name, 1)
        waiting.append(asyncio.create_task(group.fencing.until_fenced(name)))
    impatient = asyncio.create_task(group.fencing.until_fenced("lines"))
    group.fencing.look()
    await asyncio.sleep(0)
    impatient.cancel()
    gate.set()
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
    assert asked == [SOURCE["connector.class"]]
    await group.fencing.stop()
