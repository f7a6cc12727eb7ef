"""What the application sees of a fetch."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.values import TopicPartition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.fetch import AbortedTransaction
from penstock.protocol.records import Record, encode_batch

P = TopicPartition("t", 3)
ABORT, COMMIT = 0, 1


def batch(base_offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    records = [Record(timestamp_ms=base_offset, value=value) for value in values]
    transactional = producer_id >= 0
    return bytes(
        encode_batch(records, base_offset=base_offset, producer_id=producer_id, is_transactional=transactional)
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    record = Record(timestamp_ms=0, key=struct.pack(">hh", 0, kind), value=b"\0\0\0\0\0\0")
    return bytes(
        encode_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True)
    )


def read(fetched: FetchedRecords) -> list[bytes | None]:
    return [record.value for record in fetched.take(1_000)]


def test_a_fetch_from_the_middle_of_a_batch_begins_at_the_position() -> None:
    fetched = FetchedRecords(P, batch(10, b"a", b"b", b"c") + batch(13, b"d"), 11)
    records = fetched.take(2)
    assert [(record.offset, record.value) for record in records] == [(11, b"b"), (12, b"c")]
    assert records[0].topic_partition == P
    assert fetched.next_offset == 13
    assert not fetched.exhausted
    assert read(fetched) == [b"d"]
    assert (fetched.next_offset, fetched.exhausted) == (14, True)


def test_a_batch_that_was_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    fetched = FetchedRecords(P, batch(0, b"a") + batch(1, b"b")[:-1], 0)
    assert read(fetched) == [b"a"]
    assert fetched.next_offset == 1


def test_markers_are_not_shown_and_yet_passed() -> None:
    fetched = FetchedRecords(P, batch(0, b"a", producer_id=5) + marker(1, 5, COMMIT), 0)
    assert read(fetched) == [b"a"]
    assert fetched.next_offset == 2


def test_records_of_an_aborted_transaction_are_left_out_up_to_its_marker() -> None:
    data = (
        batch(0, b"aborted", producer_id=5)
        + batch(1, b"other", producer_id=6)
        + marker(2, 5, ABORT)
        + batch(3, b"later", producer_id=5)
        + marker(4, 6, COMMIT)
    )
    aborted = [AbortedTransaction(producer_id=5, first_offset=0)]
    assert read(FetchedRecords(P, data, 0, aborted)) == [b"other", b"later"]
    assert read(FetchedRecords(P, data, 0)) == [b"aborted", b"other", b"later"]


def test_a_wrong_checksum_is_refused_unless_nobody_asks() -> None:
    data = bytearray(batch(0, b"value"))
    data[-2] ^= 1
    with pytest.raises(DecodeError, match="the checksum of the batch at t-3 offset 0 is wrong"):
        read(FetchedRecords(P, bytes(data), 0))
    assert read(FetchedRecords(P, bytes(data), 0, check_crcs=False)) != [b"value"]


def test_records_before_a_batch_that_cannot_be_read_are_given_first() -> None:
    data = bytearray(batch(0, b"good", b"too") + batch(2, b"bad"))
    data[-2] ^= 1
    fetched = FetchedRecords(P, bytes(data), 0)
    assert read(fetched) == [b"good", b"too"]
    assert (fetched.next_offset, fetched.exhausted) == (2, False)
    for _ in range(2):
        with pytest.raises(DecodeError, match="offset 2 is wrong"):
            fetched.take(1)


@given(
    st.lists(st.integers(1, 4), max_size=6), st.integers(0, 20), st.lists(st.integers(1, 5), min_size=30, max_size=30)
)
def test_however_it_is_taken_nothing_is_missed_or_repeated(sizes: list[int], start: int, takes: list[int]) -> None:
    data, offset = b"", 0
    for size in sizes:
        data += batch(offset, *[b"%d" % number for number in range(offset, offset + size)])
        offset += size
    fetched = FetchedRecords(P, data, start)
    seen = [record for limit in takes for record in fetched.take(limit)]
    assert [record.offset for record in seen] == list(range(start, offset))
    assert all(record.value == b"%d" % record.offset for record in seen)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("as_views", [False, True])
def test_parts_of_a_large_batch_are_bytes_unless_views_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, compression: Compression, as_views: bool
) -> None:
    monkeypatch.setattr("penstock.client.consumer.fetched_records.LARGE_BYTES", 100)
    record = Record(timestamp_ms=5, key=b"k" * 50, value=b"v" * 200, headers=[("é", b"h"), ("n", None)])
    small = encode_batch([Record(timestamp_ms=5, value=b"s")], base_offset=1)
    data = memoryview(encode_batch([record], base_offset=0, compression=compression) + small)
    large, last = FetchedRecords(P, data, 0, large_as_views=as_views).take(10)
    kinds = [type(part) for part in (large.key, large.value, large.headers[0][1])]
    assert kinds == [memoryview if as_views else bytes] * 3
    assert (large.key, large.value, large.headers) == (record.key, record.value, record.headers)
    assert (type(last.value), last.value) == (bytes, b"s")
