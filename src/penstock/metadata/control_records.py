"""Control records of the metadata log: who leads it, and where a snapshot begins and ends.

They lie in control batches among the metadata records, and nobody applies them to the image. The key is two int16: its
version, always 0, and the type of the record.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum

from penstock.protocol.codec import encode
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.records import Record, encode_batch

_KEY = struct.Struct(">hh")
_KEY_VERSION = 0


class ControlType(IntEnum):
    """The control records of the metadata log, by Kafka's numbers."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def leader_change_batch(
    leader_id: int, voters: Sequence[int], leader_epoch: int, *, base_offset: int, now_ms: int
) -> bytearray:
    """The batch with which a leader begins its epoch (KIP-595)."""
    message = LeaderChangeMessage(
        leader_id=leader_id,
        voters=[Voter(voter_id=voter) for voter in voters],
        granting_voters=[Voter(voter_id=leader_id)],
    )
    return _batch(ControlType.LEADER_CHANGE, encode(message, 0), base_offset, leader_epoch, now_ms)


def snapshot_header_batch(base_offset: int, leader_epoch: int, last_timestamp_ms: int, now_ms: int) -> bytearray:
    """The first batch of a snapshot (KIP-630); the timestamp is that of the last record that the snapshot contains."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    return _batch(ControlType.SNAPSHOT_HEADER, encode(header, 0), base_offset, leader_epoch, now_ms)


def snapshot_footer_batch(base_offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The last batch of a snapshot: without it the file is not whole."""
    return _batch(ControlType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(), 0), base_offset, leader_epoch, now_ms)


def control_type(record: Record) -> int:
    """The type of a record of a control batch; -1 if its key is none."""
    if record.key is None or len(record.key) != _KEY.size:
        return -1
    return int(_KEY.unpack(record.key)[1])


def _batch(kind: ControlType, value: bytes, base_offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    record = Record(timestamp_ms=now_ms, key=_KEY.pack(_KEY_VERSION, kind), value=value)
    return encode_batch([record], base_offset=base_offset, partition_leader_epoch=leader_epoch, is_control=True)
