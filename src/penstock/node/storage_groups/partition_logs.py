"""The logs of the partitions that are in storage groups, and those of the groups themselves when they go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.node.environment.context import NodeContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS, has_replicas

if TYPE_CHECKING:
    from penstock.replication.storage_groups.entries import PartitionId

logger = logging.getLogger(__name__)


class PartitionLogs:
    def __init__(self, context: NodeContext, config_of: Callable[[str], LogConfig]) -> None:
        self._directories = context.directories
        self._image = context.image
        self._now_ms = context.now_ms
        self._config_of = config_of

    def open(self, partition: PartitionId, topic: str, directory_id: UUID | None) -> PartitionLog:
        """The metadata may not have the partition yet; a new log lies in that directory. Raises KafkaError."""
        if not has_replicas(topic):  # once the metadata have it, it counts as removed
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic} has no replicas: its log is somebody else's")
        config = self._config_of(topic)
        log = self._directories.create(topic, partition.number, partition.topic_id, config, assigned=directory_id)
        log.config = config
        return log

    def threads_of(self, log: PartitionLog) -> Executor:
        """Those of its disk."""
        return self._directories.threads_of(log)

    def remove(self, log: PartitionLog) -> None:
        """The partition has left its group: its topic was deleted, or will be in a moment."""
        if self._directories.logs.get((log.topic, log.partition)) is log:
            self.delete(log)

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        """Whether the metadata do not have the topic any more that they had at that offset."""
        topic = self._image.topics_by_id.get(topic_id)
        return self._image.offset >= since if topic is None else not topic.has_replicas

    def delete_left(self, log: PartitionLog) -> None:
        """That of a group that left while this node was away, if it is this cluster's."""
        try:
            is_ours = self._directories.claim(log, self._image.topics[STORAGE_GROUPS].topic_id)
        except KafkaError as error:
            logger.error("%s", error.message)
            return
        if is_ours:
            self.delete(log)
        else:
            logger.error("%s is the log of another cluster's storage group: it is left as it is", log.directory)

    def delete(self, log: PartitionLog) -> None:
        """The log is used by this node alone; errors are logged."""
        try:
            self._directories.delete(log, self._now_ms())
        except KafkaError as error:
            logger.error("%s", error.message)
