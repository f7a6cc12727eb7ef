"""What a batch must fulfil before the leader appends it, and what the leader changes in it.

Batches stay opaque wherever their headers suffice. Records are unpacked only where a topic's configs ask for it:
every record needs a key (compaction), the header's timestamps lie outside the bounds, or the topic wants another
codec than the producer's. A lower bound on timestamps cannot be read from a header, so a topic that sets one
unpacks every batch.
"""

import enum

from penstock.log.config import INT64_MAX, PRODUCER, LogConfig
from penstock.protocol.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    UnsupportedMagicError,
    check_crc,
    read_header,
    set_max_timestamp,
)
from penstock.protocol.compression import Compression, DecompressionLimitError
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import iterate_batches, iterate_records, recompress_batch

MAX_UNPACKED_FACTOR = 64
"""Records that must be unpacked may take this many times `max.message.bytes`."""
MIN_UNPACKED_LIMIT_BYTES = 64 << 20
"""Whatever `max.message.bytes` is, records may take this much."""
MAX_UNPACKED_RECORDS = 1_000_000
"""Records that a batch which must be unpacked may hold: as many as librdkafka's `batch.num.messages` allows."""
MAX_RECORD_ERRORS = 10_000
"""Bad records of one batch that are named one by one."""
RECORD_ERRORS_SHOWN = 3
"""Kafka's limit on the single errors in a refusal's text; the others are in `record_errors`."""

MIN_RECORD_BYTES = 7
"""A record without key, value and headers: its length, attributes, two deltas, two lengths and a count."""

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}

CheckedBatches = tuple[memoryview, list[tuple[int, BatchHeader]], int]
"""The batches (rewritten if need be), (position, header) of each, and the log append time or -1."""


class AppendOrigin(enum.Enum):
    """Who appends: a client, whose batch is checked in full, or a part of the broker, which may write control
    batches.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"


class InvalidRecords(KafkaError):  # noqa: N818  the refusal is of records
    """A batch was refused for some of its records; `record_errors` has (index in the batch, message) of each."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def check_batches(
    batches: memoryview, config: LogConfig, *, now_ms: int, origin: AppendOrigin, topic: str
) -> CheckedBatches:
    """Check batches that go to the log's end; raises KafkaError with the code for the first thing that is wrong."""
    end = len(batches)
    position = 0
    headers: list[tuple[int, BatchHeader]] = []
    while position < end:
        header = _check_header(batches, position, end, config, origin)
        headers.append((position, header))
        position += header.size_in_bytes
    if origin is AppendOrigin.CLIENT and len(headers) != 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"a produce request holds one batch per partition, not {len(headers)}"
        )
    if not headers:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no batch to append")
    if len(batches) > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{end} bytes do not fit into a segment of {config.segment_bytes} bytes"
        )
    return _apply_config(batches, headers, config, now_ms, origin, topic)


def _check_header(view: memoryview, position: int, end: int, config: LogConfig, origin: AppendOrigin) -> BatchHeader:
    try:
        header = read_header(view, position)
    except UnsupportedMagicError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error)) from None
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    size = header.size_in_bytes
    if position + size > end:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch announces {size} bytes, there are {end - position}")
    _check_size(size, config)
    if not check_crc(view, position, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC does not fit its bytes")
    _check_count(header)
    if origin is AppendOrigin.CLIENT:
        _check_client(header)
    return header


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes is larger than the limit of {config.max_message_bytes}",
        )


def _check_count(header: BatchHeader) -> None:
    """The offsets that the batch takes must be as many as its records, and these as many as its bytes allow."""
    count = header.record_count
    codec = header.attributes & COMPRESSION_MASK
    if count < 1 or header.last_offset_delta != count - 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{count} records cannot have a last offset delta of {header.last_offset_delta}"
        )
    if not codec and count * MIN_RECORD_BYTES > header.batch_length + LENGTH_END - HEADER_SIZE:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{count} records do not fit into a batch of {header.size_in_bytes} bytes"
        )
    if codec > Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression has the number {codec}")


