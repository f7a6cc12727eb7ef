"""How many bytes an offset stands for: what turns a limit in bytes into offsets, learned from a small sample.

Bytes are those on the wire, so compressed where the records are.
"""

import time

from penstock.client.blocking import BlockingCluster, TopicPartition, UnknownTopicError
from penstock.client.blocking.fetch import receive_fetch, send_fetch
from penstock.pipeline.arrow.record_spans import whole_batches
from penstock.pipeline.datasource.offset_ranges import Offsets, lag, take_fraction
from penstock.pipeline.options.source import SourceOptions

SAMPLE_BYTES = 64 << 10
SAMPLE_WAIT_MS = 100
SAMPLE_LIFE_MS = 30_000
LARGEST_RECORD_BYTES = 1 << 20
"""Kafka's default limit: at least so many records of this size fit, and no sample is needed."""
UNKNOWN_BYTES = 1_000.0


class RecordSizes:
    """Samples of partitions, each kept for a while."""

    def __init__(self, source: SourceOptions) -> None:
        self._source = source
        self._samples: dict[TopicPartition, tuple[int, float]] = {}

    def limit(self, cluster: BlockingCluster, start: Offsets, latest: Offsets, max_bytes: int) -> Offsets:
        """As far towards `latest` as about so many bytes go; at least one offset in each partition that has any."""
        if lag(start, latest) * LARGEST_RECORD_BYTES <= max_bytes:
            return latest
        waiting = {
            partition: (end - start[partition]) * self._bytes_per_offset(cluster, partition, start[partition])
            for partition, end in latest.items()
            if end > start[partition]
        }
        total = sum(waiting.values())
        return latest if total <= max_bytes else take_fraction(start, latest, max_bytes / total)

    def _bytes_per_offset(self, cluster: BlockingCluster, partition: TopicPartition, offset: int) -> float:
        now_ms = time.monotonic_ns() // 1_000_000
        taken_ms, size = self._samples.get(partition, (-SAMPLE_LIFE_MS, UNKNOWN_BYTES))
        if now_ms - taken_ms >= SAMPLE_LIFE_MS:
            try:
                size = cluster.retried(lambda: self._sample(cluster, partition, offset))
            except UnknownTopicError:  # deleted since it was listed: the planner of the batch finds out
                return UNKNOWN_BYTES
            self._samples[partition] = (now_ms, size)
        return size

    def _sample(self, cluster: BlockingCluster, partition: TopicPartition, offset: int) -> float:
        connection = cluster.connection(cluster.leader_of(*partition))
        send_fetch(
            connection,
            *partition,
            offset,
            max_bytes=SAMPLE_BYTES,
            max_wait_ms=SAMPLE_WAIT_MS,
            isolation=self._source.isolation,
        )
        headers = [batch.header for batch in whole_batches(receive_fetch(connection).records)]
        if not headers:
            return UNKNOWN_BYTES
        size = sum(header.size_in_bytes for header in headers)
        return size / (headers[-1].last_offset + 1 - headers[0].base_offset)
