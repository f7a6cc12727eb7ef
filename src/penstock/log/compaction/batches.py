"""What compaction makes of one batch: all of it, some of its records, its header alone, or nothing.

| batch                                                       | what is left of it                               |
| ----------------------------------------------------------- | ------------------------------------------------ |
| no record goes, and its tombstones have their horizon       | the same bytes                                   |
| some records go                                             | the others, in the batch's own codec             |
| it has tombstones and no horizon yet                        | the others, with the time when tombstones may go |
| all go; an active producer's last one, or the segment's     | a header that counts no records                  |
| all go                                                      | nothing                                          |

`transactions` has more about batches of transactions and their markers.

The first and the last offset of a batch stay, and with them its sequence numbers; so do leader epoch, producer and the
times of records. The horizon stands in the place of the base timestamp, and the records' own times count from it
(KIP-534).

A segment's last batch stays so that the segment ends where the next one begins: a start after a crash may not know yet
that the log is a compacted one, and a gap between segments is one where records are lost.
"""

from collections.abc import Mapping

from penstock.log.compaction.keys import Kept, Keys
from penstock.log.compaction.places import places
from penstock.log.compaction.transactions import Transactions
from penstock.protocol.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    check_crc,
    write_crc,
)
from penstock.protocol.compression import compress, decompress
from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value
from penstock.protocol.varint import Buffer, encode_varint

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1


class UncleanableError(DecodeError):
    pass


class Terms(Value, kw_only=True):
    """`latest_offset` ends the known keys, `end_offset` the segment; for active producers see `Round`."""

    now_ms: int
    delete_retention_ms: int
    latest_offset: int
    end_offset: int
    last_offsets: Mapping[int, int]
    marker_epochs: Mapping[int, int]
    max_unpacked_bytes: int


def unpacked(batch: memoryview, header: BatchHeader, max_bytes: int) -> Buffer:
    """UncleanableError, DecodeError for records that the disk has damaged: they are not written anew."""
    if not check_crc(batch, 0, header):
        raise UncleanableError(f"the CRC of the batch at offset {header.base_offset} does not fit its bytes")
    return decompress(header.compression, batch[HEADER_SIZE:], max_bytes)


class Filtered(Value):
    """`batch` is empty if nothing is left."""

    batch: Buffer
    header: BatchHeader
    kept: int


def filter_batch(
    batch: memoryview, header: BatchHeader, keys: Keys, transactions: Transactions, terms: Terms
) -> Filtered:
    """Raises UncleanableError, DecodeError."""
    is_needless = transactions.take(header)
    if header.is_held:
        return Filtered(batch, header, header.record_count)
    if header.is_control:
        return _marker(batch, header, terms, is_needless=is_needless)
    if transactions.is_aborted(header):
        return _without_records(header, terms)
    data = unpacked(batch, header, terms.max_unpacked_bytes)
    is_due = header.has_delete_horizon and terms.now_ms >= header.base_timestamp
    kept = keys.keep(data, header, terms.latest_offset, is_due)
    if not kept.records:
        return _without_records(header, terms)
    needs_horizon = kept.has_tombstones and not header.has_delete_horizon
    if kept.records == header.record_count and not needs_horizon:
        return Filtered(batch, header, kept.records)
    return _rewritten(header, kept, terms.now_ms + terms.delete_retention_ms if needs_horizon else None)


def _marker(batch: memoryview, header: BatchHeader, terms: Terms, *, is_needless: bool) -> Filtered:
    if is_needless and header.record_count and not header.has_delete_horizon:
        data = unpacked(batch, header, terms.max_unpacked_bytes)
        kept = Kept(data, header.record_count, False, header.max_timestamp)
        return _rewritten(header, kept, terms.now_ms + terms.delete_retention_ms)
    if not is_needless or terms.now_ms < header.base_timestamp:
        return Filtered(batch, header, header.record_count)
    return _without_records(header, terms)


def _must_stay(header: BatchHeader, terms: Terms) -> bool:
    """Its offsets, its sequence or its epoch would be missed."""
    producer_id = header.producer_id
    if header.last_offset + 1 == terms.end_offset:
        return True
    if header.is_control:
        return terms.marker_epochs.get(producer_id) == header.producer_epoch
    return producer_id != NO_PRODUCER_ID and terms.last_offsets.get(producer_id) == header.last_offset


def _without_records(header: BatchHeader, terms: Terms) -> Filtered:
    if not _must_stay(header, terms):
        return Filtered(b"", header, 0)
    empty = header._replace(
        batch_length=HEADER_SIZE - LENGTH_END,
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return Filtered(_sealed(empty, b""), empty, 0)


def _rewritten(header: BatchHeader, kept: Kept, horizon_ms: int | None) -> Filtered:
    data, attributes, base_timestamp = kept.data, header.attributes, header.base_timestamp
    max_timestamp = header.max_timestamp if header.is_log_append_time else kept.max_timestamp
    if horizon_ms is not None:
        fixed = header.max_timestamp - horizon_ms if header.is_log_append_time else None
        data = _rebased(data, kept.records, header.base_timestamp - horizon_ms, fixed)
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon_ms
    payload = compress(header.compression, data)
    changed = header._replace(
        batch_length=HEADER_SIZE + len(payload) - LENGTH_END,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=kept.records,
    )
    return Filtered(_sealed(changed, payload), changed, kept.records)


def _rebased(data: Buffer, count: int, shift: int, fixed: int | None) -> bytes:
    """`shift` is the distance between the old and the new base timestamp."""
    parts: list[Buffer] = []
    for place in places(data, count):
        rest = place.begin + _length_of_varint(data, place.begin)
        delta_end = rest + 1 + _length_of_varint(data, rest + 1)
        delta = encode_varint(place.timestamp_delta + shift if fixed is None else fixed)
        tail = data[delta_end : place.end]
        parts += (encode_varint(1 + len(delta) + len(tail)), data[rest : rest + 1], delta, tail)
    return b"".join(parts)


def _length_of_varint(data: Buffer, position: int) -> int:
    end = position
    while data[end] > 0x7F:
        end += 1
    return end + 1 - position


def _sealed(header: BatchHeader, payload: bytes) -> bytearray:
    batch = bytearray(HEADER.pack(*header))
    batch += payload
    write_crc(batch, 0, len(batch))
    return batch
