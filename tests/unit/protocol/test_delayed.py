"""Held batches: what lies in them, how many records a part has, and what no leader wrote."""

from __future__ import annotations

from array import array

import pytest

from penstock.protocol import delayed
from penstock.protocol.batch import CONTROL, DELAYED, HEADER, HEADER_SIZE, TRANSACTIONAL, read_header, write_crc
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import (
    CANCELS,
    HASTENS,
    NO_ID,
    OWN_PLACE,
    PART_RECORDS,
    Held,
    Row,
    carry,
    hash_of,
    hold,
    rows_bytes,
    size_of,
)
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch


def record(number: int, size: int = 1) -> Record:
    return Record(number, 1000 + number, b"k%d" % number, b"v" * size, [("h", b"x"), ("i", None)])


def held_of(records: list[Record], rows: list[Row], *, unpacked_bytes: int = 0, **of_producer: int) -> Held:
    batch = bytearray(encode_batch(records, **of_producer))  # type: ignore[arg-type]
    header = read_header(batch)._replace(base_offset=70)
    made = hold(bytes(batch), header, rows, now_ms=5, unpacked_bytes=unpacked_bytes)
    found = read_header(made)
    HEADER.pack_into(made, 0, *found._replace(base_offset=70))
    write_crc(made, 0, len(made))
    return Held(bytes(made), read_header(made))


def own(count: int) -> list[Row]:
    return [Row(OWN_PLACE, 100 + number, NO_ID) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "firsts"),
    [
        (1, [0]),
        (PART_RECORDS, [0]),
        (PART_RECORDS + 1, [0, PART_RECORDS]),
        (2 * PART_RECORDS, [0, PART_RECORDS]),
        (2 * PART_RECORDS + 1, [0, PART_RECORDS, 2 * PART_RECORDS]),
    ],
)
def test_a_part_has_so_many_records(count: int, firsts: list[int]) -> None:
    records = [record(number) for number in range(count)]
    held = held_of(records, own(count))
    assert (held.count, held.base_offset, held.last_offset) == (count, 70, 69 + count)
    assert [first for first, _ in held.parts()] == firsts
    for first, end in zip(firsts, [*firsts[1:], count], strict=True):
        for number in (first, end - 1):
            assert held.numbers_of_part(number) == range(first, end)
            place, found = held.part(number)
            assert (place, [one.key for one in found]) == (first, [one.key for one in records[first:end]])
    assert [(one.key, one.value, one.headers) for one in held.records()] == [
        (one.key, one.value, one.headers) for one in records
    ]
    with pytest.raises(DecodeError, match="the batch at offset 70 has more rows than records"):
        held.part(count)


@pytest.mark.parametrize(
    ("sizes", "unpacked_bytes", "firsts"),
    [
        ([10, 10, 10], 20, [0]),
        ([10, 10, 10], 21, [0, 2]),
        ([10, 10], 21, [0]),
        ([10, 11], 21, [0, 1]),
        ([90, 10, 10, 1], 21, [0, 1, 3]),
    ],
)
def test_a_part_has_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], unpacked_bytes: int, firsts: list[int]
) -> None:
    monkeypatch.setattr(delayed, "PART_BYTES", 20)
    records = [Record(n, 0, None, b"v" * size) for n, size in enumerate(sizes)]
    held = held_of(records, own(len(sizes)), unpacked_bytes=unpacked_bytes)
    assert [first for first, _ in held.parts()] == firsts


def test_the_size_of_a_record() -> None:
    assert size_of(Record(0, 0, b"kk", b"vvv", [("name", b"xy"), ("n", None)])) == 2 + 3 + 4 + 2 + 1
    assert size_of(Record(0, 0, None, None)) == 0


HASHES = [-1970711489451281740, 4681665781835383343, 3815355558890182089]
ROWS = [Row(OWN_PLACE, 100, NO_ID), Row(3, CANCELS, 9), Row(OWN_PLACE, HASTENS, -5)]


def test_rows_have_the_offsets_where_records_waited() -> None:
    held = held_of([record(number) for number in range(3)], ROWS)
    assert list(held.rows()) == [Row(70, 100, NO_ID), Row(3, CANCELS, 9), Row(72, HASTENS, -5)]
    assert list(held.rows(1, 2)) == [Row(3, CANCELS, 9)]
    assert list(held.rows(2)) == [Row(72, HASTENS, -5)]
    assert not held.has_own_places
    held.drop_records()
    assert [one.due_ms for one in held.rows()] == [100, CANCELS, HASTENS]
    assert len(held._value) == held._begin


