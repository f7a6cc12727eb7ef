"""Records in and out of batches (format 2).

The broker looks at records for compaction and look-ups by time only; clients, tools and tests build and read them here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from penstock.protocol.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    read_header,
    write_crc,
)
from penstock.protocol.compression import Compression, compress, decompress
from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import Buffer, decode_varint, encode_varint

DEFAULT_MAX_BYTES: Final = 100 * 1024 * 1024
_SMALLEST_RECORD: Final = 7
_VARINTS: Final = tuple(encode_varint(value) for value in range(1024))
_SHORT_VARINTS: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
_NULL: Final = encode_varint(-1)


@dataclass(slots=True)
class Record:
    """Headers are (name, value) in order; names may come twice."""

    offset: int = 0
    timestamp_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def _varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < len(_VARINTS) else encode_varint(value)


def _encode_record(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    value = record.value
    if record.key is None and value is not None and not record.headers:  # as metadata are, thousands at a time
        size = len(value)
        body = b"\x00%b%b\x01%b%b\x00" % (_varint(timestamp_delta), _varint(offset_delta), _varint(size), value)
        return _varint(len(body)) + body
    parts = [b"\x00", _varint(timestamp_delta), _varint(offset_delta)]
    for blob in (record.key, record.value):
        parts += (_NULL,) if blob is None else (_varint(len(blob)), blob)
    parts.append(_varint(len(record.headers)))
    for name, value in record.headers:
        raw = name.encode()
        parts += (_varint(len(raw)), raw)
        parts += (_NULL,) if value is None else (_varint(len(value)), value)
    body = b"".join(parts)
    return _varint(len(body)) + body


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    partition_leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """Return a batch of at least one record, numbered from `base_offset` whatever offsets the records have."""
    assert records, "a batch of no records is never sent"
    base_timestamp = records[0].timestamp_ms
    max_timestamp = max(record.timestamp_ms for record in records)
    attributes = TRANSACTIONAL * is_transactional | CONTROL * is_control
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    encoded = b"".join(
        [_encode_record(record, record.timestamp_ms - base_timestamp, delta) for delta, record in enumerate(records)]
    )
    return pack_records(
        encoded,
        len(records),
        timestamps=(base_timestamp, max_timestamp),
        base_offset=base_offset,
        compression=compression,
        level=level,
        attributes=attributes,
        producer=(producer_id, producer_epoch, base_sequence),
        partition_leader_epoch=partition_leader_epoch,
    )


def pack_records(
    encoded: bytes,
    count: int,
    *,
    timestamps: tuple[int, int],
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    partition_leader_epoch: int = -1,
) -> bytearray:
    """A batch of so many records that are bytes already. `producer` is its id, epoch and first sequence number,
    `timestamps` are the one from which those of the records are reckoned, and the largest.
    """
    payload = compress(compression, encoded, level)
    size = HEADER_SIZE + len(payload)
    batch = bytearray(
        HEADER.pack(
            base_offset,
            size - LENGTH_END,
            partition_leader_epoch,
            MAGIC,
            0,
            compression | attributes,
            count - 1,
            *timestamps,
            *producer,
            count,
        )
    )
    batch += payload
    write_crc(batch, 0, size)
    return batch


def recompress_batch(
    batch: Buffer, header: BatchHeader, compression: Compression, level: int | None, *, max_bytes: int
) -> bytearray:
    """DecodeError if the records cannot be unpacked. Their bytes stay as they are: all is relative to the header."""
    payload = memoryview(batch)[HEADER_SIZE : header.size_in_bytes]
    packed = compress(compression, decompress(header.compression, payload, max_bytes), level)
    changed = header._replace(
        batch_length=HEADER_SIZE + len(packed) - LENGTH_END,
        attributes=header.attributes & ~COMPRESSION_MASK | compression,
    )
    out = bytearray(HEADER.pack(*changed))
    out += packed
    write_crc(out, 0, len(out))
    return out


def decode_batch(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DEFAULT_MAX_BYTES, verify: bool = True
) -> list[Record]:
    """DecodeError if anything about the batch is wrong. `max_bytes` bounds the size of its decompressed records."""
    header = read_header(buffer, position)
    if position + header.size_in_bytes > len(buffer):
        raise DecodeError(f"a record batch of {header.size_in_bytes} bytes with {len(buffer) - position} left")
    if verify and not check_crc(buffer, position, header):
        raise DecodeError(f"the checksum of the batch at offset {header.base_offset} is wrong")
    return list(iterate_records(buffer, position, header, max_bytes=max_bytes))


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; a last one that was cut off is left out."""
    position = 0
    while (header := whole_batch(buffer, position)) is not None:
        yield position, header
        position += header.size_in_bytes


def whole_batch(buffer: Buffer, position: int) -> BatchHeader | None:
    """Its header; None if no more is left than one that was cut off. Raises as `read_header`."""
    left = len(buffer) - position
    header = read_header(buffer, position) if left >= HEADER_SIZE else None
    return None if header is None or header.size_in_bytes > left else header


