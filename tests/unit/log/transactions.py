"""Batches of transactions, and the markers that end them."""

from __future__ import annotations

from tests.unit.log.logs import NOW

from penstock.log.partition_log import PartitionLog
from penstock.log.validation import AppendOrigin
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.records import Record, encode_batch


def written(producer_id: int, sequence: int, key: bytes = b"k", value: bytes = b"v", *, epoch: int = 0) -> memoryview:
    """A batch of one record, within a transaction."""
    record = Record(0, NOW, key, value)
    data = encode_batch(
        [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )
    return memoryview(data)


def ended(producer_id: int, how: ControlType, *, epoch: int = 0, coordinator_epoch: int = 7) -> memoryview:
    return memoryview(
        transaction_marker(
            how, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, now_ms=NOW
        )
    )


def verified(log: PartitionLog, batch: memoryview) -> None:
    """The coordinator has said that the batch belongs to its transaction."""
    header, producers = read_header(batch), log.producers
    asked = producers.verify(header.producer_id, header.producer_epoch, header.base_sequence, expects_zero=False)
    producers.verified(header.producer_id, asked, is_good=True)


def append_all(log: PartitionLog, *batches: memoryview, leader_epoch: int = 0) -> None:
    for batch in batches:
        verified(log, batch)
        log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=NOW, origin=AppendOrigin.COORDINATOR)
