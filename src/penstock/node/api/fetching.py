"""What one fetch request reads: partition by partition, within the limits of bytes that it names.

The first partition that has records gives at least one whole batch, whatever the limits (so a reader always gets on);
behind it each partition gives what still fits. Records are not read here: a result names the slice of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from penstock.log.log_slice import EMPTY_SLICE, LogSlice
from penstock.node.api.partition_views import current_leader, endpoints_of
from penstock.node.partitions.awaited_followers import Poll
from penstock.node.partitions.fetch_sessions import FetchPlan, Session, StandingWait, Wanted
from penstock.node.partitions.partition import Later, Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import ALLOW_ALL, CLUSTER_ACTION, READ_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import (
    ENDPOINTS_FROM,
    RACKS_FROM,
    FetchFrame,
    FetchPartition,
    FetchPartitionResult,
    Part,
    encode_fetch_response,
)
from penstock.protocol.requests.topic_answers import NodeEndpoint
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.quota import ReplicationQuota
from penstock.replication.read_replica import NO_REPLICA, RACK_AWARE, nearest_replica
from penstock.replication.waits import Wait, Waits

READ_COMMITTED = 1
DEBUGGING_CONSUMER = -2
"""The replica id of a tool that compares replicas: any replica answers with its committed records."""
LEADER_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH
"""Errors that tell clients the leader (KIP-951)."""


def _is_news(wanted: Wanted, result: FetchPartitionResult) -> bool:
    news = (
        result.records
        or result.error_code != 0
        or result.diverging_epoch is not None
        or result.preferred_replica != NO_REPLICA
        or result.high_watermark != wanted.told_high_watermark
        or result.log_start_offset != wanted.told_log_start_offset
    )
    # An error is told again until it is gone.
    wanted.told_high_watermark = -1 if result.error_code else result.high_watermark
    wanted.told_log_start_offset = result.log_start_offset
    return bool(news)


Answer = dict[str | UUID, list[FetchPartitionResult]]


class FetchReader:
    """Reads what a request asks for, as often as it is asked to, and answers with what the last pass found.

    `is_urgent`: there is an error, a divergence or a nearer replica to tell at once; or followers are to hear where the
    log begins, and how much is committed where they serve consumers.
    """

    __slots__ = (
        "_is_judged",
        "_is_late",
        "_is_tight",
        "_later",
        "_leaders",
        "_max_bytes",
        "_none_aborted",
        "_quota",
        "_rack",
        "_reads_committed",
        "_replica_id",
        "_skips_quiet",
        "_tells_starts",
        "_tells_watermarks",
        "_throttled_bytes",
        "broker",
        "context",
        "is_urgent",
        "plan",
        "request",
        "results",
        "total_bytes",
    )

    def __init__(self, broker: Broker, context: RequestContext, request: FetchFrame, plan: FetchPlan) -> None:
        config, self._replica_id = broker.config, request.replica_id
        is_consumer, selects = request.replica_id < 0, config.replica_selector_class == RACK_AWARE
        self.broker = broker
        self.context = context
        self.request = request
        self.plan = plan
        self._is_judged = context.authorizer is not ALLOW_ALL
        self._reads_committed = request.isolation_level == READ_COMMITTED
        self._none_aborted: Sequence[tuple[int, ...]] | None = () if self._reads_committed else None
        self._max_bytes = min(request.max_bytes, config.fetch_max_bytes)
        if context.charge is not None:
            self._max_bytes = min(self._max_bytes, context.charge.most_fetched)
        self._rack = request.rack_id if selects and is_consumer else ""
        # A replica that is nearer to a consumer may come in sync at any time.
        self._skips_quiet = plan.is_incremental and not self._rack
        self._tells_starts = plan.is_incremental and not is_consumer
        self._tells_watermarks = selects and self._tells_starts
        self.start()

    def wait(self, asked: Iterable[Wanted], woken: Callable[[], None]) -> list[tuple[Waits, Wait]]:
        """Let `woken` be called when one of the partitions has more than there is now, or another leader.

        The waits are the caller's to cancel.
        """
        found = []
        for wanted in asked:
            partition = wanted.partition or self.broker.partitions.get(*wanted.key)
            if partition is not None:
                waits, reached = self._end_of(partition)
                found.append((waits, waits.add(reached + 1, woken)))
                if self._tells_watermarks:
                    self._wait_for_watermark(partition, found, woken)
        self._wait_for_later(found, woken)
        return found

    def stand(self, session: Session, asked: Iterable[Wanted], woken: Callable[[], None]) -> list[tuple[Waits, Wait]]:
        """Note which partitions are quiet, and let all have a standing wait; the waits are the caller's to cancel."""
        found: list[tuple[Waits, Wait]] = []
        for wanted in asked:
            partition = wanted.partition or self.broker.partitions.get(*wanted.key)
            if partition is None:
                continue
            if wanted.standing is None and wanted.is_asked and session.is_open:
                waits, reached = self._end_of(partition)
                wanted.standing = StandingWait(session, wanted, waits, reached + 1)
            if self._skips_quiet and wanted.is_quiet(self._replica_id):
                session.marked.pop(wanted, None)
            elif self._tells_watermarks:
                self._wait_for_watermark(partition, found, woken)
        self._wait_for_later(found, woken)
        return found

    def _wait_for_later(self, found: list[tuple[Waits, Wait]], woken: Callable[[], None]) -> None:
        found += [(waits, waits.add(offset, woken)) for waits, offset in self._later]
        self._later.clear()

    @staticmethod
    def _wait_for_watermark(partition: Partition, found: list[tuple[Waits, Wait]], woken: Callable[[], None]) -> None:
        waits = partition.committed.waits
        found.append((waits, waits.add(partition.high_watermark + 1, woken)))

    def _end_of(self, partition: Partition) -> tuple[Waits, int]:
        """The offset at which this client has to stop in a partition, and the waits for it to move."""
        if self._replica_id >= 0 and partition.leader is not None:
            return partition.leader.appended, partition.leader.log_end_offset
        return partition.committed.waits, partition.high_watermark

    def start(self) -> None:
        self.results: list[tuple[Wanted, FetchPartitionResult]] = []
        self._later: list[Later] = []
        self._leaders: dict[int, None] = {}
        self.total_bytes = self._throttled_bytes = 0
        self.is_urgent = self._is_tight = False
        self._is_late = self._replica_id < 0 and self.broker.lease.is_over
        self._quota: ReplicationQuota | None = None

    def read(self, asked: Iterable[Wanted]) -> None:
        results = self.results
        skips_quiet = self._skips_quiet and not self._is_late  # only a leader can say that nothing is new
        for wanted in asked:
            if skips_quiet and wanted.is_quiet(self._replica_id):
                continue
            try:
                results.append((wanted, self._read(wanted)))
            except KafkaError as error:
                results.append((wanted, self._refused(wanted, error.code)))

    @property
    def longest_wait_s(self) -> float:
        """How long the client may wait for more, after a pass."""
        longest_ms = self.request.max_wait_ms
        if self._replica_id >= 0:
            longest_ms = self.broker.replicas.awaited.wait_ms(self._replica_id, longest_ms)
        return longest_ms / 1000

    def waits(self, poll: Poll) -> None:
        """A request waits for more from now on."""
        if self._replica_id >= 0:
            self.broker.replicas.awaited.wait(self._replica_id, poll)

    def waits_no_longer(self, poll: Poll) -> None:
        """It is answered, or its client has gone."""
        if self._replica_id >= 0:
            self.broker.replicas.awaited.over(self._replica_id, poll)

    @property
    def is_enough(self) -> bool:
        return self.total_bytes >= self.request.min_bytes or self.is_urgent

    # answering

    def answer(self) -> list[Part]:
        """The response; in an incremental fetch it names only partitions with news. Notes what was told."""
        topics: Answer = {}
        self.tell(topics, self.results)
        return self.encode(topics, self.endpoints())

    def tell(self, topics: Answer, results: Sequence[tuple[Wanted, FetchPartitionResult]]) -> None:
        """Put some of the results into an answer, and note that they are told."""
        _, session, is_incremental = self.plan
        told: list[FetchPartitionResult] = []
        told_of: str | UUID | None = None
        for wanted, result in results:
            if result.error_code:
                self._count_refused(wanted, result.error_code)
            elif (partition := wanted.partition) is not None and isinstance(records := result.records, LogSlice):
                traffic, length = partition.traffic, records.length
                traffic.fetches += 1
                partition.bytes_read += length
                if self._replica_id < 0:
                    traffic.bytes_out += length
                else:
                    traffic.replication_bytes_out += length
            if session is not None and not _is_news(wanted, result) and is_incremental:
                continue
            topic, _ = wanted.key
            if topic is not told_of:
                told_of = topic
                told = topics.setdefault(topic, [])
            told.append(result)
        if session is not None and self._is_tight:
            session.to_the_back([wanted.key for wanted, result in results if result.records])
        if self._quota is not None:
            self._quota.record(self._throttled_bytes, self.broker.now_ms())
            self._quota = None

    def _count_refused(self, wanted: Wanted, code: int) -> None:
        self.context.counts.failed(code)
        partition = self.broker.partitions.get(*wanted.key)
        if partition is not None:
            partition.traffic.fetches += 1
            partition.traffic.failed_fetches += 1

    def endpoints(self) -> Sequence[NodeEndpoint]:
        """Of the leaders that the results name."""
        if not self._leaders:
            return ()
        return endpoints_of(self.broker.image, self.context.session.listener, self._leaders)

    def encode(self, topics: Answer, endpoints: Sequence[NodeEndpoint]) -> list[Part]:
        """The parts of the response; nothing that the node holds is touched, so a thread may do it."""
        context = self.context
        return encode_fetch_response(
            topics.items(),
            context.api_version,
            context.correlation_id,
            session_id=self.plan.session_id,
            endpoints=endpoints,
        )

    # one partition

    def _refused(self, wanted: Wanted, code: int) -> FetchPartitionResult:
        wanted.partition = wanted.role = None
        self.is_urgent = True
        result = FetchPartitionResult(wanted.request.index, code)
        if self.context.api_version >= ENDPOINTS_FROM and code in LEADER_MOVED:
            leader = result.current_leader = current_leader(self.broker.image, *wanted.key)
            self._leaders[leader[0]] = None
        return result

    def _read(self, wanted: Wanted) -> FetchPartitionResult:
        request, partition = wanted.request, wanted.partition or self.broker.partitions.get(*wanted.key)
        if self._is_judged:
            self._check_right(wanted, partition)
        if partition is None or partition.role is None:
            partition = self.broker.partition(*wanted.key)
        wanted.partition = partition
        is_known = self._is_known(wanted, partition)
        if not is_known:
            wanted.role = self._check(partition, request.current_leader_epoch)
        start_offset, committed = partition.log_start_offset, partition.committed
        stable_offset = committed.high_watermark
        # A log that is idle need not be read in.
        if request.fetch_offset < stable_offset or (self._reads_committed and partition.log.is_loaded):
            stable_offset = partition.last_stable_offset
        records, diverging, preferred = EMPTY_SLICE, None, NO_REPLICA
        if self._rack:
            preferred = self._nearest_replica(partition, request.fetch_offset)
        asks_anew = not is_known and request.last_fetched_epoch >= 0 and request.fetch_offset >= start_offset
        if asks_anew and preferred == NO_REPLICA:
            diverging = _divergence(partition, request.last_fetched_epoch, request.fetch_offset)
        if preferred != NO_REPLICA or diverging is not None:
            self.is_urgent, wanted.role = True, None
        else:
            records = self._read_log(partition, request, start_offset, stable_offset, is_known)
        if self._tells_starts and start_offset > wanted.told_log_start_offset:
            self.is_urgent = True
        if self._tells_watermarks and committed.high_watermark > wanted.told_high_watermark:
            self.is_urgent = True
        return FetchPartitionResult(
            request.index,
            0,
            committed.high_watermark,
            stable_offset,
            start_offset,
            records,
            self._aborted(partition, request.fetch_offset, records) if records.length else self._none_aborted,
            diverging,
            None,
            preferred,
        )

    def _aborted(self, partition: Partition, offset: int, found: LogSlice) -> Sequence[tuple[int, ...]] | None:
        """For readers of committed records."""
        return partition.log.load().aborted_in(offset, found.end_offset) if self._reads_committed else None

    def _check_right(self, wanted: Wanted, partition: Partition | None) -> None:
        """KafkaError where the client may not read a topic; a missing topic is refused elsewhere."""
        if self._replica_id >= 0:
            may_read = self.context.allows(CLUSTER_ACTION)
        else:
            name = self.broker.topic_name(wanted.key[0]) if partition is None else partition.topic
            may_read = name is None or self.context.allows(READ_TOPIC, name)
        if not may_read:
            raise READ_TOPIC.refused()

    def _is_known(self, wanted: Wanted, partition: Partition) -> bool:
        """Whether the partition was read from where the client is now, in this epoch, and has taken note of it.

        A follower that is not in sync is taken note of at each look: it may come in at any time.
        """
        role, leader = wanted.role, partition.leader
        if role is None or role is not partition.role or self._is_late:
            return False
        return self._replica_id < 0 or (leader is not None and self._replica_id in leader.isr)

    def _read_log(
        self, partition: Partition, request: FetchPartition, start_offset: int, stable_offset: int, is_known: bool
    ) -> LogSlice:
        log, offset = partition.log, request.fetch_offset
        if not start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._replica_id >= 0:
            upper_offset = self._follow(partition, request, is_known)
        elif self._reads_committed:
            upper_offset = stable_offset
        else:
            upper_offset = partition.committed.high_watermark
        max_bytes, is_first = request.max_bytes, not self.total_bytes
        if max_bytes > self._max_bytes - self.total_bytes:
            max_bytes, self._is_tight = self._max_bytes - self.total_bytes, True
        if offset >= upper_offset or (max_bytes <= 0 and not is_first):
            return EMPTY_SLICE
        found = partition.read(offset, max_bytes, upper_offset=upper_offset, at_least_one_batch=is_first)
        if isinstance(found, Later):
            self._later.append(found)
            return EMPTY_SLICE
        self.total_bytes += found.length
        if self._replica_id >= 0 and partition.leader_quota is not None:
            self._quota = partition.leader_quota
            self._throttled_bytes += found.length
        return found

    def _follow(self, partition: Partition, request: FetchPartition, is_known: bool) -> int:
        """A follower says how far it is, if that is not known; where what it may read ends: at the log's beginning if
        it is held back (KIP-73).
        """
        replica = self._replica_id
        if not is_known:
            now_ms = self.broker.now_ms()
            epoch, start_offset = self.request.replica_epoch, request.log_start_offset
            partition.on_fetched(replica, request.fetch_offset, epoch, now_ms, start_offset)
        quota, leader = partition.leader_quota, partition.leader
        if quota is None or not quota.is_exceeded(self.broker.now_ms()):
            return partition.log.log_end_offset
        if leader is not None and leader.waits_for(replica):
            return partition.log.log_end_offset
        return partition.log_start_offset

    def _check(self, partition: Partition, current_leader_epoch: int) -> PartitionLeader | PartitionFollower:
        if self._replica_id >= 0:
            return partition.check_follower(self._replica_id, current_leader_epoch)
        if self._is_late:
            self.broker.check_lease(partition)
            if self._is_judged and partition.leader is None:  # what a follower has is good, its rules may be of before
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the lease of this broker is over: rules may differ")
        if self._replica_id == DEBUGGING_CONSUMER:
            return partition.check_any(current_leader_epoch)
        if self.context.api_version >= RACKS_FROM:
            return partition.check_replica(current_leader_epoch)
        return partition.check_leader(current_leader_epoch)

    def _nearest_replica(self, partition: Partition, offset: int) -> int:
        brokers = self.broker.image.brokers

        def is_near(replica: int) -> bool:
            broker = brokers.get(replica)
            return (
                broker is not None
                and broker.rack == self._rack
                and not broker.fenced
                and broker.endpoint(self.context.session.listener) is not None
            )

        return NO_REPLICA if partition.leader is None else nearest_replica(partition.leader, offset, is_near)


def _divergence(partition: Partition, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Where the reader's log left ours, as (epoch, end offset), or None when it is a prefix of ours (KIP-595).

    Only the leader can tell: a replica that came back may have less than the reader, and have it still to fetch.
    """
    log = partition.log
    if last_fetched_epoch == log.latest_epoch and fetch_offset <= log.log_end_offset:
        return None  # as most often
    epoch, end_offset = partition.end_offset_for_epoch(last_fetched_epoch)
    if epoch >= last_fetched_epoch and end_offset >= fetch_offset:
        return None
    if partition.leader is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return epoch, end_offset
