"""Control records of a snapshot of the metadata: where it begins and ends.

They lie in control batches among the metadata records, and nobody applies them to the image.
"""

from penstock.protocol.codec import encode
from penstock.protocol.control import ControlType, control_batch, control_record
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord


def snapshot_header_batch(base_offset: int, leader_epoch: int, last_timestamp_ms: int, now_ms: int) -> bytearray:
    """The first batch of a snapshot (KIP-630); the timestamp is that of the last record that the snapshot contains."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    return _batch(ControlType.SNAPSHOT_HEADER, encode(header, 0), base_offset, leader_epoch, now_ms)


def snapshot_footer_batch(base_offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The last batch of a snapshot: without it the file is not whole."""
    return _batch(ControlType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(), 0), base_offset, leader_epoch, now_ms)


def _batch(kind: ControlType, value: bytes, base_offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    return control_batch([control_record(kind, value, now_ms)], base_offset=base_offset, epoch=leader_epoch)
