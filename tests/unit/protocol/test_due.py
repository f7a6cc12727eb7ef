"""What is cut out of held batches, against the records as they are read otherwise."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from penstock.protocol.batch import DELAYED, LOG_APPEND_TIME, read_header
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import DELAY_ID, NO_ID, WAITED_AT, hash_of
from penstock.protocol.due import Due, Moved, Span, cut, moved_batch, moved_in, spans
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_headers, encode_batch, iterate_records, unpack_records
from penstock.protocol.varint import decode_varint, encode_varint

NOW_MS = 1_700_000_000_000
LENGTHS = (0, 1, 60, 63, 64, 65, 130, 9_000)
"""Around those whose numbers take one byte, two, and three."""


def drawn(random: Random) -> list[Record]:
    def blob() -> bytes | None:
        return None if random.random() < 0.2 else bytes(random.choice(LENGTHS))

    def headers() -> list[tuple[str, bytes | None]]:
        count = random.choice((0, 0, 1, 2, 62, 63, 64))
        return [
            (random.choice(("h", DELAY_ID, "n" * 70)), random.choice((None, b"", b"one", b"x" * 64)))
            for _ in range(count)
        ]

    return [
        Record(0, NOW_MS + random.choice((0, 63, 64, 1 << 40)), blob(), blob(), headers())
        for _ in range(random.choice((1, 2, 70)))
    ]


def id_of(record: Record) -> int:
    ids = [value for name, value in record.headers if name == DELAY_ID and value is not None]
    return hash_of(ids[-1]) if ids else NO_ID


def test_records_are_moved_as_they_were_with_where_they_waited() -> None:
    for seed in range(20):
        random = Random(seed)
        records, first = drawn(random), random.choice((0, 99, 1 << 40))
        data = unpack_records(batch := encode_batch(records), 0, header := read_header(batch))
        found = [cut(data, span, at) for at, span in enumerate(spans(data, header.record_count), first)]
        moved = moved_batch(found, Compression.NONE, now_ms=NOW_MS)
        assert read_header(moved).attributes == DELAYED | LOG_APPEND_TIME
        read = list(iterate_records(moved, 0, read_header(moved)))
        assert [(it.key, it.value, it.headers) for it in read] == [
            (it.key, it.value, [*it.headers, (WAITED_AT, b"%d" % at)]) for at, it in enumerate(records, first)
        ], seed
        assert [(it.offset, it.timestamp_ms) for it in read] == [(at, NOW_MS) for at in range(len(records))]
        said = [Moved(at, id_of(it)) for at, it in enumerate(records, first)]
        assert [Moved(it.waited_at, it.id) for it in found] == list(moved_in(moved, read_header(moved))) == said


def plain_spans(data: bytes, count: int) -> list[Span]:
    found, at = [], 0
    for _ in range(count):
        length, at = decode_varint(data, at)
        if length <= 0 or at + length > len(data):
            raise DecodeError("it does not fit")
        found.append((at, at + length))
        at += length
    if at != len(data):
        raise DecodeError("something is left")
    return found


def plain_cut(data: bytes, span: Span, waited_at: int) -> Due:
    begin, end = span
    at = begin + 1
    for _ in range(2):  # two numbers, of which nobody asks how long they are
        at += next(more for more in range(len(data)) if data[at + more] < 0x80) + 1
    key_at = at
    for _ in range(2):
        length, at = decode_varint(data, at)
        at += max(length, 0)
    count, headers_at = decode_varint(data, at)
    found = NO_ID
    if DELAY_ID.encode() in data[headers_at:end]:
        headers, _ = decode_headers(data, headers_at, end, count)
        found = id_of(Record(0, 0, None, None, headers))
    if headers_at > end:
        raise DecodeError("it ends before")
    waited = b"%d" % waited_at
    name = encode_varint(len(WAITED_AT)) + WAITED_AT.encode() + encode_varint(len(waited)) + waited
    return Due(waited_at, data[key_at:at] + encode_varint(count + 1) + data[headers_at:end] + name, found)


def came_of(made: Callable[..., Any], *given: object) -> object:
    try:
        return made(*given)
    except (DecodeError, IndexError, UnicodeDecodeError):
        return DecodeError


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_are_bent_or_cut_are_read_as_plainly_or_told_as_such(seed: int) -> None:
    """Who delivers tries again, and says why; anything else would end the delivery."""
    random = Random(seed)
    headers: list[tuple[str, bytes | None]] = [("h", b"x"), (DELAY_ID, b"one"), (DELAY_ID, None), ("i", b"")]
    key, value = (bytes(random.choice((1, 63, 64))) for _ in range(2))
    batch = encode_batch(
        [Record(0, NOW_MS, key, value, headers[:seed]), Record(0, NOW_MS + 64, b"l", None, headers[seed:])]
    )
    data = unpack_records(batch, 0, read_header(batch))
    bent = [data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :] for at in range(len(data)) for bit in range(8)]
    bent += [data[:at] + b"\x7f" + data[at + 1 :] for at in range(len(data))]
    cuts = 0
    for one in [data, *bent, *(data[:end] for end in range(len(data))), data + b"\0"]:
        found = came_of(spans, one, 2)
        assert found == came_of(plain_spans, one, 2), one
        with suppress(DecodeError):
            for span in spans(one, 2):
                is_read = came_of(cut, one, span, 7)
                assert is_read == came_of(plain_cut, one, span, 7), (one, span)
                cuts += is_read is not DecodeError
    assert cuts > len(data)


@pytest.mark.parametrize("size", [63, 64, 8_191, 8_192, 8_193, 8_255, 8_256])
def test_a_record_of_any_length_begins_behind_its_length(size: int) -> None:
    """At some of these another byte is needed for the number."""
    for behind in (0, 1):
        value = bytes(size - (5 if size < 71 else 6 if size < 8_199 else 7))
        batch = encode_batch([Record(0, NOW_MS, None, value)] + [Record(0, NOW_MS, b"k", b"v")] * behind)
        data = unpack_records(batch, 0, read_header(batch))
        found = spans(data, 1 + behind)
        assert found == plain_spans(data, 1 + behind)
        assert abs(found[0][1] - found[0][0] - size) <= 1


DIGITS: list[tuple[str, bytes | None]] = [(WAITED_AT, b"1"), ("2" * 24, b"3" * 24)]
"""The bytes behind the first value are digits, those that say how long the second header is as well."""


@pytest.mark.parametrize(
    "headers",
    [
        *([], [("h", b"1")], [(WAITED_AT, b"")], [(WAITED_AT, None)], [(WAITED_AT, b"x1")]),
        *(DIGITS, [DIGITS[0], ("h", b"1")]),
    ],
)
def test_a_record_that_does_not_say_where_it_waited_is_told_as_such(headers: list[tuple[str, bytes | None]]) -> None:
    batch = encode_batch([Record(0, NOW_MS, b"k", b"1", headers)])
    with pytest.raises(DecodeError, match="offset 0 does not say where it waited"):
        list(moved_in(batch, read_header(batch)))
    told = encode_batch([Record(0, NOW_MS, b"k", b"1", [*headers, (WAITED_AT, b"42")])])
    assert list(moved_in(told, read_header(told))) == [Moved(42, NO_ID)]
