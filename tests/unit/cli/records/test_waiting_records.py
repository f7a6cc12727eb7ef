"""What `penstock delayed list` keeps in mind while it reads a topic's log."""

import asyncio
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


def held(producer: int) -> bytearray:
    numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    batch = encode_batch([Record(value=b"v")], is_transactional=True, **numbers)  # type: ignore[arg-type]
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
