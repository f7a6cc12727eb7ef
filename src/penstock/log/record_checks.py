"""A look at the records of a produced batch, one after the other, where its header is not enough.

What is checked: keys (compaction) and timestamps. What is mended: a header whose latest timestamp is not that of its
records, and a codec that is not the topic's.

A batch of 2 KB may hold a million records, or 64 MB, and a look at these takes seconds. So who can wait has a look at
few records at once, and at others by a thread (`UnlookedError`).
"""

from collections.abc import Callable

from penstock.log.config import INT64_MAX, PRODUCER, LogConfig
from penstock.protocol.batch import (
    MAX_TIMESTAMP_AT,
    BatchHeader,
    read_header,
    write_crc,
)
from penstock.protocol.compression import Compression, DecompressionLimitError
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import iterate_records, recompress_batch

MAX_UNPACKED_FACTOR = 64
"""Records that must be unpacked may take this many times `max.message.bytes`."""
MIN_UNPACKED_LIMIT_BYTES = 64 << 20
"""Records may take this much, whatever `max.message.bytes` is."""
MAX_UNPACKED_RECORDS = 1_000_000
"""Of a batch that must be unpacked: as many as librdkafka's `batch.num.messages` allows."""
FEW_RECORDS = 100
LITTLE_BYTES = 16 << 10
"""So much is looked at in a moment, which is less than a thread takes to begin."""
MAX_RECORD_ERRORS = 10_000
RECORD_ERRORS_SHOWN = 3
"""Kafka's limit on the single errors in a refusal's text; the others are in `record_errors`."""

NO_TIMESTAMP = -1

CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class InvalidRecords(KafkaError):  # noqa: N818  the refusal is of records
    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def check_size(size: int, config: LogConfig) -> None:
    """KafkaError(MESSAGE_TOO_LARGE) for a batch of more bytes than the topic allows."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes is larger than the limit of {config.max_message_bytes}",
        )


class UnlookedError(Exception):
    """There is much to look at: `look` does it, in a thread, and its result is to be appended as `LOOKED_AT`."""

    def __init__(self, look: Callable[[], memoryview]) -> None:
        super().__init__("the records of a batch must be looked at in a thread")
        self.look = look


def look_at_few_records(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, topic: str
) -> tuple[memoryview, BatchHeader]:
    """As `look_at_records`; UnlookedError if that would take more than a moment."""
    if header.record_count <= FEW_RECORDS and len(batch) <= LITTLE_BYTES:
        try:
            return _looked_at(batch, header, config, now_ms, topic, LITTLE_BYTES)
        except DecompressionLimitError:
            pass
        except DecodeError as error:
            raise _senseless(error) from None
    kept = memoryview(bytearray(batch))
    raise UnlookedError(lambda: look_at_records(kept, header, config, now_ms, topic)[0])


def look_at_records(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, topic: str
) -> tuple[memoryview, BatchHeader]:
    """Batch and header are new where the topic wants another codec."""
    try:
        return _looked_at(batch, header, config, now_ms, topic, max_unpacked_bytes(config))
    except DecompressionLimitError as error:
        refusal = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch's records are too large: {error}")
    except DecodeError as error:
        refusal = _senseless(error)
    raise refusal  # behind the error, whose frames have what was unpacked


def _senseless(error: DecodeError) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"the batch's records make no sense: {error}")


def _looked_at(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, topic: str, max_bytes: int
) -> tuple[memoryview, BatchHeader]:
    if header.is_control:
        return batch, header
    target = None if config.compression_type == PRODUCER else CODECS[config.compression_type]
    latest_ms = _check_contents(batch, header, config, now_ms, topic, max_bytes)
    if latest_ms != header.max_timestamp:
        batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = latest_ms.to_bytes(8, "big", signed=True)
        write_crc(batch, 0, header.size_in_bytes)
        header = read_header(batch)
    if target is not None and header.compression != target:
        level = None if (level := _level(target, config)) == -1 else level
        batch = memoryview(recompress_batch(batch, header, target, level, max_bytes=max_bytes))
        check_size(len(batch), config)
        header = read_header(batch)
    return _held_back(batch, header, config, now_ms, max_bytes) if config.penstock_delay_enable else (batch, header)


def _held_back(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, max_bytes: int
) -> tuple[memoryview, BatchHeader]:
    from penstock.log.delayed_records import RefusedRecordsError, held_back  # few topics have records that wait

    try:
        return held_back(batch, header, config, now_ms, max_bytes=max_bytes, most_errors=MAX_RECORD_ERRORS)
    except RefusedRecordsError as error:
        refused = error.errors
    raise _refused(ErrorCode.INVALID_RECORD, refused)


def max_unpacked_bytes(config: LogConfig) -> int:
    return max(MIN_UNPACKED_LIMIT_BYTES, MAX_UNPACKED_FACTOR * config.max_message_bytes)


def _level(codec: Compression, config: LogConfig) -> int:
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec, -1)


def _check_contents(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, topic: str, max_bytes: int
) -> int:
    """One record at a time: a batch of tiny ones would be a hundred times as large as objects. Returns the latest
    timestamp.
    """
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
    latest_seen = NO_TIMESTAMP
    for i, record in enumerate(iterate_records(batch, 0, header, max_bytes=max_bytes)):
        timestamp_ms = record.timestamp_ms
        if timestamp_ms > latest_seen:
            latest_seen = timestamp_ms
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
    return latest_seen


def _refuse(code: ErrorCode, errors: list[tuple[int, str]]) -> None:
    if errors:
        raise _refused(code, errors)


def _refused(code: ErrorCode, errors: list[tuple[int, str]]) -> InvalidRecords:
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:RECORD_ERRORS_SHOWN])
    count = len(errors) if len(errors) < MAX_RECORD_ERRORS else f"at least {MAX_RECORD_ERRORS}"
    return InvalidRecords(code, f"{count} records of the batch are refused: {shown}", errors)
