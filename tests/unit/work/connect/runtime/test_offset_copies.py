"""How far a source is, in a topic of its connector's own and copied to the worker's."""

from __future__ import annotations

import asyncio

import pytest

from penstock.work.connect.runtime.logs import OnRecord
from penstock.work.connect.runtime.offset_copies import OffsetCopies
from penstock.work.connect.runtime.source_offsets import OwnOffsets, SourceOffsets

A, B = {"table": "a"}, {"table": "b"}


class Log:
    """Writes at once, but while it is `closed`; says in what order logs were written."""

    def __init__(self, name: str, order: list[tuple[str, bytes | None]], on_record: OnRecord) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self._name, self._order, self._on_record = name, order, on_record
        self.fails = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def put(self, key: bytes, value: bytes | None) -> None:
        await self.open.wait()
        if self.fails:
            raise OSError("no broker")
        self._order.append((self._name, value))
        self._on_record(key, value, len(self._order))

    async def read_to_end(self) -> None: ...


class Both:
    def __init__(self) -> None:
        self.order: list[tuple[str, bytes | None]] = []
        self.logs: dict[str, Log] = {}
        self.of_worker = SourceOffsets(lambda told: self._log("worker", told))
        self.offsets = OwnOffsets(SourceOffsets(lambda told: self._log("own", told)), self.of_worker)

    def _log(self, name: str, told: OnRecord) -> Log:
        self.logs[name] = Log(name, self.order, told)
        return self.logs[name]


async def test_what_is_stored_is_copied_behind_it() -> None:
    both = Both()
    await both.offsets.write("c", [(A, {"id": 1})])
    await both.offsets.settle()
    assert both.order == [("own", b'{"id":1}'), ("worker", b'{"id":1}')]
    both.offsets.copy("c", [(A, {"id": 2})])
    await both.offsets.settle()
    assert both.of_worker.get("c", A) == {"id": 2}


async def test_a_copy_keeps_nobody_waiting_and_only_the_last_one_is_written() -> None:
    both = Both()
    both.logs["worker"].open.clear()
    for number in range(5):
        await both.offsets.write("c", [(A, {"id": number})])
        await asyncio.sleep(0)
    assert [name for name, _ in both.order] == ["own"] * 5
    both.logs["worker"].open.set()
    await both.offsets.settle()
    assert both.order[5:] == [("worker", b'{"id":0}'), ("worker", b'{"id":4}')]


async def test_what_is_forgotten_is_so_for_the_worker_first() -> None:
    """And no copy that was on its way comes behind it."""
    both = Both()
    await both.offsets.write("c", [(A, {"id": 1}), (B, {"id": 1})])
    await both.offsets.write("c", [(A, None)])
    await both.offsets.settle()
    assert both.order[-2:] == [("worker", None), ("own", None)]
    assert [both.offsets.get("c", one) for one in (A, B)] == [None, {"id": 1}]


async def test_a_copy_that_fails_is_told_and_the_next_one_is_written(caplog: pytest.LogCaptureFixture) -> None:
    both = Both()
    both.logs["worker"].fails = True
    await both.offsets.write("c", [(A, {"id": 1})])
    await both.offsets.settle()
    assert "not copied to the worker's topic: no broker" in caplog.text
    both.logs["worker"].fails = False
    await both.offsets.write("c", [(A, {"id": 2})])
    await both.offsets.settle()
    assert both.of_worker.get("c", A) == {"id": 2}


async def test_what_is_not_copied_in_time_is_given_up() -> None:
    written: list[str] = []

    async def write(connector: str, offsets: object) -> None:
        await asyncio.Event().wait()
        written.append(connector)

    copies = OffsetCopies(write)
    copies.take("c", [(A, {"id": 1})])
    await asyncio.sleep(0)
    copies.take("c", [(A, {"id": 2})])
    await copies.settle(limit_s=0)
    await copies.settle()
    assert written == []
