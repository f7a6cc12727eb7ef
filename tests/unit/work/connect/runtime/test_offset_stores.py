"""Topics of connectors' own for how far they are: each is read while somebody uses it, and for a while longer."""

import asyncio

import pytest

from penstock.work.connect.runtime import source_offsets
from penstock.work.connect.runtime.logs import OnRecord
from penstock.work.connect.runtime.source_offsets import OffsetStores, SourceOffsets

MINE, OTHERS = {"offsets.storage.topic": "mine"}, {"offsets.storage.topic": "others"}


class Log:
    """Of a topic; says when it starts and stops."""

    def __init__(self, topic: str, told: asyncio.Queue[str]) -> None:
        self._topic, self._told = topic, told

    async def start(self) -> None:
        self._told.put_nowait(f"{self._topic} starts")
        if self._topic == "bad":
            raise OSError("no broker")

    async def stop(self) -> None:
        self._told.put_nowait(f"{self._topic} stops")

    async def put(self, key: bytes, value: bytes | None) -> None: ...

    async def read_to_end(self) -> None: ...


class Opened:
    def __init__(self) -> None:
        self.told = asyncio.Queue[str]()
        self.stores = OffsetStores(SourceOffsets(lambda on_record: self.log("worker's", on_record)), "all", self.log)

    def log(self, topic: str, on_record: OnRecord) -> Log:
        return Log(topic, self.told)

    def said(self) -> list[str]:
        return [self.told.get_nowait() for _ in range(self.told.qsize())]


async def test_who_comes_soon_finds_the_topic_open() -> None:
    opened = Opened()
    for _ in range(3):
        async with opened.stores.of(MINE):
            pass
    assert opened.said() == ["mine starts"]
    await opened.stores.stop()
    assert opened.said() == ["mine stops"]


async def test_who_comes_before_it_is_closed_keeps_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_offsets, "KEPT_S", 0.0)
    opened = Opened()
    async with opened.stores.of(MINE):
        pass
    async with opened.stores.of(MINE), asyncio.timeout(10), opened.stores.of(OTHERS):
        pass
    async with asyncio.timeout(10):
        assert [await opened.told.get() for _ in range(4)] == [
            *("mine starts", "others starts", "others stops", "mine stops")
        ]


async def test_a_topic_that_nobody_uses_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_offsets, "KEPT_S", 0.0)
    opened = Opened()
    async with asyncio.timeout(10), opened.stores.of(MINE):
        async with opened.stores.of(MINE), opened.stores.of(OTHERS):
            pass
        assert [await opened.told.get() for _ in range(3)] == ["mine starts", "others starts", "others stops"]
    async with asyncio.timeout(10):
        assert await opened.told.get() == "mine stops"
        async with opened.stores.of(MINE):
            assert opened.said() == ["mine starts"]
    await opened.stores.stop()
    assert opened.said() == ["mine stops"]


async def test_who_leaves_when_all_has_ended_ends_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_offsets, "KEPT_S", 0.0)
    opened = Opened()
    async with opened.stores.of(MINE):
        await opened.stores.stop()
    async with opened.stores.of(OTHERS):
        pass
    async with asyncio.timeout(10):
        assert [await opened.told.get() for _ in range(4)] == [
            *("mine starts", "mine stops", "others starts", "others stops")
        ]
    await opened.stores.stop()
    assert opened.said() == []


async def test_one_that_cannot_be_opened_is_left_and_tried_again() -> None:
    opened = Opened()
    for _ in range(2):
        with pytest.raises(OSError, match="no broker"):
            async with opened.stores.of({"offsets.storage.topic": "bad"}):
                raise AssertionError
        assert opened.said() == ["bad starts", "bad stops"]


async def test_the_workers_own_topic_is_its_own_to_end() -> None:
    opened = Opened()
    for config in ({}, {"offsets.storage.topic": "all"}):
        async with opened.stores.of(config) as store:
            assert store is opened.stores.of_worker
    await opened.stores.stop()
    assert opened.said() == []
