"""A snapshot of a replicated log as bytes, in the layout of Kafka's `.checkpoint` files (KIP-630).

A control batch with the header, batches of records, a control batch with the footer; offsets count from 0 within the
file. Without the footer the file is not whole.
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.protocol.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from penstock.protocol.codec import encode
from penstock.protocol.control.records import ControlType, control_batch, control_record, control_type
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.records import Record, encode_batch, iterate_records


def snapshot_header_record(last_timestamp_ms: int, now_ms: int) -> Record:
    """The timestamp is that of the last record that the snapshot covers."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    return control_record(ControlType.SNAPSHOT_HEADER, encode(header, 0), now_ms)


def encode_snapshot_file(
    header: Sequence[Record], batches: Iterable[Sequence[Record]], *, epoch: int, now_ms: int
) -> Iterator[bytes]:
    """Batch by batch, so that a large file need not be in memory as a whole."""
    yield bytes(control_batch(header, base_offset=0, epoch=epoch))
    offset = len(header)
    for batch in batches:
        yield bytes(encode_batch(batch, base_offset=offset, partition_leader_epoch=epoch))
        offset += len(batch)
    footer = control_record(ControlType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(), 0), now_ms)
    yield bytes(control_batch([footer], base_offset=offset, epoch=epoch))


def batches_of_snapshot(content: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch but the control batches. DecodeError if the file is damaged or has no end."""
    position, last_type = 0, -1
    while position + HEADER_SIZE <= len(content):
        header = read_header(content, position)
        if position + header.size_in_bytes > len(content) or not check_crc(content, position, header):
            raise DecodeError(f"the batch at byte {position} of a snapshot is damaged")
        if header.is_control:
            last_type = control_type(list(iterate_records(content, position, header))[-1])
        else:
            yield position, header
        position += header.size_in_bytes
    if position != len(content) or last_type != ControlType.SNAPSHOT_FOOTER:
        raise DecodeError("a snapshot ends before its footer")
