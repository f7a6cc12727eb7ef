import pytest

from penstock.pipeline.arrow.record_spans import (
    CHUNK_BYTES,
    RECORD_COUNT,
    AbortedFilter,
    Chunk,
    chunks,
    whole_batches,
)
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch

ABORT, COMMIT = 0, 1


def data(offset: int, producer_id: int = -1, compression: Compression = Compression.NONE, size: int = 1) -> bytes:
    """A batch of one record."""
    is_transactional = producer_id >= 0
    batch = encode_batch(
        [Record(value=b"x" * size)],
        base_offset=offset,
        producer_id=producer_id,
        is_transactional=is_transactional,
        compression=compression,
    )
    return bytes(batch)


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """The control batch that ends a transaction."""
    key = b"\x00\x00" + kind.to_bytes(2, "big")
    record = Record(key=key, value=b"\x00" * 6)
    return bytes(
        encode_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True)
    )


def visible(batches: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    """Base offsets of the batches that a reader sees."""
    records = memoryview(b"".join(batches))
    hidden = AbortedFilter(aborted)
    return [batch.header.base_offset for batch in whole_batches(records) if not hidden.hides(batch, records)]


def test_markers_are_never_seen() -> None:
    assert visible([data(0), marker(1, 7, COMMIT), data(2), marker(3, 7, ABORT)], []) == [0, 2]


def test_an_aborted_transaction_is_hidden_up_to_its_marker() -> None:
    log = [data(0, 7), data(1, 8), data(2, 7), marker(3, 7, ABORT), data(4, 7), marker(5, 7, COMMIT)]
    assert visible(log, [(7, 0)]) == [1, 4]


def test_transactions_of_one_producer_are_aborted_one_by_one() -> None:
    log = [data(0, 7), marker(1, 7, ABORT), data(2, 7), marker(3, 7, COMMIT), data(4, 7), marker(5, 7, ABORT)]
    assert visible(log, [(7, 4), (7, 0)]) == [2]


def test_what_is_not_transactional_is_seen_within_anothers_transaction() -> None:
    assert visible([data(0, 7), data(1), marker(2, 7, ABORT)], [(7, 0)]) == [1]


def cut(batches: list[bytes], first: int = 0, end: int = 1000) -> list[Chunk]:
    records = memoryview(b"".join(batches))
    return list(chunks(records, list(whole_batches(records)), first, end, AbortedFilter([])))


def test_batches_outside_of_the_range_get_no_span() -> None:
    (chunk,) = cut([data(offset) for offset in range(10)], 3, 6)
    assert chunk.record_count == 3


def test_a_chunk_ends_where_compression_changes_and_where_it_is_large() -> None:
    lz4 = Compression.LZ4
    batches = [data(0), data(1), data(2, compression=lz4), data(3, compression=lz4), data(4)]
    assert [chunk.record_count for chunk in cut(batches)] == [2, 2, 1]
    large = [data(offset, size=CHUNK_BYTES // 2) for offset in range(4)]
    assert [chunk.record_count for chunk in cut(large)] == [2, 2]


def test_a_batch_that_was_cut_short_is_left_out() -> None:
    records = data(0) + data(1)
    assert [batch.header.base_offset for batch in whole_batches(memoryview(records)[:-1])] == [0]


def test_each_damaged_byte_behind_the_checksum_is_noticed() -> None:
    good = data(5)
    for position in range(21, len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 1
        with pytest.raises(DecodeError):
            list(whole_batches(memoryview(damaged)))


def test_a_batch_cannot_claim_more_records_than_its_bytes_hold() -> None:
    records = encode_batch([Record(value=b"")])
    batch = next(whole_batches(memoryview(records)))
    claims = batch.header._replace(record_count=1 << 30)
    with pytest.raises(DecodeError, match="more records than its bytes"):
        list(chunks(memoryview(records), [type(batch)(0, claims)], 0, 10, AbortedFilter([])))
    (honest,) = cut([bytes(records)])
    assert honest.spans[0, RECORD_COUNT] == 1
