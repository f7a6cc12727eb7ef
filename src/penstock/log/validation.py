"""What a leader asks of a batch before it writes it: all from the header, which is read once.

A batch's records are looked at only where the header is not enough (decision 0202, see `record_checks`): every record
needs a key (compaction), a topic bounds timestamps from below or wants another codec than the producer's, the
header's latest timestamp cannot be, records of the topic may have to wait until they are due, or
`penstock.produce.validate` is `full`.
"""

import enum
import struct
from typing import Final, NamedTuple

from penstock.log.config import INT64_MAX, PRODUCER, LogConfig
from penstock.log.record_checks import CODECS, check_size, look_at_few_records, look_at_records
from penstock.protocol.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    DELAYED,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    UnsupportedMagicError,
    check_crc,
    read_header,
    set_max_timestamp,
)
from penstock.protocol.checksum import crc32c
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

MIN_RECORD_BYTES = 7
"""A record without key, value and headers: its length, attributes, two deltas, two lengths and a count."""

_OF_LEADERS: Final = CONTROL | DELAYED
"""Attributes that no client sets."""
NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1
ANY_CODEC = -1

_BEGINNINGS = {
    Compression.GZIP: b"\x1f\x8b",
    Compression.LZ4: b"\x04\x22\x4d\x18",
    Compression.ZSTD: b"\x28\xb5\x2f\xfd",
}
"""How compressed records begin; snappy has no fixed beginning."""


class AppendOrigin(enum.Enum):
    """A client, whose batch is checked in full, or a part of the broker, which may write control batches.

    A client may be able to wait for a look at many records (`UnlookedError`), after which they are looked at.
    """

    CLIENT = "client"
    PATIENT = "a client that waits"
    LOOKED_AT = "a client that has waited"
    COORDINATOR = "coordinator"


CLIENT: Final = AppendOrigin.CLIENT
"""A name of its own: looking a member of an enumeration up takes as long as a call."""
PATIENT: Final = AppendOrigin.PATIENT
LOOKED_AT: Final = AppendOrigin.LOOKED_AT
COORDINATOR: Final = AppendOrigin.COORDINATOR


