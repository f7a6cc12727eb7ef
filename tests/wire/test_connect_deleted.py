"""What a connector leaves elsewhere when it is deleted: who leads has it ended, when none of its tasks runs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
from tests.wire.connect_workers import LIMIT_S, Workers

from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask
from penstock.work.connect.runtime.worker import logger

Said = list[tuple[Any, ...]]


class Left(SourceTask):
    async def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        await context.store([({"left": 1}, {"at": config["place"]}), ({"left": 2}, {"at": "elsewhere"})])
        Leaves.running += 1

    async def poll(self) -> list[SourceRecord]:
        await asyncio.sleep(0.01)
        return []

    async def stop(self) -> None:
        await asyncio.sleep(0.05)
        Leaves.running -= 1


class Leaves(SourceConnector):
    task_class: ClassVar[type[SourceTask]] = Left
    running: ClassVar[int] = 0
    said: ClassVar[Said] = []
    fails: ClassVar[bool] = False

    async def deleted(self, config: Mapping[str, str], context: SourceContext) -> None:
        type(self).said.append((config["place"], self.running, *sorted(one["left"] for one, _ in context.offsets())))
        if self.fails:
            raise ValueError("nobody answers")
        await context.store([({"left": 1}, None)])


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> type[Leaves]:
    monkeypatch.setattr(Leaves, "said", [])
    return Leaves


def config(name: str) -> dict[str, str]:
    return {"name": name, "connector.class": f"{__name__}:Leaves", "place": name, "topic": "t"}


async def deleted(workers: Workers, name: str, is_over: Callable[[], bool]) -> None:
    await (await workers.leader()).leading.delete_connector(name)
    async with asyncio.timeout(LIMIT_S):
        while not is_over():
            await asyncio.sleep(0.01)


async def test_who_leads_ends_what_a_deleted_connector_has_left(
    bootstrap: str, topic: str, leaves: type[Leaves]
) -> None:
    workers = Workers(bootstrap, topic)
    try:
        for number in (1, 2):
            await workers.add(f"worker:{number}")
        for name in ("one", "two"):
            await workers.create(config(name))
            await workers.until_running(name)
        store = (await workers.leader()).offsets
        await deleted(workers, "one", lambda: bool(leaves.said) and len(store.all_of("one")) == 1)
        assert leaves.said == [("one", 1, 1, 2)], "its task has ended, and the other one's runs"
        assert store.get("one", {"left": 2}) == {"at": "elsewhere"}
        assert len(store.all_of("two")) == 2
    finally:
        await workers.stop()


async def test_what_cannot_be_ended_is_told(
    bootstrap: str, topic: str, leaves: type[Leaves], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaves, "fails", True)
    workers = Workers(bootstrap, topic)
    try:
        await workers.add("worker:1")
        await workers.create(config("one"))
        await workers.until_running("one")
        with caplog.at_level("WARNING", logger.name):
            await deleted(workers, "one", lambda: "may go on: nobody answers" in caplog.text)
        assert len(workers.all[0].offsets.all_of("one")) == 2
    finally:
        await workers.stop()
