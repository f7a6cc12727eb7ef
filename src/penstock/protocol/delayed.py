"""Records that wait until they are due: how they lie in their partition's log meanwhile, and how they leave.

| batch in the log      | attributes        | what is in it                                                       |
| --------------------- | ----------------- | ------------------------------------------------------------------- |
| held                  | CONTROL | DELAYED | a batch as it was produced, and a row for each of its records;       |
|                       |                   | TRANSACTIONAL, too, where that was                                  |
| carried               | CONTROL | DELAYED | the same of records that were held before, without a producer        |
| moved                 | DELAYED           | records that were due, each with a header that says where it waited  |

A held batch has one control record, and the offsets and sequence numbers of the batch that was produced. Its value,
big-endian: version 0 (2 bytes), number of rows (4), rows of 24 bytes, the produced batch, or several with the same
records, so that few are unpacked at a time. A row: the offset at which its record was first
held, or -1 where that follows from the held batch's own place (8); when it is due, in ms, or what it orders (8); the
hash of its id, 0 if it has none (8). Clients pass over control records, whatever is in them.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from penstock.protocol.batch import (
    CONTROL,
    DELAYED,
    HEADER,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    write_crc,
)
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.protocol.varint import decode_varint

DELIVER_AT: Final = "penstock-deliver-at"
"""When the record is due: ms since 1970, in decimal digits."""
DELAY: Final = "penstock-delay"
"""How many ms after its arrival, in decimal digits."""
DELAY_ID: Final = "penstock-delay-id"
"""A record with the same id that still waits in the partition gives way to this one."""
CANCEL: Final = "penstock-delay-cancel"
"""With an id and no value: what waits under it is never delivered, nor is this record."""
NOW: Final = "penstock-delay-now"
"""As that, but what waits under the id is due at once."""
WAITED_AT: Final = "penstock-delay-offset"
"""Of a record that has waited: the offset that its producer was told, in decimal digits."""

CANCELS: Final = -1
HASTENS: Final = -2
OWN_PLACE: Final = -1
NO_ID: Final = 0

BEHIND_VALUE: Final = 1
"""Bytes of a held batch: the number of headers, 0."""
_BEFORE_ROWS: Final = 64
"""Bytes behind a held batch's header, at most: lengths and the like, the key, and what comes before the rows."""
_CONTROL_KEY: Final = b"\x00\x00\x00\x64"
"""Version 0, type 100: Kafka counts its types from 0."""
_HEAD: Final = Struct(">hI")
_ROW: Final = Struct(">qqq")
PART_RECORDS: Final = 200
"""Of a batch of more the records lie in several ones: to unpack so many takes a millisecond or two."""
PART_BYTES: Final = 1 << 20
"""The same: more only if it is one record."""
MAX_UNPACKED_BYTES: Final = 1 << 30
"""What was held was unpacked before, within the topic's limits of that time."""


class Row(NamedTuple):
    """`due_ms` may be CANCELS or HASTENS instead; `waited_at` OWN_PLACE."""

    waited_at: int
    due_ms: int
    id: int


def hash_of(text: bytes) -> int:
    """Of an id: 64 bits, never 0."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True) or 1


def size_of(record: Record) -> int:
    """Its bytes, but for lengths and the like."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def hold(
    batch: bytes | memoryview, header: BatchHeader, rows: Sequence[Row], *, now_ms: int, unpacked_bytes: int
) -> bytearray:
    """The batch that holds this one, with its offsets, its producer and its transaction; a row for each record of it.
    `unpacked_bytes`: the size of its records. Raises DecodeError where they cannot be unpacked.
    """
    batches: bytes | memoryview = batch
    if header.record_count > PART_RECORDS or unpacked_bytes > PART_BYTES:
        batches = _in_parts(list(iterate_records(batch, 0, header, max_bytes=MAX_UNPACKED_BYTES)), header.compression)
    timestamp_ms = max(header.max_timestamp, 0) or now_ms
    return _hold(batches, rows, header.last_offset_delta, timestamp_ms, header)


def carry(records: Sequence[Record], rows: Sequence[Row], compression: Compression, *, now_ms: int) -> bytearray:
    """A batch at one offset that holds records which waited before, PART_RECORDS at most; no row has OWN_PLACE."""
    return _hold(encode_batch(records, compression=compression), rows, 0, now_ms, None)


def _in_parts(records: Sequence[Record], compression: Compression) -> bytes:
    parts: list[list[Record]] = []
    room = -1
    for record in records:
        size = size_of(record)
        if size > room or len(parts[-1]) >= PART_RECORDS:
            parts.append([])
            room = PART_BYTES
        parts[-1].append(record)
        room -= size
    return b"".join(encode_batch(part, compression=compression) for part in parts)


def _hold(
    batches: bytes | bytearray | memoryview,
    rows: Sequence[Row],
    last_offset_delta: int,
    timestamp_ms: int,
    produced: BatchHeader | None,
) -> bytearray:
    value = b"".join((_HEAD.pack(0, len(rows)), *(_ROW.pack(*row) for row in rows), batches))
    held = encode_batch([Record(timestamp_ms=timestamp_ms, key=_CONTROL_KEY, value=value)])
    made = read_header(held)._replace(attributes=CONTROL | DELAYED, last_offset_delta=last_offset_delta)
    if produced is not None:
        made = made._replace(
            attributes=made.attributes | (produced.attributes & TRANSACTIONAL),
            producer_id=produced.producer_id,
            producer_epoch=produced.producer_epoch,
            base_sequence=produced.base_sequence,
        )
    HEADER.pack_into(held, 0, *made)
    write_crc(held, 0, len(held))
    return held


