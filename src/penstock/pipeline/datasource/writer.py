"""Writes, in batches and streams: columns to record batches, record batches to the leaders of their partitions.

At least once, unless `exactly_once.py` has the rows written in a transaction: a task that fails may have written some
of its records, and Spark runs it again. Within a task nothing is written twice, as the producer is idempotent. Producer
ids are kept for the life of a worker process: brokers remember each for a day, and a stream runs several tasks a
second.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.blocking.produce import BlockingProducer, ProducerIdentity, new_identity
from penstock.client.blocking.transactions import TransactionCoordinators
from penstock.client.settings import wall_clock_ms
from penstock.pipeline.arrow.encode import EncodeSettings, batches_by_partition, seal
from penstock.pipeline.arrow.write_columns import EncodedRecords
from penstock.pipeline.datasource.cluster_cache import borrowed_cluster
from penstock.pipeline.errors import PipelineError, plain_errors
from penstock.pipeline.options.sink import SinkOptions

CHUNK_BYTES = 4 << 20
WRITTEN = "written"

_identities: dict[tuple[int, ClusterSettings], ProducerIdentity] = {}
_checked: set[tuple[int, ClusterSettings, str | None]] = set()
"""Topics that were there when this process looked."""


@dataclass
class WrittenRecords(WriterCommitMessage):
    count: int


class PenstockWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Of batches and of streams: Spark 4.0 hands Arrow to the former class alone, and the latter is a stream's."""

    def __init__(self, sink: SinkOptions) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._sink, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 - Spark's name
        """Nothing is left to do: the records are stored."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 - Spark's name
        """Nothing can be undone: the records stay."""


def check_topic(sink: SinkOptions) -> None:
    """On the driver, before anything runs: the topic exists, or the cluster creates it now.

    Once in a process: Spark asks before each micro-batch, and again before it commits one. A topic that goes later is
    missed by the task that writes.
    """
    key = (os.getpid(), sink.settings, sink.topic)
    if sink.topic is not None and key not in _checked:
        with borrowed_cluster(sink.settings) as cluster:
            cluster.partitions_of([sink.topic], may_create=True)
        _checked.add(key)


def write_rows(sink: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRecords:
    """Returns when all records are stored."""
    chunks = in_chunks(batches)
    first = next(chunks, None)
    if first is None:
        return WrittenRecords(0)
    with plain_errors(), borrowed_cluster(sink.settings) as cluster:
        key = (os.getpid(), sink.settings)
        identity = _identities.pop(key, None) if sink.is_idempotent else ProducerIdentity()
        if identity is None:
            identity = new_identity(cluster)
        with closing(RowWriter(cluster, sink, identity)) as writer:
            count = sum(writer.write(chunk) for chunk in chain([first], chunks))
            writer.flush()
        if sink.is_idempotent:
            _identities[key] = identity
        return WrittenRecords(count)


def writing(sink: SinkOptions) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: of each row that is stored comes one with the column `WRITTEN`, which is null."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = write_rows(sink, batches).count
        if count:
            yield pa.RecordBatch.from_arrays([pa.nulls(count, pa.bool_())], [WRITTEN])

    return write


def in_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins Spark's small batches, so that batches of a partition are large."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


class RowWriter:
    """Encodes and sends chunks of rows; rows without a key go to the partitions in turn."""

    def __init__(self, cluster: BlockingCluster, sink: SinkOptions, identity: ProducerIdentity) -> None:
        self._cluster, self._sink, self._identity = cluster, sink, identity
        self._coordinators = TransactionCoordinators(cluster)
        self._producer = BlockingProducer(
            cluster,
            acks=sink.acks,
            delivery_timeout_ms=sink.delivery_timeout_ms,
            transactional_id=identity.transactional_id,
        )
        self._settings = EncodeSettings(sink.compression, sink.batch_bytes)
        self._turn = random.randrange(1 << 16)
        self._partition_counts: dict[str, int] = {}

    def write(self, chunk: pa.RecordBatch) -> int:
        """Returns the number of rows."""
        encoded: dict[tuple[str, int], list[EncodedRecords]] = {}
        now_ms = wall_clock_ms()
        for topic, rows in self._by_topic(chunk):
            count = self._partition_count(topic)
            self._turn += 1
            by_partition = batches_by_partition(rows, count, self._turn % count, self._settings, now_ms=now_ms)
            for partition, parts in by_partition.items():
                encoded[topic, partition] = parts
        if self._identity.transactional_id is not None:
            self._coordinators.add(self._identity, encoded)
        for turn in range(max(map(len, encoded.values()), default=0)):
            self._producer.send(
                {
                    partition: seal(
                        parts[turn],
                        self._settings,
                        identity=self._identity,
                        sequence=self._identity.take_sequences(partition, parts[turn].count),
                    )
                    for partition, parts in encoded.items()
                    if turn < len(parts)
                }
            )
        return int(chunk.num_rows)

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()

    def _by_topic(self, chunk: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._sink.topic is not None:
            yield self._sink.topic, chunk
            return
        topics = chunk.column("topic")
        if topics.null_count:
            raise PipelineError("Column topic is null in some rows; set the option topic to write all to one topic.")
        for topic in pc.unique(topics).to_pylist():
            yield topic, chunk.filter(pc.equal(topics, topic))

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            self._partition_counts[topic] = len(self._cluster.partitions_of([topic], may_create=True)[topic])
        return self._partition_counts[topic]
