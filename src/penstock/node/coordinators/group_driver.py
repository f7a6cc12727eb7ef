"""Coordinates groups on this node: a `GroupPartition` for each partition of `__consumer_offsets` that it leads.

A group belongs to the leader of one partition, found by the hash of its name. The topic is created when a group is
first asked for; until then, and while a partition is being read, clients are told to come back.

| what is asked for | answer |
| --- | --- |
| a group while the topic does not exist, or its partition has no leader | COORDINATOR_NOT_AVAILABLE |
| a group of a partition that another node leads | NOT_COORDINATOR |
| a group of a partition that is being read | COORDINATOR_LOAD_IN_PROGRESS |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.shard import GroupShard
from penstock.metadata.brokers import Endpoint
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from penstock.metadata.topics import TopicImage
from penstock.node.broker import Broker
from penstock.node.controlling.topic_creation import creatable
from penstock.node.coordinators.group_partition import GroupPartition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
MINUTE_MS: Final = 60_000
LOAD_RETRY_S: Final = 1.0
"""When a partition that could not be read is tried again."""


class GroupDriver:
    """The group coordinator of one broker. Tell it of metadata after the partition table has heard of it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._led: dict[int, GroupPartition] = {}
        self._to_load: list[GroupPartition] = []
        self._retries: dict[GroupPartition, asyncio.TimerHandle] = {}
        self._is_stopped = False
        self._loading: asyncio.Task[None] | None = None
        self._creating: asyncio.Future[CreateTopicsResponse] | None = None
        loop = asyncio.get_running_loop()
        self._loop_time = loop.time
        self._epoch_ms = broker.now_ms() - int(loop.time() * 1000)
        self._settings = settings_from(broker.config)
        self._compression = Compression(broker.config.offsets_topic_compression_codec)

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take over the partitions that the metadata gives to this node."""
        self.follow()

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        """The committed metadata has changed by these records."""
        topic = self._topic()
        topic_id = None if topic is None else topic.topic_id
        removed = any(isinstance(record, RemoveTopicRecord) for record in records)
        if removed or any(
            isinstance(record, PartitionRecord | PartitionChangeRecord) and record.topic_id == topic_id
            for record in records
        ):
            self.follow()
        if removed:
            self._forget_topics()

    def on_new_image(self) -> None:
        """The metadata were replaced as a whole."""
        self.follow()
        self._forget_topics()

    async def stop(self) -> None:
        """Send away who waits, and stop."""
        self._is_stopped = True
        for retry in self._retries.values():
            retry.cancel()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        for index in list(self._led):
            self._led.pop(index).resign()

    def now_ms(self) -> int:
        """The wall clock as it was at the start, going on steadily: a change of the wall clock expires no session."""
        return self._epoch_ms + int(self._loop_time() * 1000)

    # -- who coordinates ----------------------------------------------------------------------------------------------

    def find(self, group_id: str) -> GroupPartition:
        """The partition of a group that this node coordinates; KafkaError as the table above says."""
        topic = self._needed_topic()
        index = coordinator_partition(group_id, len(topic.partitions))
        led = None
        if topic.partitions[index].leader == self._broker.node_id:  # the partition may not have followed yet
            led = self._led.get(index) or self._lead_late(index)
        if led is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not led.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return led

    def _lead_late(self, index: int) -> GroupPartition | None:
        """Lead a partition whose log could not be made when its topic was, say because the disk was full."""
        if self._broker.partitions.get(OFFSETS_TOPIC, index) is None:
            try:
                self._broker.partition(OFFSETS_TOPIC, index)
            except KafkaError as error:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                if error.code != ErrorCode.KAFKA_STORAGE_ERROR:
                    code = ErrorCode.NOT_COORDINATOR
                raise KafkaError(code) from error
            self.follow()
        return self._led.get(index)

    def coordinator(self, group_id: str, listener: str) -> tuple[int, Endpoint]:
        """Node id and address of the broker that coordinates a group; KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        topic = self._needed_topic()
        index = coordinator_partition(group_id, len(topic.partitions))
        leader = topic.partitions[index].leader
        broker = self._broker.image.brokers.get(leader)
        endpoint: Endpoint | None = None if broker is None or broker.fenced else broker.endpoint(listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader, endpoint

    def coordinated(self) -> list[GroupPartition]:
        """All partitions that are led here; KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while one is being read."""
        if not all(led.is_loaded for led in self._led.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return list(self._led.values())

    # -- the topic ----------------------------------------------------------------------------------------------------

    def _topic(self) -> TopicImage | None:
        topic: TopicImage | None = self._broker.image.topics.get(OFFSETS_TOPIC)
        return topic

    def _needed_topic(self) -> TopicImage:
        topic = self._topic()
        if topic is None or not topic.partitions:
            self._create_topic()
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return topic

    def _create_topic(self) -> None:
        if self._creating is not None:
            return
        topic = creatable(self._broker, OFFSETS_TOPIC)
        self._creating = self._broker.controller.submit(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        self._creating.add_done_callback(self._created)

    def _created(self, creating: asyncio.Future[CreateTopicsResponse]) -> None:
        """Whoever needs the topic next tries again if this failed."""
        self._creating = None
        if creating.cancelled():
            return
        error = creating.exception()
        if error is not None:
            logger.warning("could not create %s: %s", OFFSETS_TOPIC, error)
            return
        for topic in creating.result().topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                code = ErrorCode(topic.error_code).name
                logger.warning("could not create %s: %s %s", OFFSETS_TOPIC, code, topic.error_message or "")

    def follow(self) -> None:
        """Lead what the metadata says and the partition table has, and nothing else."""
        if self._is_stopped:
            return
        topic = self._topic()
        indexes = list(topic.partitions) if topic is not None else []
        for index in list(self._led):
            partition = self._broker.partitions.get(OFFSETS_TOPIC, index)
            if partition is not self._led[index].partition or partition.leader is None:
                self._led.pop(index).resign()
        for index in indexes:
            partition = self._broker.partitions.get(OFFSETS_TOPIC, index)
            if partition is not None and partition.leader is not None and index not in self._led:
                machine = GroupShard(self._settings, self._broker.random)
                led = self._led[index] = GroupPartition(partition, machine, self.now_ms, self._compression)
                self._to_load.append(led)
        if self._to_load and self._loading is None:
            self._loading = asyncio.create_task(self._load(), name="load groups")

    async def _load(self) -> None:
        """Read partitions one after the other."""
        try:
            while self._to_load:
                led = self._to_load.pop(0)
                try:
                    await led.load()
                except Exception as error:
                    defect = None if isinstance(error, KafkaError) else error  # a disk has errors without our doing
                    logger.error(
                        "could not read the groups of %s: %s; another try follows",
                        led.partition,
                        error,
                        exc_info=defect,
                    )
                    self._retries[led] = asyncio.get_running_loop().call_later(LOAD_RETRY_S, self._retry, led)
        finally:
            self._loading = None

    def _retry(self, failed: GroupPartition) -> None:
        """Begin again with a partition that could not be read: what was read of it may be half of the truth."""
        del self._retries[failed]
        index = failed.partition.index
        if self._led.get(index) is failed:
            del self._led[index]
            self.follow()

    def _forget_topics(self) -> None:
        """Offsets in topics that are gone go as well."""
        topics = self._broker.image.topics
        for led in self._led.values():
            if led.is_loaded:
                for topic in led.machine.topics():
                    if topic not in topics:
                        led.run(led.machine.topic_deleted(topic))


def settings_from(config: Any) -> GroupSettings:
    """What Kafka's keys say about groups."""
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