class AppendResult(NamedTuple):
    """A repeated batch has the place of the first one."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class AppendRules:
    """The demands of one `LogConfig`, worked out once. `codec` is the topic's; `latest_ms` is how far behind now a
    batch's latest timestamp may lie before its records are looked at; `looks_at_all`: they are looked at in any case.
    """

    __slots__ = ("codec", "config", "latest_ms", "looks_at_all", "max_bytes", "segment_bytes", "stamps")

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.max_bytes = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        self.stamps = config.uses_log_append_time
        self.latest_ms = INT64_MAX if self.stamps else config.message_timestamp_after_max_ms
        self.codec = ANY_CODEC if config.compression_type == PRODUCER else int(CODECS[config.compression_type])
        self.looks_at_all = (
            config.is_compacted
            or config.validates_records
            or config.penstock_delay_enable
            or (not self.stamps and config.message_timestamp_before_max_ms != INT64_MAX)
        )


def check_batch(
    batch: memoryview, rules: AppendRules, *, now_ms: int, origin: AppendOrigin, topic: str
) -> tuple[memoryview, BatchHeader]:
    """Batch and header are new where the topic asks for that. Raises KafkaError with the code of the first fault.

    Raises UnlookedError where records of a patient client must be looked at that are not few.
    """
    if origin is LOOKED_AT and read_header(batch).attributes & DELAYED:  # it is held, or was: this leader made it
        if rules.stamps:
            set_max_timestamp(batch, 0, now_ms)
        return batch, read_header(batch)
    header = _check_bytes(batch, rules)
    if origin is not COORDINATOR:
        if header.base_offset or header.attributes & _OF_LEADERS or header.producer_id != NO_PRODUCER_ID:
            _check_client(header)
        looks = origin is not LOOKED_AT and (
            rules.looks_at_all
            or header.max_timestamp > now_ms + rules.latest_ms
            or (header.record_count == 1 and header.max_timestamp != header.base_timestamp)  # it can be only one
        )
    else:
        looks = False
    if looks or (rules.codec != ANY_CODEC and header.attributes & COMPRESSION_MASK != rules.codec):
        look = look_at_records if origin is CLIENT or origin is COORDINATOR else look_at_few_records
        batch, header = look(batch, header, rules.config, now_ms, topic)
    if len(batch) > rules.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(batch)} bytes do not fit into a segment of {rules.segment_bytes} bytes",
        )
    if rules.stamps:
        set_max_timestamp(batch, 0, now_ms)
        header = read_header(batch)
    return batch, header


def _check_bytes(batch: memoryview, rules: AppendRules) -> BatchHeader:
    """It must be one whole batch, with its CRC and as many records as it claims offsets for."""
    size = len(batch)
    try:
        numbers = HEADER.unpack_from(batch)
    except struct.error:
        raise _no_batch(batch) from None
    header: BatchHeader = tuple.__new__(BatchHeader, numbers)  # as _make, in half the time
    _, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, _, count = numbers
    if magic != MAGIC or length != size - LENGTH_END:
        raise _no_batch(batch)
    if size > rules.max_bytes:
        check_size(size, rules.config)
    if crc32c(batch[ATTRIBUTES_AT:]) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC does not fit its bytes")
    if count < 1 or last_offset_delta != count - 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{count} records cannot have a last offset delta of {last_offset_delta}"
        )
    if attributes & COMPRESSION_MASK:
        _check_codec(batch, attributes & COMPRESSION_MASK)
    elif count * MIN_RECORD_BYTES > size - HEADER_SIZE:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records do not fit into a batch of {size} bytes")
    if attributes & TRANSACTIONAL and producer_id == NO_PRODUCER_ID:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")
    return header


def _no_batch(batch: memoryview) -> KafkaError:
    if not batch:
        return KafkaError(ErrorCode.INVALID_RECORD, "there is no batch to append")
    try:
        header = read_header(batch)
    except UnsupportedMagicError as error:
        return KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error))
    except DecodeError as error:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
    if header.size_in_bytes > len(batch):
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"a batch announces {header.size_in_bytes} bytes, there are {len(batch)}"
        )
    return KafkaError(ErrorCode.INVALID_RECORD, "a produce request holds one batch per partition, not several")


def _check_codec(batch: memoryview, codec: int) -> None:
    if codec > Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression has the number {codec}")
    beginning = _BEGINNINGS.get(Compression(codec), b"")
    if batch[HEADER_SIZE : HEADER_SIZE + len(beginning)] != beginning:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the records are not compressed with {Compression(codec).name}")


def _check_client(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a new batch has base offset 0, this one has {header.base_offset}")
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.attributes & DELAYED:  # also where nothing may wait: that may be turned on later
        raise KafkaError(ErrorCode.INVALID_RECORD, "the batch says that its records have waited: only a leader says so")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a batch with a producer id needs a sequence")


def base_before(batches: memoryview, offset: int) -> int | None:
    """The base offset of the first batch if this offset is inside of it."""
    try:
        header = read_header(batches)
    except DecodeError:  # no batch, or one that is refused
        return None
    return header.base_offset if header.base_offset < offset <= header.last_offset else None


def parse_follower_batches(batches: memoryview, log_end_offset: int) -> list[tuple[int, BatchHeader]]:
    """A last batch that was cut off is left out. Raises KafkaError: CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for
    offsets that do not go on from `log_end_offset`.
    """
    headers: list[tuple[int, BatchHeader]] = []
    expected, position, end = log_end_offset, 0, len(batches)
    try:
        while end - position >= HEADER_SIZE:
            header = read_header(batches, position)
            base_offset, length, _, _, _, _, delta, *_ = header
            behind = position + LENGTH_END + length
            if behind > end:
                break
            if not check_crc(batches, position, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of batch {base_offset} does not fit its bytes")
            if delta < 0:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch {base_offset} ends before it begins")
            if base_offset < expected:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"batch {base_offset} arrives when {expected} is next")
            headers.append((position, header))
            expected, position = base_offset + delta + 1, behind
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return headers
