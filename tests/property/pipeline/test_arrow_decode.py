"""The compiled decoder and the plain one agree on every input, also on which inputs they refuse."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.pipeline import plain_decoder
from tests.property.pipeline.record_strategies import DrawnBatch, drawn_batches

from penstock.pipeline.arrow.decode import decode, decode_chunk
from penstock.pipeline.arrow.read_columns import DecodedRecords
from penstock.pipeline.arrow.record_spans import AbortedFilter, Chunk, chunks, whole_batches
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record

LARGEST_MILLISECONDS = 9_223_372_036_854_775
ALL = (0, 1 << 62)


def joined(batches: list[DrawnBatch]) -> memoryview:
    return memoryview(b"".join(batch.data for batch in batches))


def visible(batches: list[DrawnBatch], first_offset: int, end_offset: int) -> list[Record]:
    records = [record for batch in batches if not batch.is_control for record in batch.records]
    return [record for record in records if first_offset <= record.offset < end_offset]


def microseconds(timestamp_ms: int) -> int:
    return min(max(timestamp_ms, -LARGEST_MILLISECONDS), LARGEST_MILLISECONDS) * 1000


@given(drawn_batches(), st.integers(-2, 30), st.integers(0, 30))
def test_what_was_written_is_read_and_trimmed(batches: list[DrawnBatch], skipped: int, length: int) -> None:
    records = joined(batches)
    first = max(batches[0].records[0].offset + skipped, 0)
    decoded = decode(
        records,
        list(whole_batches(records)),
        "flights",
        3,
        first,
        first + length,
        aborted=AbortedFilter([]),
        include_headers=True,
    )
    rows = [row for batch in decoded for row in batch.drop_columns(["timestamp"]).to_pylist()]
    expected = visible(batches, first, first + length)
    assert [row["offset"] for row in rows] == [record.offset for record in expected]
    assert [row["key"] for row in rows] == [record.key for record in expected]
    assert [row["value"] for row in rows] == [record.value for record in expected]
    assert [row["headers"] and [(item["key"], item["value"]) for item in row["headers"]] for row in rows] == [
        record.headers or None for record in expected
    ]
    assert {(row["topic"], row["partition"]) for row in rows} <= {("flights", 3)}


@given(drawn_batches())
def test_both_decoders_agree_on_good_batches(batches: list[DrawnBatch]) -> None:
    records = joined(batches)
    timestamps: list[int] = []
    for chunk in chunks(records, list(whole_batches(records)), *ALL, AbortedFilter([])):
        compiled = decode_chunk(chunk, *ALL, True)
        assert same(compiled, plain_decoder.decode_chunk(chunk, *ALL, True))
        timestamps += compiled.timestamp.cast(pa.int64()).to_pylist()
    assert timestamps == [microseconds(record.timestamp_ms) for record in visible(batches, *ALL)]


@settings(max_examples=400)
@given(drawn_batches(), st.data())
def test_both_decoders_agree_on_damaged_records(batches: list[DrawnBatch], data: st.DataObject) -> None:
    records = joined(batches)
    for chunk in chunks(records, list(whole_batches(records)), *ALL, AbortedFilter([])):
        damaged = bytearray(chunk.buffer)
        for _ in range(data.draw(st.integers(1, 4))):
            begin, end = chunk.spans[data.draw(st.integers(0, len(chunk.spans) - 1)), :2].tolist()
            damaged[data.draw(st.integers(begin, end - 1))] = data.draw(
                st.integers(0, 255) | st.sampled_from([0x7F, 0x80, 0xFF])
            )
        spans = chunk.spans.copy()
        if data.draw(st.booleans()):
            spans[0, 7] += data.draw(st.sampled_from([-1, 1]))
        agree_or_refuse(Chunk(memoryview(bytes(damaged)), spans))


@settings(max_examples=300)
@given(st.binary(min_size=7, max_size=120), st.integers(1, 6))
def test_both_decoders_agree_on_noise(noise: bytes, count: int) -> None:
    spans = np.array([[0, len(noise), 10, 5, 1000, 2000, 0, count]], np.int64)
    agree_or_refuse(Chunk(memoryview(noise), spans))


def agree_or_refuse(chunk: Chunk) -> None:
    for include_headers in (False, True):
        outcomes: list[DecodedRecords | None] = []
        for decode_either in (decode_chunk, plain_decoder.decode_chunk):
            try:
                outcomes.append(decode_either(chunk, *ALL, include_headers))
            except DecodeError:
                outcomes.append(None)
        compiled, plain = outcomes
        assert (compiled is None) == (plain is None)
        if compiled is not None and plain is not None:
            assert same(compiled, plain)


def same(left: DecodedRecords, right: DecodedRecords) -> bool:
    names = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")
    return all(as_bytes(getattr(left, name)).equals(as_bytes(getattr(right, name))) for name in names)


def as_bytes(array: pa.Array | None) -> pa.Array:
    """Damaged header keys are not always text: compare them as the bytes that they are."""
    if array is None:
        return pa.array([], pa.null())
    if not pa.types.is_list(array.type):
        return array
    keys, values = array.flatten().flatten()
    return pa.StructArray.from_arrays(
        [pa.Array.from_buffers(pa.binary(), len(keys), keys.buffers()), values], ["key", "value"]
    )
