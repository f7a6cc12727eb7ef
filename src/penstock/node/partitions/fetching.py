"""What one fetch request reads: partition by partition, within the limits of bytes that it names.

The first partition that has records gives at least one whole batch, whatever the limits (so a reader always gets on);
behind it each partition gives what still fits. Records are not read here: a result names the slice of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from penstock.node.broker import Broker
from penstock.node.partitions.fetch_sessions import FetchPlan, Key, Wanted
from penstock.node.partitions.partition import Partition
from penstock.node.serving.outgoing import FilePart
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.fetch import FetchFrame, FetchPartitionResult, FetchTopicResult
from penstock.replication.waits import Waits

READ_COMMITTED = 1


@dataclass(slots=True)
class Reading:
    """The results of one pass over the partitions. `is_urgent`: there is an error or a divergence to tell at once."""

    results: list[tuple[Key, Wanted, FetchPartitionResult]] = field(default_factory=list)
    total_bytes: int = 0
    is_urgent: bool = False

    def topics(self, plan: FetchPlan) -> list[FetchTopicResult]:
        """The response's topics; in an incremental fetch only partitions with news. Notes what was told."""
        topics: dict[str | UUID, FetchTopicResult] = {}
        with_records: list[Key] = []
        for key, wanted, result in self.results:
            has_records = bool(result.records)
            if has_records:
                with_records.append(key)
            if plan.session is not None and not _is_news(wanted, result, has_records) and plan.is_incremental:
                continue
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopicResult(wanted.topic, wanted.topic_id)
            topic.partitions.append(result)
        if plan.session is not None and with_records:
            plan.session.to_the_back(with_records)
        return list(topics.values())


def _is_news(wanted: Wanted, result: FetchPartitionResult, has_records: bool) -> bool:
    news = (
        has_records
        or result.error_code != 0
        or result.diverging_epoch is not None
        or result.high_watermark != wanted.told_high_watermark
        or result.log_start_offset != wanted.told_log_start_offset
    )
    # An error is told again until it is gone.
    wanted.told_high_watermark = -1 if result.error_code else result.high_watermark
    wanted.told_log_start_offset = result.log_start_offset
    return news


class FetchReader:
    """Reads what a request asks for, as often as it is asked to."""

    __slots__ = (
        "_broker",
        "_isolation_level",
        "_max_bytes",
        "_plan",
        "_replica_epoch",
        "_replica_id",
        "_uses_topic_ids",
    )

    def __init__(self, broker: Broker, request: FetchFrame, plan: FetchPlan, *, uses_topic_ids: bool) -> None:
        self._broker = broker
        self._plan = plan
        self._uses_topic_ids = uses_topic_ids
        self._replica_id = request.replica_id
        self._replica_epoch = request.replica_epoch
        self._isolation_level = request.isolation_level
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)

    def partitions(self) -> Iterable[Partition]:
        """The partitions of the request that this node holds."""
        for wanted in self._plan.wanted.values():
            partition = wanted.partition or self._find(wanted)
            if partition is not None:
                yield partition

    def end_of(self, partition: Partition) -> tuple[Waits, int]:
        """Where who asks has to stop in a partition, and the waits for that to move."""
        if self._replica_id >= 0 and partition.leader is not None:
            return partition.leader.appended, partition.leader.log_end_offset
        return partition.committed.waits, partition.high_watermark

    def read(self) -> Reading:
        """Look at each partition once."""
        reading = Reading()
        left = self._max_bytes
        is_incremental = self._plan.is_incremental
        for key, wanted in self._plan.wanted.items():
            if is_incremental and wanted.is_quiet(self._replica_id):
                continue
            result = FetchPartitionResult(wanted.request.index)
            try:
                self._read(wanted, result, left, at_least_one_batch=reading.total_bytes == 0)
            except KafkaError as error:
                wanted.partition = wanted.leader = None
                result.error_code = error.code
                reading.is_urgent = True
            records = result.records
            if isinstance(records, FilePart):
                left -= records.length
                reading.total_bytes += records.length
            elif result.diverging_epoch is not None:
                reading.is_urgent = True
            reading.results.append((key, wanted, result))
        return reading

    def _find(self, wanted: Wanted) -> Partition | None:
        if self._uses_topic_ids:
            return self._broker.partitions.get_by_id(wanted.topic_id, wanted.request.index)
        return self._broker.partitions.get(wanted.topic, wanted.request.index)

    def _read(self, wanted: Wanted, result: FetchPartitionResult, left: int, *, at_least_one_batch: bool) -> None:
        request = wanted.request
        partition = self._find(wanted)
        if partition is None:
            partition = self._broker.partition(wanted.topic, request.index, wanted.topic_id)
        leader = partition.check_leader(request.current_leader_epoch)
        wanted.partition, wanted.leader = partition, leader
        log = partition.log
        diverging_epoch = None
        if request.last_fetched_epoch >= 0:
            diverging_epoch = _divergence(partition, request.last_fetched_epoch, request.fetch_offset)
        if diverging_epoch is None:
            if not log.log_start_offset <= request.fetch_offset <= log.log_end_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if self._replica_id >= 0:
                partition.on_fetched(self._replica_id, request.fetch_offset, self._replica_epoch, self._broker.now_ms())
            max_bytes, upper_offset = min(request.max_bytes, left), self._upper_offset(partition)
            if request.fetch_offset < upper_offset and (max_bytes > 0 or at_least_one_batch):
                records = log.read(
                    request.fetch_offset,
                    max_bytes,
                    upper_offset=upper_offset,
                    at_least_one_batch=at_least_one_batch,
                )
                if records.file is not None:
                    result.records = FilePart(records.file, records.position, records.length)
        result.diverging_epoch = diverging_epoch
        result.high_watermark = leader.high_watermark
        result.last_stable_offset = partition.last_stable_offset
        result.log_start_offset = log.log_start_offset
        if self._isolation_level == READ_COMMITTED:
            result.aborted_transactions = ()

    def _upper_offset(self, partition: Partition) -> int:
        """What who asks may read ends here."""
        if self._replica_id >= 0:
            return partition.log.log_end_offset
        return partition.last_stable_offset if self._isolation_level == READ_COMMITTED else partition.high_watermark


def _divergence(partition: Partition, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Where the reader's log left ours, as (epoch, end offset), or None when it is a prefix of ours (KIP-595)."""
    epoch, end_offset = partition.end_offset_for_epoch(last_fetched_epoch)
    if end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None
