"""Compiled keys against plain ones: the same records stay, and the same nonsense is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.compaction.keys import Keys
from penstock.log.compaction.plain_keys import BYTES_PER_KEY, PlainKeys
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch

compiled_keys = pytest.importorskip("penstock.log.compaction.compiled_keys")

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"ab", b"x" * 7, b"y" * 8, b"z" * 40]), st.binary(max_size=20))
RECORDS = st.builds(
    Record,
    timestamp_ms=st.integers(-1, 1 << 45),
    key=KEYS,
    value=st.one_of(st.none(), st.binary(max_size=9)),
    headers=st.lists(st.tuples(st.just("h"), st.one_of(st.none(), st.just(b"v"))), max_size=2),
)
BATCHES = st.lists(st.lists(RECORDS, min_size=1, max_size=8), min_size=1, max_size=5)


def outcome(keys: Keys, data: bytes, header: BatchHeader, latest_offset: int, drops: bool) -> object:
    try:
        kept = keys.keep(data, header, latest_offset, drops)
        return (bytes(kept.data), *kept[1:])
    except DecodeError:
        return "refused"


@given(sent=BATCHES, first=st.integers(0, 10), latest=st.integers(-1, 40), drops=st.booleans(), keys=st.integers(1, 12))
@settings(deadline=None)
def test_both_leave_the_same(sent: list[list[Record]], first: int, latest: int, drops: bool, keys: int) -> None:
    plain = PlainKeys(keys * BYTES_PER_KEY, 1.0)
    compiled = compiled_keys.CompiledKeys((keys + 1) * compiled_keys.BYTES_PER_KEY, 1.0)
    assert plain.capacity == compiled.capacity
    batches, offset = [], 0
    for records in sent:
        batch = encode_batch(records, base_offset=offset)
        batches.append((bytes(batch[61:]), read_header(batch)))
        offset += len(records)
    for data, header in batches:
        assert plain.index(data, header, first) == compiled.index(data, header, first)
        assert len(plain) == len(compiled)
    for data, header in batches:
        assert outcome(plain, data, header, latest, drops) == outcome(compiled, data, header, latest, drops)


@given(records=st.lists(RECORDS, min_size=1, max_size=4), at=st.integers(0, 200), byte=st.integers(0, 255))
@settings(deadline=None)
def test_both_refuse_the_same(records: list[Record], at: int, byte: int) -> None:
    batch = encode_batch(records)
    header, data = read_header(batch), bytearray(batch[61:])
    data[at % len(data)] = byte
    pair = PlainKeys(100 * BYTES_PER_KEY, 1.0), compiled_keys.CompiledKeys(101 * compiled_keys.BYTES_PER_KEY, 1.0)
    plain, compiled = [outcome(keys, bytes(data), header, 100, False) for keys in pair]
    assert plain == compiled
