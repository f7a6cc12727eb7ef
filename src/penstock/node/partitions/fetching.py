"""What one fetch request reads: partition by partition, within the limits of bytes that it names.

The first partition that has records gives at least one whole batch, whatever the limits (so a reader always gets on);
behind it each partition gives what still fits. Records are not read here: a result names the slice of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from penstock.node.broker import Broker
from penstock.node.partitions.current_leaders import current_leader
from penstock.node.partitions.fetch_sessions import FetchPlan, Key, Session, StandingWait, Wanted
from penstock.node.partitions.partition import Partition
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.outgoing import FilePart
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.fetch import (
    ENDPOINTS_FROM,
    RACKS_FROM,
    FetchFrame,
    FetchPartition,
    FetchPartitionResult,
    TopicResults,
)
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.quota import ReplicationQuota
from penstock.replication.read_replica import NO_REPLICA, RACK_AWARE, nearest_replica
from penstock.replication.waits import Wait, Waits

READ_COMMITTED = 1
LEADER_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH
"""Errors with which a client is told who leads (KIP-951)."""
SMALL_BYTES = 4096
"""Records up to this size are read into the response: a part of their own would cost more."""
MAX_SMALL_BYTES = 64 * 1024
"""What one response holds of them at most; behind that they are sent from the file as large ones are."""


class Reading:
    """The results of one pass over the partitions.

    `is_urgent`: there is an error, a divergence or a nearer replica to tell at once; or followers are to hear where the
    log begins, and how much is committed where they serve consumers.
    """

    __slots__ = (
        "_quota",
        "_throttled_bytes",
        "_throttled_ms",
        "_topics",
        "_with_records",
        "is_urgent",
        "left",
        "results",
        "total_bytes",
    )

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self.results: list[tuple[Wanted, FetchPartitionResult]] = []
        self.total_bytes = 0
        self.is_urgent = False
        self._topics: dict[str | UUID, list[FetchPartitionResult]] = {}
        self._with_records: list[Key] = []
        self._quota: ReplicationQuota | None = None

    def throttle(self, quota: ReplicationQuota, size_bytes: int, now_ms: int) -> None:
        """So many of the bytes count for a quota, if they are sent."""
        if self._quota is None:
            self._quota, self._throttled_bytes = quota, 0
        self._throttled_bytes += size_bytes
        self._throttled_ms = now_ms

    def topics(self, plan: FetchPlan) -> TopicResults:
        """What to answer; in an incremental fetch only partitions with news. Notes what was told."""
        self.tell(plan, self.results)
        return self.told(plan)

    def tell(self, plan: FetchPlan, results: Iterable[tuple[Wanted, FetchPartitionResult]]) -> None:
        """Put some of the results into the answer, and note that they are told."""
        topics = self._topics
        told: list[FetchPartitionResult] = []
        told_of: str | UUID | None = None
        for wanted, result in results:
            key = wanted.key
            if plan.session is not None:
                has_records = bool(result.records)
                if has_records:
                    self._with_records.append(key)
                if not _is_news(wanted, result, has_records) and plan.is_incremental:
                    continue
            if key[0] is not told_of:
                told_of = key[0]
                told = topics.setdefault(told_of, [])
            told.append(result)

    def told(self, plan: FetchPlan) -> TopicResults:
        """The answer, once all is told."""
        if plan.session is not None:
            plan.session.to_the_back(self._with_records)
        if self._quota is not None:
            self._quota.record(self._throttled_bytes, self._throttled_ms)
        return list(self._topics.items())


def read_small(topics: TopicResults) -> None:
    """Put small records in the place of the slices that name them.

    What cannot be read is left to the connection, which cannot send it either and is closed for that.
    """
    room = MAX_SMALL_BYTES
    for _, results in topics:
        for result in results:
            part = result.records
            if type(part) is FilePart and part.length <= SMALL_BYTES and part.length <= room:
                try:
                    records = part.file.read_at(part.length, part.position)
                except OSError:
                    continue
                if len(records) == part.length:
                    result.records = records
                    room -= part.length


def _is_news(wanted: Wanted, result: FetchPartitionResult, has_records: bool) -> bool:
    news = (
        has_records
        or result.error_code != 0
        or result.diverging_epoch is not None
        or result.preferred_replica != NO_REPLICA
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
        "_context",
        "_max_bytes",
        "_plan",
        "_rack",
        "_reads_committed",
        "_replica_id",
        "_request",
        "_tells_starts",
        "_tells_watermarks",
    )

    def __init__(self, broker: Broker, request: FetchFrame, plan: FetchPlan, context: RequestContext) -> None:
        config = broker.config
        selects, is_consumer = config.replica_selector_class == RACK_AWARE, request.replica_id < 0
        self._broker = broker
        self._context = context
        self._plan = plan
        self._request = request
        self._rack = request.rack_id if selects and is_consumer else ""
        self._tells_starts = not is_consumer and plan.is_incremental
        self._tells_watermarks = selects and self._tells_starts
        self._replica_id = request.replica_id
        self._reads_committed = request.isolation_level == READ_COMMITTED
        self._max_bytes = min(request.max_bytes, config.fetch_max_bytes)

    def wait(self, asked: Iterable[Wanted], woken: Callable[[], None]) -> list[tuple[Waits, Wait]]:
        """Let `woken` be called when one of the partitions has more than there is now, or another leader.

        The waits are the caller's to cancel.
        """
        found = []
        for wanted in asked:
            partition = wanted.partition or self._find(wanted)
            if partition is not None:
                waits, reached = self._end_of(partition)
                found.append((waits, waits.add(reached + 1, woken)))
                self._wait_for_watermark(partition, found, woken)
        return found

    def stand(self, session: Session, asked: Iterable[Wanted], woken: Callable[[], None]) -> list[tuple[Waits, Wait]]:
        """Note which partitions are quiet, and let all have a standing wait; the waits are the caller's to cancel."""
        found: list[tuple[Waits, Wait]] = []
        for wanted in asked:
            partition = wanted.partition or self._find(wanted)
            if partition is None:
                continue
            if wanted.standing is None and session.is_open and session.wanted.get(wanted.key) is wanted:
                waits, reached = self._end_of(partition)
                wanted.standing = StandingWait(session, wanted, waits, reached + 1)
            if self._is_quiet(wanted):
                session.marked.pop(wanted.key, None)
            else:
                session.mark(wanted)
                self._wait_for_watermark(partition, found, woken)
        return found

    def _wait_for_watermark(
        self, partition: Partition, found: list[tuple[Waits, Wait]], woken: Callable[[], None]
    ) -> None:
        if self._tells_watermarks:
            waits = partition.committed.waits
            found.append((waits, waits.add(partition.high_watermark + 1, woken)))

    def _is_quiet(self, wanted: Wanted) -> bool:
        """Whether there is nothing to tell of it; a replica nearer to a consumer may come in sync at any time."""
        return self._plan.is_incremental and not self._rack and wanted.is_quiet(self._replica_id)

    def _end_of(self, partition: Partition) -> tuple[Waits, int]:
        """Where who asks has to stop in a partition, and the waits for that to move."""
        if self._replica_id >= 0 and partition.leader is not None:
            return partition.leader.appended, partition.leader.log_end_offset
        return partition.committed.waits, partition.high_watermark

    def read(self) -> Reading:
        """Look at each partition once."""
        reading = self.start()
        self.go_on(reading, self._plan.wanted.values())
        return reading

    def start(self) -> Reading:
        """A pass that has looked at nothing yet."""
        return Reading(self._max_bytes)

    def go_on(self, reading: Reading, asked: Iterable[Wanted]) -> None:
        """Look at some more partitions."""
        for wanted in asked:
            if self._is_quiet(wanted):
                continue
            result = FetchPartitionResult(wanted.request.index)
            try:
                self._read(wanted, result, reading)
            except KafkaError as error:
                wanted.partition = wanted.role = None
                result.error_code = error.code
                if self._context.api_version >= ENDPOINTS_FROM and error.code in LEADER_MOVED:
                    result.current_leader = current_leader(self._broker.image, *wanted.key)
                reading.is_urgent = True
            reading.results.append((wanted, result))

    def _find(self, wanted: Wanted) -> Partition | None:
        topic, index = wanted.key
        if isinstance(topic, str):
            return self._broker.partitions.get(topic, index)
        return self._broker.partitions.get_by_id(topic, index)

    def _missing(self, wanted: Wanted) -> Partition:
        """One that is not in the table; KafkaError if it is not there at all."""
        topic, index = wanted.key
        if isinstance(topic, str):
            return self._broker.partition(topic, index)
        return self._broker.partition("", index, topic)

    def _read(self, wanted: Wanted, result: FetchPartitionResult, reading: Reading) -> None:
        request = wanted.request
        partition = self._find(wanted) or self._missing(wanted)
        wanted.role = self._check(partition, request.current_leader_epoch)
        wanted.partition = partition
        if self._rack:
            result.preferred_replica = self._nearest_replica(partition, request.fetch_offset)
        if result.preferred_replica != NO_REPLICA:
            reading.is_urgent = True
        else:
            self._read_log(partition, request, result, reading)
        result.high_watermark = partition.committed.high_watermark
        result.last_stable_offset = partition.committed.last_stable_offset
        result.log_start_offset = partition.log.log_start_offset
        result.lists_aborted = self._reads_committed
        if self._tells_watermarks and result.high_watermark > wanted.told_high_watermark:
            reading.is_urgent = True
        if self._tells_starts and result.log_start_offset > wanted.told_log_start_offset:
            reading.is_urgent = True

    def _check(self, partition: Partition, current_leader_epoch: int) -> PartitionLeader | PartitionFollower:
        if self._replica_id >= 0:
            return partition.check_follower(self._replica_id, current_leader_epoch)
        if self._context.api_version >= RACKS_FROM:
            return partition.check_replica(current_leader_epoch)
        return partition.check_leader(current_leader_epoch)

    def _nearest_replica(self, partition: Partition, offset: int) -> int:
        brokers = self._broker.image.brokers

        def is_near(replica: int) -> bool:
            broker = brokers.get(replica)
            return (
                broker is not None
                and broker.rack == self._rack
                and not broker.fenced
                and broker.endpoint(self._context.peer.listener) is not None
            )

        return NO_REPLICA if partition.leader is None else nearest_replica(partition.leader, offset, is_near)

    def _read_log(
        self, partition: Partition, request: FetchPartition, result: FetchPartitionResult, reading: Reading
    ) -> None:
        log, offset = partition.log, request.fetch_offset
        if request.last_fetched_epoch >= 0 and offset >= log.log_start_offset:
            result.diverging_epoch = _divergence(partition, request.last_fetched_epoch, offset)
            if result.diverging_epoch is not None:
                reading.is_urgent = True
                return
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._replica_id >= 0:
            now_ms, start_offset = self._broker.now_ms(), request.log_start_offset
            partition.on_fetched(self._replica_id, offset, self._request.replica_epoch, now_ms, start_offset)
        max_bytes, upper_offset = min(request.max_bytes, reading.left), self._upper_offset(partition)
        is_first = reading.total_bytes == 0
        if offset < upper_offset and (max_bytes > 0 or is_first):
            found = log.read(offset, max_bytes, upper_offset=upper_offset, at_least_one_batch=is_first)
            if found.file is not None:
                result.records = FilePart(found.file, found.position, found.length)
                reading.left -= found.length
                reading.total_bytes += found.length
                if partition.leader_quota is not None and self._replica_id >= 0:
                    reading.throttle(partition.leader_quota, found.length, self._broker.now_ms())

    def _upper_offset(self, partition: Partition) -> int:
        """What who asks may read ends here; at the log's beginning where a replica is held back (KIP-73)."""
        if self._replica_id >= 0:
            quota = partition.leader_quota
            isr = () if partition.leader is None else partition.leader.isr
            if quota is None or self._replica_id in isr or not quota.is_exceeded(self._broker.now_ms()):
                return partition.log.log_end_offset
            return partition.log.log_start_offset
        committed = partition.committed
        return committed.last_stable_offset if self._reads_committed else committed.high_watermark


def _divergence(partition: Partition, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Where the reader's log left ours, as (epoch, end offset), or None when it is a prefix of ours (KIP-595)."""
    epoch, end_offset = partition.end_offset_for_epoch(last_fetched_epoch)
    if end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None
