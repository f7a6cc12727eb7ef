"""What a task does: fetch offset ranges from their leaders and turn them into Arrow, the next fetch already on its way.

States of a range: asked (a request is on its way), answered (its records are being decoded, the next request is on its
way), done. A failure that may pass (a leader that moved, a broken connection) leads back to asked, at the offset that
is due.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.client.blocking import (
    BlockingCluster,
    Pauses,
    UnknownTopicError,
    may_succeed_later,
    now_ms,
)
from penstock.client.blocking.connection import BlockingConnection
from penstock.client.blocking.fetch import FetchedRecords, receive_fetch, send_fetch
from penstock.client.blocking.offsets import list_offsets
from penstock.client.values import EARLIEST
from penstock.pipeline.arrow.decode import decode
from penstock.pipeline.arrow.record_spans import AbortedFilter, LocatedBatch, whole_batches
from penstock.pipeline.datasource.cluster_cache import borrowed_cluster
from penstock.pipeline.datasource.cluster_offsets import report_loss
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.shared_fetches import SharedFetches
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.source import SourceOptions
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

FETCH_WAIT_MS = 500
OF_ANOTHER_TOPIC = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
"""The topic was created again since the range was planned, or the broker has not heard of it yet."""


def read_ranges(source: SourceOptions, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """The ranges in order, as Arrow record batches of about 4 MB."""
    with borrowed_cluster(source.settings) as cluster:
        yield from read_ranges_from(cluster, source, ranges)


def read_ranges_from(
    cluster: BlockingCluster, source: SourceOptions, ranges: Iterable[OffsetRange]
) -> Iterator[pa.RecordBatch]:
    for wanted in ranges:
        yield from _read_range(cluster, source, wanted)


def _read_range(cluster: BlockingCluster, source: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    for fetched, batches in RangeFetcher(cluster, source, wanted):
        yield from decode(
            fetched.records,
            batches,
            wanted.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            aborted=AbortedFilter(fetched.aborted),
            include_headers=source.include_headers,
        )


class RangeFetcher:
    """Iterates over what the fetches brought: whole batches that cover the range, and perhaps a little more."""

    def __init__(self, cluster: BlockingCluster, source: SourceOptions, wanted: OffsetRange) -> None:
        self._cluster, self._source, self._wanted = cluster, source, wanted
        self._partition = wanted.key
        self._position = wanted.start
        self._connection: BlockingConnection | None = None
        self._deadline_ms = 0
        self._pauses = Pauses()
        self._shared: SharedFetches | None = None
        if source.shared_fetches is not None and wanted.topic_id is not None:
            self._shared = SharedFetches(
                Path(source.shared_fetches), wanted.topic_id, wanted.partition, source.isolation
            )

    def __iter__(self) -> Iterator[tuple[FetchedRecords, list[LocatedBatch]]]:
        self._made_progress()
        while self._position < self._wanted.end:
            try:
                shared = self._shared
                fetched = self._fetch() if shared is None else shared.fetched(self._position, self._fetch)
                batches = self._accept(fetched)
            except (OSError, KafkaError) as error:
                self._recover(error)
                continue
            if batches:
                yield fetched, batches

    def _fetch(self) -> FetchedRecords:
        if self._connection is None:
            self._ask()
        assert self._connection is not None
        fetched = receive_fetch(self._connection)
        self._connection = None
        return fetched

    def _ask(self) -> None:
        connection = self._cluster.connection(self._cluster.leader_of(*self._partition))
        send_fetch(
            connection,
            *self._partition,
            self._position,
            max_bytes=self._source.fetch_bytes,
            max_wait_ms=FETCH_WAIT_MS,
            isolation=self._source.isolation,
            topic_id=self._wanted.topic_id,
        )
        self._connection = connection

    def _accept(self, fetched: FetchedRecords) -> list[LocatedBatch]:
        """Check an answer, go on behind it, and send the next request before this one is decoded."""
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._jump_over_lost()
            return []
        if fetched.error_code in OF_ANOTHER_TOPIC and self._is_created_again():
            self._jump(self._wanted.end)
            return []
        told = fetched.current_leader
        if told is not None and self._cluster.learn_leader(self._partition, told, fetched.node_endpoints):
            return []
        if fetched.error_code:
            raise KafkaError(
                fetched.error_code, f"reading partition {self._wanted.partition} of {self._wanted.topic!r}"
            )
        batches = list(whole_batches(fetched.records))
        if not batches:
            self._check_deadline(None)
            return []
        behind = batches[-1].header.last_offset + 1
        if behind <= self._position:
            raise DecodeError(f"asked for offset {self._position}, the broker sent what lies before it")
        self._position = behind
        self._made_progress()
        if self._position < self._wanted.end and self._shared is None:  # another may have asked for it already
            with suppress(OSError, KafkaError):  # this answer is good all the same; the next one tells what is wrong
                self._ask()
        return batches

    def _jump_over_lost(self) -> None:
        begin = list_offsets(self._cluster, {self._partition: EARLIEST})[self._partition].offset
        self._jump(min(begin, self._wanted.end) if begin > self._position else self._wanted.end)

    def _is_created_again(self) -> bool:
        """Whether the name stands for another topic now; KafkaError UNKNOWN_TOPIC_OR_PARTITION if for none."""
        self._cluster.partitions_of([self._wanted.topic])
        return self._cluster.topic_ids.get(self._wanted.topic) != self._wanted.topic_id

    def _jump(self, end: int) -> None:
        """Go on at `end`, if data may be lost."""
        report_loss(self._source, f"{self._wanted.replace(start=self._position, end=end)} are gone")
        self._position = end

    def _made_progress(self) -> None:
        self._deadline_ms = now_ms() + self._source.poll_timeout_ms
        self._pauses = Pauses()

    def _recover(self, error: OSError | KafkaError) -> None:
        if isinstance(error, UnknownTopicError):
            self._jump(self._wanted.end)
            return
        if isinstance(error, KafkaError) and not may_succeed_later(error):
            raise error
        self._check_deadline(error)
        self._connection = None
        self._cluster.forget_everything()
        self._pauses.take()

    def _check_deadline(self, error: Exception | None) -> None:
        if now_ms() > self._deadline_ms:
            raise PipelineError(
                f"No records came from partition {self._wanted.partition} of topic {self._wanted.topic!r} at offset "
                f"{self._position} within {self._source.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs)."
            ) from error
