"""Where records lie in a batch, and what is refused: each number from both sides of its limit, in both ways to look."""

from collections.abc import Callable

import pytest

from penstock.log.compaction.keys import Keys
from penstock.log.compaction.places import Place, places
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.varint import encode_varint

compiled_keys = pytest.importorskip("penstock.log.compaction.compiled_keys")


def record(*, key: int = 1, value: int = 1, delta: int = 3, rest: bytes = b"\0", length: int = 0) -> bytes:
    """With a key and a value of one byte each, whatever is said of them."""
    head = b"\0" + encode_varint(7) + encode_varint(delta)
    body = head + encode_varint(key) + b"k" * (key > 0) + encode_varint(value) + b"v" * (value > 0) + rest
    return encode_varint(len(body) + length) + body


GOOD = {
    "a record": record(),
    "no headers at all": record(rest=b""),
    "no key": record(key=-1),
    "no value": record(value=-1),
    "an empty key and value": record(key=0, value=0),
    "the first of its batch": record(delta=0),
}
BAD = {
    "it ends before its value": record(value=2, rest=b""),
    "a key that is less than none": record(key=-2),
    "a value that is less than none": record(value=-2),
    "an offset before its batch": record(delta=-1),
    "it ends behind the batch": record(length=1),
    "it ends before its batch": record() + b"\0",
    "no length": b"\0",
    "less than no length": encode_varint(-1),
    "a length alone": b"\x02",
    "nothing": b"",
}


def header(count: int) -> BatchHeader:
    return read_header(encode_batch([Record()]))._replace(record_count=count)


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_a_record_that_makes_sense_has_a_place(data: bytes) -> None:
    (one,) = places(data, 1)
    assert (one.begin, one.end, one.timestamp_delta) == (0, len(data), 7)
    first, second = places(data * 2, 2)
    assert (first, second) == (one, Place(len(data), 2 * len(data), *one[2:4], one.key_begin + len(data), *one[5:]))
    assert list(places(b"", 0)) == []


@pytest.mark.parametrize("make_keys", [PlainKeys, compiled_keys.CompiledKeys])
@pytest.mark.parametrize(
    ("data", "is_good"), [*((it, True) for it in GOOD.values()), *((it, False) for it in BAD.values())]
)
def test_both_ways_take_the_same(make_keys: Callable[[int, float], Keys], data: bytes, *, is_good: bool) -> None:
    keys = make_keys(10_000, 1.0)
    if is_good:
        assert keys.index(data, header(1), 0)
        assert keys.keep(data, header(1), -1, False).records == 1
        return
    with pytest.raises(DecodeError):
        keys.index(data, header(1), 0)
    with pytest.raises(DecodeError):
        keys.keep(data, header(1), -1, False)


@pytest.mark.parametrize("make_keys", [PlainKeys, compiled_keys.CompiledKeys])
def test_there_is_room_for_one_key_however_small_the_buffer(make_keys: Callable[[int, float], Keys]) -> None:
    assert make_keys(0, 0.5).capacity == 1
