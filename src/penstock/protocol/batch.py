"""The header of a record batch (format 2, the only one that Kafka 4 writes): read, checked and patched in place.

The checksum covers everything from the attributes on, so a leader may set the base offset and its epoch without
touching it; a timestamp may not be set so cheaply.
"""

import struct
from typing import Final, NamedTuple

from penstock.protocol.checksum import crc32c
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.varint import Buffer

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
LENGTH_END: Final = 12  # bytes that batch_length does not count: the base offset and batch_length itself
MAGIC: Final = 2
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
DELAYED: Final = 0x100
"""A bit of our own, which clients pass over. With CONTROL the batch holds records that wait until they are due; without
it, records that have waited (`protocol/delayed.py`)."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_PLACE: Final = struct.Struct(">qii")


class UnsupportedMagicError(DecodeError):
    """A format that Kafka 4 no longer speaks, or no format at all."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"a record batch of format {magic}; only format {MAGIC} is supported")
        self.magic = magic


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_in_bytes(self) -> int:
        """Header included."""
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        """The last offset that the batch was written with; compaction may have removed its record since."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """DecodeError for a number that is no codec."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError as error:
            raise DecodeError(str(error)) from None

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The batch holds a marker (of a transaction, of the quorum), no application data."""
        return bool(self.attributes & CONTROL)

    @property
    def is_marker(self) -> bool:
        """Of a batch with a producer: it ends a transaction."""
        return self.attributes & (CONTROL | DELAYED) == CONTROL

    @property
    def is_held(self) -> bool:
        """Its records wait until they are due."""
        return self.attributes & (CONTROL | DELAYED) == CONTROL | DELAYED

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time from which compaction may drop the batch's tombstones (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def last_sequence(self) -> int:
        """It starts at 0 again after 2^31 - 1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """DecodeError if fewer than 61 bytes are left or the length is impossible, UnsupportedMagicError for another
    format. Callers check that the whole batch is in the buffer (`size_in_bytes`).
    """
    try:
        header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))  # as _make, but quicker
    except struct.error:
        left = len(buffer) - position
        if left > MAGIC_AT and buffer[position + MAGIC_AT] != MAGIC:
            raise UnsupportedMagicError(buffer[position + MAGIC_AT]) from None
        raise DecodeError(f"a record batch has a header of {HEADER_SIZE} bytes, {left} are left") from None
    if header.magic != MAGIC:
        raise UnsupportedMagicError(header.magic)
    if header.batch_length < HEADER_SIZE - LENGTH_END:
        raise DecodeError(f"a record batch of {header.batch_length + LENGTH_END} bytes is smaller than its header")
    return header


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """The whole batch must be in the buffer."""
    return _crc(buffer, position, LENGTH_END + header.batch_length) == header.crc


def _crc(buffer: Buffer, position: int, size: int) -> int:
    checksum: int = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + size])
    return checksum


def write_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """`size` is that of the whole batch."""
    _UINT32.pack_into(buffer, position + CRC_AT, _crc(buffer, position, size))


def set_base_offset(buffer: bytearray | memoryview, position: int, base_offset: int) -> None:
    _INT64.pack_into(buffer, position, base_offset)


def set_partition_leader_epoch(buffer: bytearray | memoryview, position: int, epoch: int) -> None:
    """In place; the checksum does not cover it."""
    _INT32.pack_into(buffer, position + LENGTH_END, epoch)


def set_place(buffer: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> None:
    """In place, for a batch at the buffer's beginning."""
    _PLACE.pack_into(buffer, 0, base_offset, header.batch_length, leader_epoch)


def set_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Stamp a batch with the time of its append, which then is the time of all its records; renews the checksum."""
    header = read_header(buffer, position)
    _INT16.pack_into(buffer, position + ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    write_crc(buffer, position, header.size_in_bytes)
