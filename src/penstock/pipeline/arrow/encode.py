"""From Arrow columns to record batches as they go over the wire, one list of batches per partition."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.client.blocking.produce import ProducerIdentity
from penstock.pipeline.arrow import encode_kernels as kernels
from penstock.pipeline.arrow.compiled import Integers, Offsets, read_only_bytes
from penstock.pipeline.arrow.write_columns import EncodedRecords, WriteColumns, partition_numbers, write_columns
from penstock.pipeline.errors import PipelineError
from penstock.protocol.batch import HEADER, HEADER_SIZE, LENGTH_END, MAGIC, write_crc
from penstock.protocol.compression import Compression, compress
from penstock.protocol.value import Value

UNKNOWN_EPOCH = -1


class EncodeSettings(Value):
    """`max_bytes` bounds the records of one batch before compression."""

    compression: Compression
    max_bytes: int


def batches_by_partition(
    batch: pa.RecordBatch, partition_count: int, without_key: int, settings: EncodeSettings, *, now_ms: int
) -> dict[int, list[EncodedRecords]]:
    """The rows of one topic, encoded for each partition in the order of the rows.

    A row goes to the partition that it names, else to that of its key (murmur2, as Java clients choose), else to
    `without_key`. PipelineError for a partition that the topic does not have.
    """
    columns = write_columns(batch, now_ms)
    partitions = partition_numbers(batch)
    if len(partitions) and int(partitions.max()) >= partition_count:
        raise PipelineError(
            f"Column partition is {partitions.max()} in some row, but the topic's partitions end at "
            f"{partition_count - 1}. Without that column the key decides."
        )
    kernels.partitions_of_keys(_column(columns.key), partition_count, without_key, partitions)
    return {
        partition: list(encode_records(columns, rows, settings.max_bytes))
        for partition, rows in _rows_by_partition(partitions).items()
    }


def _rows_by_partition(partitions: Integers) -> dict[int, Integers]:
    order = np.argsort(partitions, kind="stable")
    numbers, begins = np.unique(partitions[order], return_index=True)
    ends = [*begins[1:].tolist(), len(order)]
    return {
        int(number): order[begin:end]
        for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=True)
    }


def encode_records(columns: WriteColumns, rows: Integers, max_bytes: int) -> Iterator[EncodedRecords]:
    """The records of the given rows, cut so that no part passes `max_bytes` unless it is a single record."""
    lists = _offsets(columns.header_lists.buffers()[1], len(columns.value))
    headers = _column(columns.header_keys), _column(columns.header_values)
    given = _column(columns.key), _column(columns.value), lists, *headers
    times, first = columns.timestamps_ms, 0
    while first < len(rows):
        end, size = kernels.plan_batch(rows, times, first, max_bytes, given)
        records = np.empty(int(size), np.uint8)
        written = kernels.write_records(records, rows, times, first, end, given)
        assert written == size
        of_part = times[rows[first:end]]
        yield EncodedRecords(records.data, int(end) - first, int(of_part[0]), int(of_part.max()))
        first = int(end)


def _column(array: pa.Array) -> kernels.Column:
    _, offsets, data = array.buffers()
    present = np.ones(len(array), np.bool_) if array.null_count == 0 else np.asarray(array.is_valid())
    return read_only_bytes(data or b""), _offsets(offsets, len(array), array.offset), present


def _offsets(buffer: pa.Buffer | None, count: int, begin: int = 0) -> Offsets:
    if buffer is None or not buffer.size:
        offsets = np.zeros(count + 1, np.int32)
    else:
        offsets = np.frombuffer(buffer, np.int32)[begin : begin + count + 1]
    offsets.flags.writeable = False
    return offsets


def seal(encoded: EncodedRecords, settings: EncodeSettings, *, identity: ProducerIdentity, sequence: int) -> bytearray:
    """A whole batch, ready to be sent: header, records (compressed if so set), checksum."""
    records = encoded.records
    if settings.compression != Compression.NONE:
        records = memoryview(compress(settings.compression, records))
    size = HEADER_SIZE + records.nbytes
    batch = bytearray(
        HEADER.pack(
            0,
            size - LENGTH_END,
            UNKNOWN_EPOCH,
            MAGIC,
            0,
            settings.compression,
            encoded.count - 1,
            encoded.base_timestamp_ms,
            encoded.max_timestamp_ms,
            identity.producer_id,
            identity.epoch,
            sequence,
            encoded.count,
        )
    )
    batch += records
    write_crc(batch, 0, size)
    return batch
