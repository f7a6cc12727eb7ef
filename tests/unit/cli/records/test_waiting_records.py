"""What `penstock delayed list` keeps in mind while it reads a topic's log."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.log.transactions import ended

from penstock.cli.records import waiting_records
from penstock.client.values import TopicPartition
from penstock.protocol.batch import read_header, set_base_offset
from penstock.protocol.control.records import ControlType
from penstock.protocol.delayed import NO_ID, OWN_PLACE, Row, hold
from penstock.protocol.records import Record, encode_batch

DUE_MS = 1_900_000_000_000
NEEDLESS = 5


def held(producer: int, *, is_transactional: bool = True) -> bytearray:
    numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    batch = encode_batch([Record(value=b"v")], is_transactional=is_transactional, **numbers)  # type: ignore[arg-type]
    return hold(memoryview(batch), read_header(batch), [Row(OWN_PLACE, DUE_MS, NO_ID)], now_ms=1, unpacked_bytes=1)


def test_what_was_aborted_is_forgotten_while_other_transactions_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_records, "NEEDLESS", NEEDLESS)
    batches = [held(0)]
    for producer in range(1, 50):
        how = ControlType.COMMIT if producer in {7, 49} else ControlType.ABORT
        batches += [held(producer), bytearray(ended(producer - 1, how))]
    for offset, batch in enumerate(batches):
        set_base_offset(batch, 0, offset)
    most = 0

    class Log(waiting_records._Log):
        async def _fetch(self, offset: int) -> bytes:
            nonlocal most
            most = max(most, len(self._seen))
            return bytes(batches[offset])

    admin: Any = None
    log = Log(admin, TopicPartition("t", 0))
    asyncio.run(log.read(0, len(batches)))
    assert [one.offset for one in log.waiting()] == [11, 95]
    assert most < 20


async def test_what_waits_is_kept_in_mind_where_no_transaction_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all partitions in their order, each from its beginning to its end."""
    monkeypatch.setattr(waiting_records, "NEEDLESS", NEEDLESS)
    batches = [held(0, is_transactional=False) for _ in range(20)]
    for offset, batch in enumerate(batches):
        set_base_offset(batch, 0, offset)
    asked: list[tuple[TopicPartition, int]] = []
    ends = {TopicPartition("t", 2): (0, 20), TopicPartition("t", 0): (3, 5), TopicPartition("t", 1): (7, 7)}

    class Log(waiting_records._Log):
        async def _fetch(self, offset: int) -> bytes:
            asked.append((self._partition, offset))
            return bytes(batches[offset])

    async def offsets(wanted: dict[TopicPartition, int]) -> dict[TopicPartition, SimpleNamespace]:
        at = {-2: 0, -1: 1}
        return {one: SimpleNamespace(offset=ends[one][at[moment]]) for one, moment in wanted.items()}

    monkeypatch.setattr(waiting_records, "_Log", Log)
    admin: Any = SimpleNamespace(offsets=offsets)
    partitions: Iterable[TopicPartition] = iter(ends)
    found = await waiting_records.waiting_records(admin, partitions)
    expected = [(TopicPartition("t", 2), offset) for offset in range(20)]
    expected += [(TopicPartition("t", 0), offset) for offset in (3, 4)]
    assert asked == expected
    assert [(one.partition, one.offset) for one in found] == expected
    assert {one[2:] for one in found} == {(DUE_MS, None, None, 1)}
