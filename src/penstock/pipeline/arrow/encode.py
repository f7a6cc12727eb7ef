"""From Arrow columns to record batches as they go over the wire, one list of batches per partition.

A worker that Spark has just begun writes few rows sooner in plain Python than it has loaded compiled code.
"""

import sys
from types import ModuleType
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.client.blocking.produce import ProducerIdentity
from penstock.pipeline.arrow import encode_plain
from penstock.pipeline.arrow.record_spans import Integers
from penstock.pipeline.arrow.write_columns import EncodedRecords, partition_numbers, write_columns
from penstock.pipeline.errors import PipelineError
from penstock.protocol.batch import HEADER, HEADER_SIZE, LENGTH_END, MAGIC, TRANSACTIONAL, write_crc
from penstock.protocol.compression import Compression, compress
from penstock.protocol.value import Value

UNKNOWN_EPOCH = -1
COMPILED: Final = "penstock.pipeline.arrow.encode_compiled"
MOST_PLAIN_ROWS: Final = 4_000
"""In 20 to 40 ms; loading the compiled code takes 500."""


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
    encoder = encoder_for(batch.num_rows)
    columns = write_columns(batch, now_ms)
    partitions = partition_numbers(batch)
    if len(partitions) and int(partitions.max()) >= partition_count:
        raise PipelineError(
            f"Column partition is {partitions.max()} in some row, but the topic's partitions end at "
            f"{partition_count - 1}. Without that column the key decides."
        )
    encoder.fill_partitions(columns.key, partition_count, without_key, partitions)
    return {
        partition: list(encoder.encode_records(columns, rows, settings.max_bytes))
        for partition, rows in _rows_by_partition(partitions).items()
    }


def encoder_for(rows: int) -> ModuleType:
    """Compiled where that is there already, or there is much to do."""
    if rows > MOST_PLAIN_ROWS or COMPILED in sys.modules:
        import penstock.pipeline.arrow.encode_compiled as compiled

        return compiled
    return encode_plain


def _rows_by_partition(partitions: Integers) -> dict[int, Integers]:
    order = np.argsort(partitions, kind="stable")
    numbers, begins = np.unique(partitions[order], return_index=True)
    ends = [*begins[1:].tolist(), len(order)]
    return {
        int(number): order[begin:end]
        for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=True)
    }


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
            settings.compression | TRANSACTIONAL * (identity.transactional_id is not None),
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
