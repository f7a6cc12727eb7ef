"""A snapshot of the store as bytes, laid out as the `.checkpoint` files of Kafka's metadata log (KIP-630, KIP-853).

Control records with the voters at the beginning, batches of the store's records, a control record at the end; offsets
count from 0 within the file. So `penstock dump-log` can show it.
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.metadata.control_records import snapshot_footer_batch
from penstock.protocol.control import ControlType, control_batch, control_type
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_batches
from penstock.raft.control import snapshot_header_records
from penstock.raft.voters import Quorum

BATCH_BYTES = 256 * 1024
"""A batch is ended when its keys and values are more than this."""


def encode_snapshot(
    records: Iterable[Record], quorum: Quorum, *, epoch: int, last_timestamp_ms: int, now_ms: int
) -> Iterator[bytes]:
    """The file, batch by batch; `epoch` and `last_timestamp_ms` are those of the last record that it contains."""
    header = snapshot_header_records(quorum, last_timestamp_ms, now_ms)
    yield bytes(control_batch(header, base_offset=0, epoch=epoch))
    offset = len(header)
    for batch in _in_batches(records):
        yield bytes(encode_batch(batch, base_offset=offset, partition_leader_epoch=epoch))
        offset += len(batch)
    yield bytes(snapshot_footer_batch(offset, epoch, now_ms))


def decode_snapshot(content: bytes) -> Iterator[Record]:
    """The store's records in a snapshot. Raises DecodeError if it is damaged or has no end."""
    end, last_type = 0, -1
    for position, header in iterate_batches(content):
        records = decode_batch(content, position)
        end = position + header.size_in_bytes
        if header.is_control:
            last_type = control_type(records[-1])
        else:
            yield from records
    if end != len(content) or last_type != ControlType.SNAPSHOT_FOOTER:
        raise DecodeError("the snapshot ends before its footer")


def _in_batches(records: Iterable[Record]) -> Iterator[Sequence[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