def rows_bytes(header: BatchHeader) -> int:
    """So many bytes of a held batch have its rows, whatever it holds."""
    most_rows = max(header.last_offset_delta + 1, PART_RECORDS)  # what was carried lies at one offset
    return min(header.size_in_bytes, HEADER_SIZE + _BEFORE_ROWS + most_rows * _ROW.size)


def _key_and_value(buffer: bytes | memoryview, header: BatchHeader) -> tuple[bytes, int, int]:
    """Of the first record of a batch its key, and where its value begins and ends."""
    try:
        _, at = decode_varint(buffer, HEADER_SIZE)
        _, at = decode_varint(buffer, at + 1)  # behind the attributes; the timestamp
        _, at = decode_varint(buffer, at)  # the offset
        key_bytes, key_at = decode_varint(buffer, at)
        value_bytes, begin = decode_varint(buffer, key_at + max(key_bytes, 0))
    except IndexError as error:
        raise DecodeError(f"the batch at offset {header.base_offset} has no record") from error
    return bytes(buffer[key_at : key_at + max(key_bytes, 0)]), begin, begin + max(value_bytes, 0)


class Held:
    """What a held batch says. DecodeError for one that no leader wrote."""

    __slots__ = ("_begin", "_value", "_value_at", "base_offset", "count", "last_offset")

    def __init__(self, buffer: bytes | memoryview, header: BatchHeader) -> None:
        """`buffer` has the batch; without its records, if only the first `rows_bytes` of it."""
        key, begin, end = _key_and_value(buffer, header)
        value = bytes(buffer[begin:end])
        if key != _CONTROL_KEY or len(value) < _HEAD.size:
            raise DecodeError(f"the batch at offset {header.base_offset} holds no records")
        version, count = _HEAD.unpack_from(value)
        self.count = int(count)
        self._begin = _HEAD.size + self.count * _ROW.size
        self._value_at = begin
        if version or self._begin > len(value):
            raise DecodeError(f"the batch at offset {header.base_offset} holds records in a layout that is not known")
        self.base_offset, self.last_offset, self._value = header.base_offset, header.last_offset, value

    def rows(self, begin: int = 0, end: int | None = None) -> Iterator[Row]:
        """From one number to another, with the offsets instead of OWN_PLACE."""
        for number, (at, due_ms, id_) in enumerate(self._rows(begin, end), self.base_offset + begin):
            yield Row(number if at == OWN_PLACE else at, due_ms, id_)

    @property
    def has_own_places(self) -> bool:
        """Its records waited here first."""
        return all(at == OWN_PLACE for at, _, _ in self._rows(0, None))

    def plain_times(self, begin: int, end: int) -> "array[int] | None":
        """When they are due, if all of these rows have their own places, no ids, and order nothing."""
        numbers = array("q", self._value[_HEAD.size + begin * _ROW.size : _HEAD.size + end * _ROW.size])
        if sys.byteorder == "little":
            numbers.byteswap()
        times, rows = numbers[1::3], end - begin
        is_plain = numbers[::3] == array("q", (OWN_PLACE,)) * rows and numbers[2::3] == array("q", (NO_ID,)) * rows
        return times if is_plain and min(times, default=0) >= 0 else None

    def _rows(self, begin: int, end: int | None) -> Iterator[tuple[int, int, int]]:
        end = self.count if end is None else end
        return _ROW.iter_unpack(self._value[_HEAD.size + begin * _ROW.size : _HEAD.size + end * _ROW.size])

    def drop_records(self) -> None:
        """What is left are the rows: a tenth of the memory, or less."""
        self._value = self._value[: self._begin]

    @property
    def compression(self) -> Compression:
        return read_header(self._value, self._begin).compression

    def part(self, number: int) -> tuple[int, list[Record]]:
        """Some of the records, that of this row among them, and the number of the first one. Raises DecodeError."""
        first, position, header = self._part(number)
        return first, list(iterate_records(self._value, position, header, max_bytes=MAX_UNPACKED_BYTES))

    def parts(self) -> Iterator[tuple[int, int]]:
        """Of each the number of its first record, and where its batch begins in the held one. Raises DecodeError."""
        first = 0
        for position, header in iterate_batches(memoryview(self._value)[self._begin :]):
            yield first, self._value_at + self._begin + position
            first += header.record_count

    def numbers_of_part(self, number: int) -> range:
        """Of the rows whose records are in the same part as this one's. Raises DecodeError."""
        first, _, header = self._part(number)
        return range(first, first + header.record_count)

    def _part(self, number: int) -> tuple[int, int, BatchHeader]:
        first = 0
        for position, header in iterate_batches(memoryview(self._value)[self._begin :]):
            if number < first + header.record_count:
                return first, self._begin + position, header
            first += header.record_count
        raise DecodeError(f"the batch at offset {self.base_offset} has more rows than records")

    def records(self) -> list[Record]:
        """All, in the order of the rows. Raises DecodeError."""
        found: list[Record] = []
        while len(found) < self.count:
            found += self.part(len(found))[1]
        return found