@pytest.mark.parametrize(
    ("row", "is_plain"),
    [
        (Row(OWN_PLACE, 0, NO_ID), True),
        (Row(OWN_PLACE, CANCELS, NO_ID), False),
        (Row(7, 5, NO_ID), False),
        (Row(OWN_PLACE, 5, 1), False),
    ],
)
def test_plain_times_are_those_of_rows_that_order_nothing(row: Row, is_plain: bool) -> None:
    held = held_of([record(number) for number in range(4)], [*own(2), row, *own(1)])
    assert held.has_own_places is (row.waited_at == OWN_PLACE)
    assert held.plain_times(0, 2) == array("q", (100, 101))
    assert held.plain_times(1, 3) == (array("q", (101, row.due_ms)) if is_plain else None)
    assert held.plain_times(3, 4) == array("q", (100,))
    assert held.plain_times(2, 2) == array("q")


def test_what_is_held_has_its_producer_and_its_transaction() -> None:
    named = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}
    for transactional, attributes in ((False, CONTROL | DELAYED), (True, CONTROL | DELAYED | TRANSACTIONAL)):
        batch = encode_batch([record(0), record(1)], **named, is_transactional=transactional)  # type: ignore[arg-type]
        made = read_header(hold(bytes(batch), read_header(batch), own(2), now_ms=5, unpacked_bytes=0))
        assert (made.attributes, made.last_offset_delta, made.max_timestamp) == (attributes, 1, 1001)
        assert (made.producer_id, made.producer_epoch, made.base_sequence) == (7, 3, 11)
    carried = carry([record(4)], [Row(4, 9, NO_ID)], Compression.NONE, now_ms=8)
    header = read_header(carried)
    assert (header.attributes, header.last_offset_delta, header.max_timestamp) == (CONTROL | DELAYED, 0, 8)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert Held(bytes(carried), header).compression is Compression.NONE
    timeless = encode_batch([Record(0, -1, None, b"v")])
    assert (
        read_header(hold(bytes(timeless), read_header(timeless), own(1), now_ms=5, unpacked_bytes=0)).max_timestamp == 5
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (b"\0\0\0\x64", b"\0\0\0\0\0", "holds no records"),
        (b"\0\0\0\x65", b"\0\0\0\0\0\0", "holds no records"),
        (None, b"\0\0\0\0\0\0", "holds no records"),
        (b"\0\0\0\x64", None, "holds no records"),
        (b"\0\0\0\x64", b"\0\1\0\0\0\0", "holds records in a layout that is not known"),
        (b"\0\0\0\x64", b"\0\0\0\0\0\1" + bytes(23), "holds records in a layout that is not known"),
    ],
)
def test_what_no_leader_wrote_is_told(key: bytes | None, value: bytes | None, words: str) -> None:
    batch = bytes(encode_batch([Record(0, 0, key, value)]))
    with pytest.raises(DecodeError, match=f"the batch at offset 0 {words}"):
        Held(batch, read_header(batch))
    with pytest.raises(DecodeError, match="the batch at offset 0 has no record"):
        Held(batch[:HEADER_SIZE], read_header(batch))


def test_as_few_rows_as_there_may_be_are_known() -> None:
    batch = bytes(encode_batch([Record(0, 0, b"\0\0\0\x64", b"\0\0\0\0\0\0")]))
    assert Held(batch, read_header(batch)).count == 0
    one = bytes(encode_batch([Record(0, 0, b"\0\0\0\x64", b"\0\0\0\0\0\1" + bytes(24))]))
    assert list(Held(one, read_header(one)).rows()) == [Row(0, 0, 0)]


@pytest.mark.parametrize(
    ("delta", "size", "found"),
    [
        (0, 10_000, HEADER_SIZE + 64 + PART_RECORDS * 24),
        (PART_RECORDS - 1, 10_000, HEADER_SIZE + 64 + PART_RECORDS * 24),
        (PART_RECORDS, 10_000, HEADER_SIZE + 64 + (PART_RECORDS + 1) * 24),
        (0, 100, 100),
    ],
)
def test_so_many_bytes_have_the_rows(delta: int, size: int, found: int) -> None:
    header = read_header(encode_batch([record(0)]))
    header = header._replace(last_offset_delta=delta, batch_length=size - (header.size_in_bytes - header.batch_length))
    assert header.size_in_bytes == size
    assert rows_bytes(header) == found


def test_hashes_of_ids_stay_as_they_are() -> None:
    assert [hash_of(one) for one in (b"", b"a", b"one")] == HASHES
    assert len({hash_of(b"%d" % number) for number in range(1_000)}) == 1_000
