"""Fetches ahead of the application: at most one request per node under way, for the partitions that nothing is left of.

Every fetch names all it wants (no fetch session): simple, and cheap enough for what one consumer reads. A leader may
name a replica in the consumer's rack, which is asked then (KIP-392). Each fetch says of which epoch the last record
was, so that a leader whose log was cut tells where (KIP-320).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Final
from uuid import UUID

from penstock.client.cluster import LED_ELSEWHERE, ClusterClient
from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.consumer.subscription import PartitionState, Subscription
from penstock.client.durations import parse_duration_ms
from penstock.client.errors import ConnectionFailedError, raise_for
from penstock.client.metadata import NO_NODE, PartitionMetadata
from penstock.client.settings import BY_DURATION, ConsumerSettings
from penstock.client.values import EARLIEST, LATEST, ConsumedRecord, IsolationLevel, TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.requests.lent_records import LentFetchResponse, LentPartition
from penstock.protocol.uuids import ZERO_UUID

logger = logging.getLogger(__name__)

NEWEST_BY_NAME: Final = 12  # from version 13 on topics go by their ids
NO_SESSION: Final = -1
_ASK_THE_LEADER_AGAIN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Fetcher:
    """`on_news` is called when there is something to take: records or an error."""

    def __init__(
        self,
        cluster: ClusterClient,
        subscription: Subscription,
        settings: ConsumerSettings,
        on_news: Callable[[], None],
        *,
        large_as_views: bool = False,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._settings = settings
        self._on_news = on_news
        self._large_as_views = large_as_views
        self._fetched: dict[TopicPartition, FetchedRecords] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._error: Exception | None = None
        self._failures = 0
        self._topic_ids: dict[str, UUID] = {}

    async def close(self) -> None:
        tasks = list(self._requests.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def take(self, limit: int) -> list[ConsumedRecord]:
        """At most `limit` records; reading goes on behind them. Raises the error of a failed fetch, or of records that
        cannot be read; where others were taken before, the next time.
        """
        self._raise_error()
        taken: list[ConsumedRecord] = []
        for partition, fetched in list(self._fetched.items()):
            state = self._subscription.partitions.get(partition)
            if state is None or state.next_to_read != fetched.next_offset:
                del self._fetched[partition]  # revoked by now, or sought elsewhere
                continue
            if state.paused:
                continue
            try:
                taken += fetched.take(limit - len(taken))
            except DecodeError as error:
                del self._fetched[partition]
                self._error = error
                break
            state.ahead = fetched.next_offset, fetched.next_leader_epoch
            if fetched.exhausted:
                del self._fetched[partition]
            if len(taken) >= limit:
                break
        if not taken:
            self._raise_error()
        return taken

    def _raise_error(self) -> None:
        """What has failed is told once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def send(self) -> None:
        """Ask each idle node for the partitions that it leads and whose records are used up."""
        wanted: dict[int, dict[TopicPartition, FetchPartition]] = {}
        in_vain: set[int] = set()
        unknown = False
        for partition, state in self._subscription.partitions.items():
            held, offset = self._fetched.get(partition), state.next_to_read
            if offset is None or state.paused or (held is not None and held.next_offset == offset):
                continue
            row = self._leader(partition, state)
            if row is None:
                unknown = True
                continue
            replica = self._replica(state)
            node_id = replica if replica in self._cluster.metadata.brokers else row.leader
            if replica not in (NO_NODE, node_id):
                in_vain.add(node_id)
            if node_id not in self._requests:
                wanted.setdefault(node_id, {})[partition] = FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=row.leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=state.epoch_of_last_read,
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                )
        for node_id, asked in wanted.items():
            rack = "" if node_id in in_vain else self._settings.client_rack
            self._start(node_id, self._fetch(node_id, asked, rack))
        if unknown and NO_SESSION not in self._requests:
            self._start(NO_SESSION, self._look_again())

    def _leader(self, partition: TopicPartition, state: PartitionState) -> PartitionMetadata | None:
        """Of a broker that is cut off, and still believes that it leads, None: it may have less (KIP-320)."""
        row = self._cluster.metadata.leader(partition)
        return None if row is None or 0 <= row.leader_epoch < self._epoch_of(partition, state) else row

    def _replica(self, state: PartitionState) -> int:
        """The one that the leader named, as long as metadata hold, or -1. A leader that has named one that they do not
        know would name it again, and give no records: it is asked as if this consumer were in no rack.
        """
        holds = asyncio.get_running_loop().time() < state.replica_until_s
        return state.replica if holds else NO_NODE

    def _epoch_of(self, partition: TopicPartition, state: PartitionState) -> int:
        """The leader epoch of the record that was read last; -1 if that is of a topic which is another one now."""
        topic_id = self._cluster.metadata.topics[partition.topic].topic_id
        if self._topic_ids.setdefault(partition.topic, topic_id) != topic_id:
            self._topic_ids[partition.topic] = topic_id
            self._subscription.forget_epochs(partition.topic)
        if len(self._topic_ids) > len(self._subscription.partitions):  # some are read no longer
            read = {topic for topic, _ in self._subscription.partitions}
            self._topic_ids = {topic: its for topic, its in self._topic_ids.items() if topic in read}
        return state.epoch_of_last_read

    def _start(self, node_id: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=f"fetch from node {node_id}")
        self._requests[node_id] = task

        def done(finished: asyncio.Task[None]) -> None:
            del self._requests[node_id]
            if not finished.cancelled() and finished.exception() is not None:
                self._error = self._error or finished.exception()  # type: ignore[assignment]
            self._on_news()

        task.add_done_callback(done)

    async def _fetch(self, node_id: int, asked: Mapping[TopicPartition, FetchPartition], rack: str) -> None:
        """`asked` bears the epoch in which the node was chosen: metadata may change until there is a connection."""
        known = self._cluster.metadata.topics
        topic_ids = {topic: known[topic].topic_id if topic in known else ZERO_UUID for topic, _ in asked}
        names = {topic_id: topic for topic, topic_id in topic_ids.items()}
        try:
            connection = await self._cluster.connection(node_id)
            response = await connection.request(
                self._request(asked, topic_ids, rack),
                LentFetchResponse,
                newest=NEWEST_BY_NAME if ZERO_UUID in names else None,
                timeout_ms=self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms,
            )
            raise_for(response.error_code, f"fetch from {connection.address}")
        except (ConnectionFailedError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            for partition in asked:
                self._leave_replica(partition, node_id)
            await self._look_again()
            return
        rows = {
            TopicPartition(topic.topic or names[topic.topic_id], row.partition_index): row
            for topic in response.responses
            for row in topic.partitions
        }
        led_elsewhere = {
            partition: row.current_leader for partition, row in rows.items() if row.error_code in LED_ELSEWHERE
        }
        learned = self._cluster.learn(node_id, led_elsewhere, response.node_endpoints)
        look_again = False
        for partition, row in rows.items():
            if self._arrived(partition, node_id, asked[partition].fetch_offset, row) and partition not in learned:
                look_again = True
        if look_again:
            await self._look_again()
        else:
            self._failures = 0

    def _leave_replica(self, partition: TopicPartition, node_id: int) -> bool:
        """Read from the leader again; whether that partition was read from this node though another one leads."""
        state = self._subscription.partitions.get(partition)
        if state is None or state.replica != node_id:
            return False
        state.replica = -1
        return True

    def _arrived(self, partition: TopicPartition, node_id: int, asked_from: int, row: LentPartition) -> bool:
        """Take one partition's part; whether its leader must be looked up again."""
        state = self._subscription.partitions.get(partition)
        if state is None or state.next_to_read != asked_from:
            return False  # revoked by now, or sought elsewhere
        is_there = state.ahead is None  # else it is asked again when the application has come there
        code = ErrorCode(row.error_code)
        was_elsewhere = bool(code) and self._leave_replica(partition, node_id)
        if code in _ASK_THE_LEADER_AGAIN:
            return True
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not was_elsewhere and is_there:  # a replica may be behind: the leader says what holds
                self._reset(partition, asked_from)
        elif code:
            self._error = self._error or KafkaError(code, f"partition {partition} at offset {asked_from}")
        elif row.preferred_read_replica >= 0:
            state.replica = row.preferred_read_replica
            max_age_s = self._settings.metadata_max_age_ms / 1000
            state.replica_until_s = asyncio.get_running_loop().time() + max_age_s
            return state.replica not in self._cluster.metadata.brokers
        elif row.diverging_epoch.end_offset >= 0:
            # only the leader knows where an epoch ended
            if not self._leave_replica(partition, node_id) and is_there:
                self._go_back(partition, asked_from, row.diverging_epoch.end_offset)
        else:
            state.high_watermark = row.high_watermark
            state.log_start_offset = row.log_start_offset
            if row.records:
                self._fetched[partition] = FetchedRecords(
                    partition,
                    row.records,
                    asked_from,
                    row.aborted_transactions,
                    check_crcs=self._settings.check_crcs,
                    large_as_views=self._large_as_views,
                )
        return False

    def _go_back(self, partition: TopicPartition, offset: int, shared_end: int) -> None:
        """Records before the position are not in the log any more: an unclean election took them (KIP-320)."""
        if self._settings.auto_offset_reset == "none":
            self._error = self._error or KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} was cut: its records from offset {shared_end} on are others than those that were read "
                f"before offset {offset}, and auto.offset.reset is none",
            )
            return
        logger.warning("%s was cut: read again from offset %d, not from %d", partition, shared_end, offset)
        self._subscription.seek(partition, min(shared_end, offset))

    def _reset(self, partition: TopicPartition, offset: int) -> None:
        timestamp_ms = reset_timestamp(self._settings)
        if timestamp_ms is None:
            self._error = self._error or KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has no offset {offset} any longer, and auto.offset.reset is none",
            )
        else:
            self._subscription.seek_to_timestamp(partition, timestamp_ms)

    async def _look_again(self) -> None:
        self._failures += 1
        await asyncio.sleep(self._settings.backoff_ms(self._failures - 1) / 1000)
        try:
            await self._cluster.refresh(sorted({partition.topic for partition in self._subscription.partitions}))
        except ConnectionFailedError:
            pass  # the next attempt says so

    def _request(
        self, asked: Mapping[TopicPartition, FetchPartition], topic_ids: Mapping[str, UUID], rack: str
    ) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (name, _), part in asked.items():
            topics.setdefault(name, FetchTopic(topic=name, topic_id=topic_ids[name])).partitions.append(part)
        return FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=isolation_level(self._settings),
            session_epoch=NO_SESSION,
            topics=list(topics.values()),
            rack_id=rack,
        )


def isolation_level(settings: ConsumerSettings) -> IsolationLevel:
    return IsolationLevel[settings.isolation_level.upper()]


def reset_timestamp(settings: ConsumerSettings) -> int | None:
    """The timestamp that auto.offset.reset looks up (-1 the end, -2 the beginning); None for `none`. ValueError."""
    kind, _, duration = settings.auto_offset_reset.partition(":")
    if kind == BY_DURATION:
        return settings.now_ms() - parse_duration_ms(duration)
    return {"latest": LATEST, "earliest": EARLIEST}.get(kind)
