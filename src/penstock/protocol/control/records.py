"""Control records: what a log says about itself, in batches of its own among the records of its users.

A control batch may hold several records. The key of each is two int16: its version, always 0, and its type.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum

from penstock.protocol.records import Record, encode_batch

_KEY = struct.Struct(">hh")
_KEY_VERSION = 0
TRANSACTION_END = struct.Struct(">hi")
"""The value of the marker that ends a transaction: its version, always 0, and the epoch of its coordinator."""


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_record(kind: ControlType, value: bytes, now_ms: int) -> Record:
    """`value` is its message, encoded."""
    return Record(timestamp_ms=now_ms, key=_KEY.pack(_KEY_VERSION, kind), value=value)


def control_batch(records: Sequence[Record], *, base_offset: int, epoch: int) -> bytearray:
    return encode_batch(records, base_offset=base_offset, partition_leader_epoch=epoch, is_control=True)


def transaction_marker(
    kind: ControlType, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, now_ms: int
) -> bytearray:
    """The batch that ends a producer's transaction in a partition (KIP-98)."""
    return encode_batch(
        [control_record(kind, TRANSACTION_END.pack(0, coordinator_epoch), now_ms)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def control_type(record: Record) -> int:
    """-1 if the key of the record is not that of a control record."""
    if record.key is None or len(record.key) != _KEY.size:
        return -1
    return int(_KEY.unpack(record.key)[1])
