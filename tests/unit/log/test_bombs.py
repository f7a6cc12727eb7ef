"""Small batches that unpack to far more: refused, or left alone, in bounded memory."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, append, batch, open_log, run_through
from tests.unit.log.test_validation import refusal_of

from penstock.log.config import LogConfig
from penstock.log.record_checks import MAX_RECORD_ERRORS, MAX_UNPACKED_RECORDS, InvalidRecords
from penstock.protocol.batch import HEADER, HEADER_SIZE, read_header, write_crc
from penstock.protocol.compression import Compression, compress
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch

TINY_RECORD = bytes([12, 0, 0, 0, 1, 1, 0])
"""No key, no value, no headers, offset delta 0."""
TINY_RECORDS = 200_000
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
UNPACKED = [codec for codec in Compression if codec]


def tiny(count: int, *, claimed: int | None = None, max_timestamp_ms: int = NOW) -> memoryview:
    """A compressed batch of `count` records of seven bytes each; the header claims `claimed` of them."""
    claimed = count if claimed is None else claimed
    header = read_header(batch(), 0)._replace(
        attributes=Compression.ZSTD,
        last_offset_delta=claimed - 1,
        record_count=claimed,
        base_timestamp=max_timestamp_ms,
        max_timestamp=max_timestamp_ms,
    )
    payload = compress(Compression.ZSTD, TINY_RECORD * count)
    data = bytearray(HEADER.pack(*header._replace(batch_length=HEADER_SIZE - 12 + len(payload)))) + payload
    write_crc(data, 0, len(data))
    return memoryview(data)


def peak_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_tiny_records_never_become_objects_all_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    data = tiny(TINY_RECORDS)
    refused: list[InvalidRecords] = []

    def try_it() -> None:
        with pytest.raises(InvalidRecords) as caught:
            append(log, data)
        refused.append(caught.value)

    assert peak_of(try_it) < 8 * len(TINY_RECORD) * TINY_RECORDS
    assert refused[0].code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused[0].record_errors] == list(range(MAX_RECORD_ERRORS))


@pytest.mark.parametrize("config", [COMPACTED, LogConfig(compression_type="gzip")], ids=["compacted", "repacked"])
def test_too_many_records_are_refused_unseen(tmp_path: Path, config: LogConfig) -> None:
    refusal = refusal_of(open_log(tmp_path, config), tiny(10, claimed=MAX_UNPACKED_RECORDS + 1))
    assert refusal.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_producer_cannot_make_any_topic_unpack_a_bomb(tmp_path: Path) -> None:
    """A timestamp in the future makes the node look at the records."""
    future = 2 * NOW
    refusal = refusal_of(open_log(tmp_path), tiny(10, claimed=MAX_UNPACKED_RECORDS + 1, max_timestamp_ms=future))
    assert refusal.code == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal_of(open_log(tmp_path), tiny(10, max_timestamp_ms=future)).code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", UNPACKED, ids=lambda codec: codec.name)
def test_what_is_repacked_must_fit_again(tmp_path: Path, codec: Compression) -> None:
    log = open_log(tmp_path, LogConfig(compression_type="uncompressed"))
    data = memoryview(encode_batch([Record(0, NOW, b"k", bytes(2 << 20))], compression=codec))
    assert len(data) < 1 << 20
    assert refusal_of(log, data).code == ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 0


@pytest.mark.parametrize(
    "bomb",
    [
        memoryview(encode_batch([Record(0, NOW, b"k", bytes(80 << 20))], compression=Compression.ZSTD)),
        tiny(10, claimed=MAX_UNPACKED_RECORDS + 1),
        tiny(10, claimed=11),
    ],
    ids=["large", "many", "garbage"],
)
def test_a_look_up_by_time_is_content_with_the_batch(tmp_path: Path, bomb: memoryview) -> None:
    log = open_log(tmp_path)
    append(log, batch(3, timestamp_ms=NOW - 1))
    append(log, bomb)
    found = []
    assert peak_of(lambda: found.append(run_through(log.search_timestamp(NOW)))) < 2 * (16 << 20)
    assert [(at.timestamp_ms, at.offset) for at in found if at] == [(NOW, 3)]
    latest = run_through(log.search_max_timestamp())
    assert latest is not None
    assert latest.offset == 3


def test_what_a_look_up_has_unpacked_is_free_when_it_ends(tmp_path: Path) -> None:
    """Without the collector, which looks at everything a hundred times more seldom in a node."""
    log = open_log(tmp_path)
    append(log, memoryview(encode_batch([Record(0, NOW, b"k", bytes(80 << 20))], compression=Compression.ZSTD)))

    def look() -> None:
        for _ in range(3):
            run_through(log.search_timestamp(NOW))

    gc.disable()
    try:
        assert peak_of(look) < 2 * (16 << 20)
    finally:
        gc.enable()
