"""Both encoders, compiled and in Python, write the bytes that the protocol's own does, and everybody reads them."""

from types import ModuleType

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.property.pipeline.record_strategies import blobs, headers

from penstock.client.blocking.produce import ProducerIdentity
from penstock.pipeline.arrow import encode_compiled, encode_plain
from penstock.pipeline.arrow.encode import EncodeSettings, batches_by_partition, seal
from penstock.pipeline.arrow.read_columns import HEADERS_TYPE
from penstock.pipeline.arrow.write_columns import write_columns
from penstock.protocol.batch import HEADER_SIZE
from penstock.protocol.compression import Compression
from penstock.protocol.hashing import partition_for_key
from penstock.protocol.records import Record, decode_batch, encode_batch

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None]
NOW_MS = 5
times_ms = st.none() | st.integers(0, 1 << 42)
rows_of_a_frame = st.lists(st.tuples(blobs, blobs, st.none() | headers, times_ms), min_size=1, max_size=30)


def frame(rows: list[Row], begin: int = 0) -> pa.RecordBatch:
    """A batch as Spark hands it over; a slice when `begin` is set."""
    lists = [None if row[2] is None else [{"key": key, "value": value} for key, value in row[2]] for row in rows]
    columns = [
        pa.array([row[0] for row in rows], pa.binary()),
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array(lists, HEADERS_TYPE),
        pa.array([None if row[3] is None else row[3] * 1000 + 999 for row in rows], pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, ["key", "value", "headers", "timestamp"]).slice(begin)


@given(st.sampled_from([encode_compiled, encode_plain]), rows_of_a_frame, st.integers(0, 10), st.integers(50, 2000))
def test_records_are_those_that_the_protocol_writes(
    encoder: ModuleType, rows: list[Row], begin: int, max_bytes: int
) -> None:
    columns = write_columns(frame(rows, min(begin, len(rows) - 1)), NOW_MS)
    records = [
        Record(0, NOW_MS if time_ms is None else time_ms, key, value, row_headers or [])
        for key, value, row_headers, time_ms in reversed(rows[min(begin, len(rows) - 1) :])
    ]
    order = np.arange(len(columns.value), dtype=np.int64)[::-1].copy()
    for part in encoder.encode_records(columns, order, max_bytes):
        of_part = records[: part.count]
        plain = encode_batch(of_part)
        assert part.records == plain[HEADER_SIZE:]
        assert part.base_timestamp_ms == of_part[0].timestamp_ms
        assert part.max_timestamp_ms == max(record.timestamp_ms for record in of_part)
        assert part.count == 1 or part.records.nbytes <= max_bytes
        records = records[part.count :]
        if records:
            assert len(encode_batch([*of_part, records[0]])) - HEADER_SIZE > max_bytes
    assert not records


@given(st.lists(st.tuples(blobs, st.integers(-1, 6)), max_size=30), st.integers(7, 9), st.integers(0, 2))
def test_both_choose_the_same_partitions(rows: list[tuple[bytes | None, int]], count: int, begin: int) -> None:
    keys = pa.array([key for key, _ in rows], pa.binary()).slice(begin)
    chosen = [np.array([given for _, given in rows[begin:]], np.int64) for _ in range(2)]
    for encoder, partitions in zip((encode_compiled, encode_plain), chosen, strict=True):
        encoder.fill_partitions(keys, count, 5, partitions)
    assert chosen[0].tolist() == chosen[1].tolist()


@given(rows_of_a_frame, st.integers(1, 7), st.sampled_from(list(Compression)))
def test_every_row_arrives_once_in_its_partition(rows: list[Row], partitions: int, compression: Compression) -> None:
    how = EncodeSettings(compression, max_bytes=500)
    without_key = partitions - 1
    encoded = batches_by_partition(frame(rows), partitions, without_key, how, now_ms=NOW_MS)
    arrived: dict[int, list[Row]] = {}
    for partition, parts in encoded.items():
        for part in parts:
            batch = seal(part, how, identity=ProducerIdentity(7, 1), sequence=3)
            arrived.setdefault(partition, []).extend(
                (record.key, record.value, record.headers, record.timestamp_ms) for record in decode_batch(batch)
            )
    expected: dict[int, list[Row]] = {}
    for key, value, row_headers, time_ms in rows:
        partition = without_key if key is None else partition_for_key(key, partitions)
        expected.setdefault(partition, []).append(
            (key, value, row_headers or [], NOW_MS if time_ms is None else time_ms)
        )
    assert arrived == expected
