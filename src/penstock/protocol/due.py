"""Records that are due: cut out of the batch that held them, and joined to one that is delivered.

Nothing of a record is decoded but where its parts begin, unless it has an id: a million may be due in a second. Their
timestamps in the new batch are all the time of their delivery, as with LogAppendTime.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from penstock.protocol.batch import DELAYED, LOG_APPEND_TIME, BatchHeader
from penstock.protocol.compression import Compression
from penstock.protocol.delayed import DELAY_ID, MAX_UNPACKED_BYTES, NO_ID, WAITED_AT, hash_of
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import decode_headers, pack_records, unpack_records
from penstock.protocol.varint import decode_varint, encode_varint

_varint: Final = lru_cache(4_096)(encode_varint)
"""The same few are asked for again and again."""
Span = tuple[int, int]
"""Where a record begins, behind its length, and where it ends."""

_ID_NAME: Final = DELAY_ID.encode()
_WAITED_NAME: Final = encode_varint(len(WAITED_AT)) + WAITED_AT.encode()
_WAITED_BEFORE: Final = [_WAITED_NAME + encode_varint(digits) for digits in range(20)]
"""By how many digits the offset has that comes behind."""
_ONE_MORE: Final = [encode_varint(count + 1) for count in range(64)]


class Due(NamedTuple):
    """`body` is the record in its new batch from its key on, with the header that says where it waited."""

    waited_at: int
    body: bytes
    id: int


_due: Final[Callable[[tuple[int, bytes, int]], Due]] = partial(tuple.__new__, Due)
"""In half of the time."""


class Moved(NamedTuple):
    """A record that has waited is in the log."""

    waited_at: int
    id: int


def spans(data: bytes, count: int) -> list[Span]:
    """Of the records of a batch, unpacked. Raises DecodeError."""
    found: list[Span] = []
    at, size = 0, len(data)
    try:
        for _ in range(count):
            low, high = data[at], data[at + 1]
            if low > 0x7F and high <= 0x7F and not low & 1:  # as almost all have it
                length, at = low >> 1 & 0x3F | high << 6, at + 2
            else:
                length, at = decode_varint(data, at)
            end = at + length
            if not at < end <= size:
                raise DecodeError(f"a record of {length} bytes with {size - at} left")
            found.append((at, end))
            at = end
    except IndexError as error:
        raise DecodeError(f"a record at byte {at} of its batch: {error}") from error
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes are left behind the last record of a batch")
    return found


def cut(data: bytes, span: Span, waited_at: int) -> Due:
    """Raises DecodeError."""
    begin, end = span
    try:
        at = begin + 1  # behind the attributes
        while data[at] > 0x7F:  # the delta of the timestamp
            at += 1
        at += 1
        while data[at] > 0x7F:  # of the offset
            at += 1
        key_at = at + 1
        count_at = _behind_blob(data, _behind_blob(data, key_at))
        count = data[count_at]
        if count > 0x7F or count & 1:
            count, headers_at = decode_varint(data, count_at)
        else:
            count, headers_at = count >> 1, count_at + 1
        id_ = NO_ID if data.find(_ID_NAME, headers_at, end) < 0 else _id_in(data, headers_at, end, count)
    except (IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"a record at byte {begin} of its batch: {error}") from error
    if headers_at > end:
        raise DecodeError(f"a record ends at byte {end} of its batch, and its headers begin at {headers_at}")
    place = b"%d" % waited_at
    more = _ONE_MORE[count] if 0 <= count < len(_ONE_MORE) else encode_varint(count + 1)
    body = b"%b%b%b%b%b" % (data[key_at:count_at], more, data[headers_at:end], _WAITED_BEFORE[len(place)], place)
    return _due((waited_at, body, id_))


def _behind_blob(data: bytes, at: int) -> int:
    low = data[at]
    if low <= 0x7F:
        return at + 1 if low & 1 else at + 1 + (low >> 1)
    length, at = decode_varint(data, at)
    return at + length if length > 0 else at


def _id_in(data: bytes, at: int, end: int, count: int) -> int:
    headers, _ = decode_headers(data, at, end, count)
    ids = [value for name, value in headers if name == DELAY_ID and value is not None]
    return hash_of(ids[-1]) if ids else NO_ID


def moved_batch(records: Sequence[Due], compression: Compression, *, now_ms: int) -> bytearray:
    """The time of all is now: they are not older than that to retention, whenever they were produced."""
    parts: list[bytes] = []
    for delta, due in enumerate(records):
        place = _varint(delta)
        parts += (_varint(2 + len(place) + len(due.body)), b"\x00\x00", place, due.body)
    return pack_records(
        b"".join(parts),
        len(records),
        timestamps=(now_ms, now_ms),
        compression=compression,
        attributes=DELAYED | LOG_APPEND_TIME,
    )


def moved_in(buffer: bytes | bytearray | memoryview, header: BatchHeader) -> Iterator[Moved]:
    """What a batch without CONTROL and with DELAYED has moved. Raises DecodeError."""
    data = unpack_records(buffer, 0, header, max_bytes=MAX_UNPACKED_BYTES)
    for begin, end in spans(data, header.record_count):
        name_at = data.rfind(_WAITED_NAME, begin, end)
        length, place_at = decode_varint(data, name_at + len(_WAITED_NAME)) if name_at >= 0 else (0, 0)
        place = data[place_at:end]
        if not place.isdigit() or length != len(place):
            raise DecodeError(f"a record of the batch at offset {header.base_offset} does not say where it waited")
        has_id = data.find(_ID_NAME, begin, end) >= 0
        yield Moved(int(place), cut(data, (begin, end), 0).id if has_id else NO_ID)
