"""Batches of transactions, and the markers that end them, as a Kafka broker would have left them in its files."""

from __future__ import annotations

import struct

from tests.unit.log.logs import NOW

from penstock.log.partition_log import PartitionLog
from penstock.log.validation import AppendOrigin
from penstock.protocol.control.records import ControlType
from penstock.protocol.records import Record, encode_batch


def written(producer_id: int, sequence: int, key: bytes = b"k", value: bytes = b"v") -> memoryview:
    """A batch of one record, within a transaction."""
    record = Record(0, NOW, key, value)
    data = encode_batch(
        [record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )
    return memoryview(data)


def ended(producer_id: int, how: ControlType) -> memoryview:
    record = Record(0, NOW, struct.pack(">hh", 0, how), struct.pack(">hi", 0, 7))
    data = encode_batch([record], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True)
    return memoryview(data)


def append_all(log: PartitionLog, *batches: memoryview) -> None:
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