def iterate_records(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[Record]:
    """The whole batch must be in the buffer. DecodeError as they come."""
    yield from iterate_unpacked(unpack_records(buffer, position, header, max_bytes=max_bytes), header)


def unpack_records(buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Raises DecodeError."""
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size_in_bytes]
    return bytes(decompress(header.compression, payload, max_bytes))


def iterate_unpacked(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """`data` is the result of `unpack_records`; of a view of it keys and values are views as well."""
    if not 0 <= header.record_count * _SMALLEST_RECORD <= len(data):
        raise DecodeError(f"a batch that declares {header.record_count} records in {len(data)} bytes")
    at = 0
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(header.record_count):
            record, at = _decode_record(data, at, header)
            if fixed_timestamp is not None:
                record.timestamp_ms = fixed_timestamp
            yield record
    except (IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"a record at byte {at} of its batch: {error}") from error
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes are left behind the last record of a batch")


def iterate_times(data: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of each record; what else a record holds is passed over. DecodeError as they come."""
    if not 0 <= header.record_count * _SMALLEST_RECORD <= len(data):
        raise DecodeError(f"a batch that declares {header.record_count} records in {len(data)} bytes")
    at = 0
    fixed = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(header.record_count):
            length, at = decode_varint(data, at)
            end = at + length
            if length < 0 or end > len(data):
                _refuse(length, len(data) - at)
            timestamp_delta, at = decode_varint(data, at + 1)
            offset_delta, at = decode_varint(data, at)
            yield header.base_timestamp + timestamp_delta if fixed is None else fixed, header.base_offset + offset_delta
            at = end
    except IndexError as error:
        raise DecodeError(f"a record at byte {at} of its batch: {error}") from error


def keys_and_values(data: bytes, header: BatchHeader) -> list[tuple[bytes | None, bytes | None]]:
    """Raises DecodeError. It takes less than half the time of `iterate_unpacked`: logs may have millions of records."""
    if not 0 <= header.record_count * _SMALLEST_RECORD <= len(data):
        raise DecodeError(f"a batch that declares {header.record_count} records in {len(data)} bytes")
    found: list[tuple[bytes | None, bytes | None]] = []
    at = 0
    try:
        for _ in range(header.record_count):
            byte = data[at]
            length, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
            end = at + length
            if length < 0 or end > len(data):
                _refuse(length, len(data) - at)
            at += 1  # attributes; then the deltas of timestamp and offset
            while data[at] > 0x7F:
                at += 1
            at += 1
            while data[at] > 0x7F:
                at += 1
            byte = data[at := at + 1]
            length, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
            key = data[at : at + length] if length >= 0 else None
            at += length if length > 0 else 0
            byte = data[at]
            length, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
            value = data[at : at + length] if length >= 0 else None
            if at + (length if length > 0 else 0) >= end:  # the number of headers comes behind
                raise DecodeError(f"a record with a value of {length} bytes has {end - at} left for it")
            found.append((key, value))
            at = end
    except IndexError as error:
        raise DecodeError(f"a record at byte {at} of its batch: {error}") from error
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes are left behind the last record of a batch")
    return found


def _refuse(length: int, left: int) -> NoReturn:
    raise DecodeError(f"a record declares a length of {length} with {left} bytes left")


def _decode_blob(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    byte = data[at]
    length, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
    if length < 0:
        return None, at
    stop = at + length
    if stop > end:
        _refuse(length, end - at)
    return data[at:stop], stop


def decode_headers(data: bytes, at: int, end: int, count: int) -> tuple[list[tuple[str, bytes | None]], int]:
    """So many of them, and where they end. DecodeError, IndexError or UnicodeDecodeError if they do not."""
    if not 0 <= count <= end - at:
        _refuse(count, end - at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _decode_blob(data, at, end)
        if name is None:
            raise DecodeError("a record has a header without a name")
        value, at = _decode_blob(data, at, end)
        headers.append((str(name, "utf-8"), value))
    return headers, at


def _decode_record(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    # Most numbers take one byte, and a call costs more than the rest of reading it.
    byte = data[at]
    length, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
    end = at + length
    if length < 0 or end > len(data):
        _refuse(length, len(data) - at)
    byte = data[at + 1]  # the byte before it, of attributes, is unused
    timestamp_delta, at = (_SHORT_VARINTS[byte], at + 2) if byte < 0x80 else decode_varint(data, at + 1)
    byte = data[at]
    offset_delta, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
    key, at = _decode_blob(data, at, end)
    value, at = _decode_blob(data, at, end)
    byte = data[at]
    count, at = (_SHORT_VARINTS[byte], at + 1) if byte < 0x80 else decode_varint(data, at)
    headers: list[tuple[str, bytes | None]] = []
    if count:
        headers, at = decode_headers(data, at, end, count)
    if at != end:
        raise DecodeError(f"a record of {length} bytes ends {end - at} bytes before it should")
    return Record(header.base_offset + offset_delta, header.base_timestamp + timestamp_delta, key, value, headers), at
