"""Records and batches as Hypothesis draws them, for the tests of the Arrow codec."""

from dataclasses import dataclass

from hypothesis import strategies as st

from penstock.protocol.compression import Compression
from penstock.protocol.records import Record, encode_batch

blobs = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
timestamps_ms = st.integers(0, 1 << 42) | st.sampled_from([-1, 0, 1 << 62])


@dataclass(frozen=True)
class DrawnBatch:
    """A batch as bytes, and the records that it holds."""

    data: bytes
    records: list[Record]
    is_control: bool


@st.composite
def drawn_batches(draw: st.DrawFn) -> list[DrawnBatch]:
    """Some batches that follow each other in a log, with gaps between them as compaction leaves them."""
    offset = draw(st.integers(0, 1 << 40))
    batches: list[DrawnBatch] = []
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.integers(0, 3))
        count = draw(st.integers(1, 8))
        records = [
            Record(offset + index, draw(timestamps_ms), draw(blobs), draw(blobs), draw(headers))
            for index in range(count)
        ]
        is_control = draw(st.sampled_from([False, False, False, True]))
        append_time_ms = draw(st.none() | st.integers(0, 1 << 42))
        data = encode_batch(
            records,
            base_offset=offset,
            compression=draw(st.sampled_from(list(Compression))),
            is_control=is_control,
            log_append_time_ms=append_time_ms,
        )
        if append_time_ms is not None:
            for record in records:
                record.timestamp_ms = append_time_ms
        batches.append(DrawnBatch(bytes(data), records, is_control))
        offset += count
    return batches