def _check_client(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a new batch has base offset 0, this one has {header.base_offset}")
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.producer_id != NO_PRODUCER_ID:
        if header.base_sequence < 0:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a batch with a producer id needs a sequence")
    elif header.is_transactional:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")


def _apply_config(
    view: memoryview,
    headers: list[tuple[int, BatchHeader]],
    config: LogConfig,
    now_ms: int,
    origin: AppendOrigin,
    topic: str,
) -> CheckedBatches:
    if _needs_codec(headers, config) or (origin is AppendOrigin.CLIENT and _needs_check(headers, config, now_ms)):
        view, headers = _check_records(view, headers, config, now_ms, topic)
    if config.uses_log_append_time:
        for position, _ in headers:
            set_max_timestamp(view, position, now_ms)
        return view, [(position, read_header(view, position)) for position, _ in headers], now_ms
    return view, headers, NO_TIMESTAMP


def _needs_codec(headers: list[tuple[int, BatchHeader]], config: LogConfig) -> bool:
    if config.compression_type == PRODUCER:
        return False
    codec = _CODECS[config.compression_type]
    return any(header.compression != codec for _, header in headers)


def _needs_check(headers: list[tuple[int, BatchHeader]], config: LogConfig, now_ms: int) -> bool:
    """Whether records must be looked at. What a coordinator writes has keys and the time of now."""
    if config.is_compacted:
        return True
    if config.uses_log_append_time:
        return False
    if config.message_timestamp_before_max_ms != INT64_MAX:
        return True
    latest = now_ms + config.message_timestamp_after_max_ms
    return any(header.max_timestamp > latest for _, header in headers)


def _check_records(
    view: memoryview, headers: list[tuple[int, BatchHeader]], config: LogConfig, now_ms: int, topic: str
) -> tuple[memoryview, list[tuple[int, BatchHeader]]]:
    """Look into each batch; returns the batches, those with another codec than the topic's packed anew."""
    target = None if config.compression_type == PRODUCER else _CODECS[config.compression_type]
    parts: list[memoryview | bytearray] = []
    for position, header in headers:
        batch = view[position : position + header.size_in_bytes]
        if not header.is_control:
            try:
                _check_contents(batch, header, config, now_ms, topic)
                if target is not None and header.compression != target:
                    level = None if (level := _level(target, config)) == -1 else level
                    packed = recompress_batch(batch, header, target, level, max_bytes=_max_unpacked(config))
                    _check_size(len(packed), config)
                    parts.append(packed)
                    continue
            except DecompressionLimitError as error:
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch's records are too large: {error}") from None
            except DecodeError as error:
                raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch's records make no sense: {error}") from None
        parts.append(batch)
    if all(isinstance(part, memoryview) for part in parts):
        return view, headers
    view = memoryview(bytearray().join(parts))
    position = 0
    repacked = []
    while position < len(view):
        header = read_header(view, position)
        repacked.append((position, header))
        position += header.size_in_bytes
    return view, repacked


def _max_unpacked(config: LogConfig) -> int:
    return max(MIN_UNPACKED_LIMIT_BYTES, MAX_UNPACKED_FACTOR * config.max_message_bytes)


def _level(codec: Compression, config: LogConfig) -> int:
    """The level that the topic asks for; -1 for the codec's own default."""
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec, -1)


def _check_contents(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, topic: str) -> None:
    """Look at the records one after the other: a batch of tiny ones would be a hundred times as large as objects."""
    if header.record_count > MAX_UNPACKED_RECORDS:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.record_count} records; where they must be looked at, {MAX_UNPACKED_RECORDS} may come",
        )
    earliest, latest = 0, INT64_MAX
    if not config.uses_log_append_time:
        earliest = max(0, now_ms - config.message_timestamp_before_max_ms)
        latest = now_ms + config.message_timestamp_after_max_ms
    untimely: list[tuple[int, str]] = []
    keyless: list[tuple[int, str]] = []
    keyless_message = f"topic {topic} is compacted: every record needs a key"
    for i, record in enumerate(iterate_records(batch, 0, header, max_bytes=_max_unpacked(config))):
        timestamp_ms = record.timestamp_ms
        if (
            not earliest <= timestamp_ms <= latest
            and timestamp_ms != NO_TIMESTAMP
            and len(untimely) < MAX_RECORD_ERRORS
        ):
            untimely.append((i, f"timestamp {timestamp_ms} is outside [{earliest}, {latest}]"))
        if record.key is None and config.is_compacted and len(keyless) < MAX_RECORD_ERRORS:
            keyless.append((i, keyless_message))
    _refuse(ErrorCode.INVALID_TIMESTAMP, untimely)
    _refuse(ErrorCode.INVALID_RECORD, keyless)


def _refuse(code: ErrorCode, errors: list[tuple[int, str]]) -> None:
    if errors:
        shown = "; ".join(f"record {index}: {message}" for index, message in errors[:RECORD_ERRORS_SHOWN])
        count = len(errors) if len(errors) < MAX_RECORD_ERRORS else f"at least {MAX_RECORD_ERRORS}"
        raise InvalidRecords(code, f"{count} records of the batch are refused: {shown}", errors)


def parse_follower_batches(batches: memoryview, log_end_offset: int) -> list[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch a leader sent; a last one that was cut off is left out.

    Raises KafkaError: CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for offsets that do not go on from `log_end_offset`.
    """
    headers: list[tuple[int, BatchHeader]] = []
    expected = log_end_offset
    try:
        for position, header in iterate_batches(batches):
            if not check_crc(batches, position, header):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"the CRC of batch {header.base_offset} does not fit its bytes"
                )
            if header.last_offset_delta < 0:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch {header.base_offset} ends before it begins")
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"batch {header.base_offset} arrives when {expected} is next"
                )
            expected = header.last_offset + 1
            headers.append((position, header))
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return headers
