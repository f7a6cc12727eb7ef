"""The replicas of this node obey the committed metadata: logs are made, led, configured and deleted as it says.

| record                                | what happens here                                                       |
| ------------------------------------- | ----------------------------------------------------------------------- |
| PartitionRecord                       | a replica of ours: its log is made, and led if we are the leader         |
| PartitionChangeRecord                 | leadership begins, ends or goes on in a new epoch; the ISR changes       |
| RemoveTopicRecord                     | its logs are renamed away, to go after `log.segment.delete.delay.ms`     |
| ClearElrRecord                        | partitions that had eligible leaders have a new partition epoch          |
| ConfigRecord of a topic               | its logs obey the new settings                                           |

The cost of a change depends on the partitions that it touches, never on how many there are. Where it touches very
many, as thousands of new logs do, the event loop gets to do something else in between: `settled` waits until all is
done. What is asked for meanwhile is made at once (`hold_missing`).

A replica that this node has alone, and without any record yet, is only known by its log (`untouched`) until something
is asked of it, as a node may have very many of them.

A replica of a storage group is in `table` once the group has it: its log is the group's to make, write and delete.

A replica in a log directory that fails, or that may lie in one which is offline since the start, is not in `table`:
requests for it get KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import PartitionImage, ResourceType, TopicImage
from penstock.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.environment.signal import Signal
from penstock.node.partitions.awaited_followers import AwaitedFollowers
from penstock.node.partitions.backlog import Backlog, PutOff
from penstock.node.partitions.found_logs import lies_elsewhere, set_aside_strays, settle_twins
from penstock.node.partitions.in_sync_replicas import InSyncReplicas
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replica_fetchers import ReplicaFetchers
from penstock.node.partitions.table import PartitionTable
from penstock.node.partitions.topic_settings import Throttles, TopicSettings, TopicSettingsTable
from penstock.node.partitions.upkeep import Upkeep
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import is_internal

logger = logging.getLogger(__name__)

OBEYED_AT_ONCE = 4
"""Partitions that change before the event loop gets to do something else: a directory and its files are half a ms."""
DROPPED_AT_ONCE = 20  # partitions of removed topics that go likewise
FOUND_AT_ONCE = 1_000  # logs whose partitions are looked up likewise


class LocalReplicas:
    """Makes `table` what the committed image says about this node."""

    def __init__(
        self,
        context: BrokerContext,
        table: PartitionTable,
        groups: StorageGroups,
        settings: TopicSettingsTable,
        upkeep: Upkeep,
        fetchers: ReplicaFetchers,
    ) -> None:
        self._node_id = context.node_id
        self._alone = (context.node_id,)
        self._image = context.image
        self._table = table
        self._directories = context.node.directories
        self._settings = settings
        self._upkeep = upkeep
        self.fetchers = fetchers
        self.in_sync = InSyncReplicas(context)
        self.awaited = AwaitedFollowers(context.now_ms)
        self.throttles = Throttles(context.config)
        self._now_ms = context.now_ms
        self._groups = groups
        self._high_watermarks: dict[tuple[str, int], int] = {}
        self.has_settled = Signal[()]()
        """All that was committed is obeyed, after some of it had to wait; or a directory has failed."""
        self.dropped = Signal[Partition]()
        self.found_misplaced = Signal[()]()
        self._todo = Backlog(self._obey_metadata, OBEYED_AT_ONCE, self.has_settled)
        self.misplaced: dict[tuple[UUID, int], UUID] = {}
        """Replicas that the image expects in another directory, and the id of theirs; the controller is to hear it."""
        self._late = PutOff[tuple[UUID, int]](self.obey_late, context.now_ms)
        """Replicas whose log could not be made or read when the metadata wanted something of them."""
        self.offline: dict[tuple[UUID, int], None] = {}
        """Replicas that lie, or may lie, in directories that are offline."""

    async def open_all(self) -> None:
        """At start, when `on_metadata` is told already. Raises DamagedDirectoryError, KafkaError."""
        settle_twins(self._directories, self._image, self._node_id)
        self._high_watermarks = self._directories.checkpoints.high_watermarks(self._directories.logs)
        ours = [
            (topic.topic_id, index)
            for topic in self._image.topics.values()
            if topic.has_replicas
            for index, partition in topic.partitions.items()
            if self._node_id in partition.replicas
        ]
        if self._directories.roots.offline:
            self.offline.update(dict.fromkeys(ours))
        for start in range(0, len(ours), FOUND_AT_ONCE):
            if start:
                await asyncio.sleep(0)
            for topic_id, found in groupby(ours[start : start + FOUND_AT_ONCE], key=itemgetter(0)):
                self._begin_with(topic_id, [index for _, index in found])
        self._todo.work()
        await self.settled()
        self._high_watermarks.clear()  # a topic of that name that comes later is another one
        if self.offline:
            logger.error("%d replicas may lie in log directories that are offline", len(self.offline))
        await set_aside_strays(self._directories, self._image, self._node_id, self._groups.is_member)

    def _begin_with(self, topic_id: UUID, indexes: Iterable[int]) -> None:
        """Take in these replicas of one topic; the ones that may wait wait, as there may be very many of them."""
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:  # it was removed meanwhile
            return
        name, logs, config = topic.name, self._directories.logs, self.config_of(topic.name)
        held = {partition.index for partition in self._table.of_topic(topic_id)}
        for index in indexes:
            log = logs.get((name, index))
            if log is None or index in held or not self._may_wait(log, topic.partitions[index]):
                self._todo.extend([(topic_id, index)])
                continue
            log.config = config
            self._table.add_untouched(topic_id, log)
            if self.offline:
                self.offline.pop((topic_id, index), None)

    def holds(self, topic: TopicImage, index: int) -> bool:
        key = topic.topic_id, index
        return self._table.get(*key) is not None or self._table.get_untouched(*key) is not None

    def _settings_of(self, topic: str) -> TopicSettings:
        return self._settings.settings(self._image.config_of(ResourceType.TOPIC, topic))

    def config_of(self, topic: str) -> LogConfig:
        return self._settings_of(topic).log

    def on_metadata(self, records: Iterable[MetadataRecord]) -> None:
        """Obey records that were committed and applied to the image: a few at once, many by and by."""
        room = DROPPED_AT_ONCE
        for record in records:
            match record:
                case PartitionChangeRecord() if self._is_nothing_to_obey(record):
                    pass
                case PartitionRecord() | PartitionChangeRecord():
                    self._todo.extend([(record.topic_id, record.partition_id)])
                case ClearElrRecord():
                    held = self._table.of_topic(record.topic_name) if record.topic_name else self._table
                    self._todo.extend((partition.topic_id, partition.index) for partition in held)
                case RemoveTopicRecord():
                    room -= self._on_topic_removed(record.topic_id, room)
                case ConfigRecord() if record.resource_type == ResourceType.TOPIC:
                    self._configure(record.resource_name)
        self._todo.work()

    def _is_nothing_to_obey(self, change: PartitionChangeRecord) -> bool:
        topic = self._image.topics_by_id.get(change.topic_id)
        return (
            topic is not None
            and change.replicas is None
            and change.directories is None
            and topic.partitions[change.partition_id].replicas == self._alone
            and self._table.get(topic.name, change.partition_id) is None
        )

    async def settled(self) -> None:
        await self._todo.settled()

    def stop(self) -> None:
        """Drop what is still to be obeyed; `settled` returns. Nothing is delivered any more."""
        self._todo.stop()
        self._late.stop()
        for partition in self._table:
            partition.stop_delivering()

    def on_new_image(self) -> None:
        """The image was replaced as a whole, by a snapshot: obey all that it says."""
        self._todo.clear()
        for partition in list(self._table):
            if not self._is_there(partition.topic_id, partition.index):
                self._drop(partition)
        for topic_id, log in self._table.untouched():
            if not self._is_there(topic_id, log.partition):
                self._drop_untouched(topic_id, log.partition)
        self.configure_all()
        self._todo.extend(
            (topic.topic_id, index) for topic in self._image.topics.values() for index in topic.partitions
        )
        self._todo.extend(key for key in self.offline if not self._is_there(*key))
        self._todo.work()

    def _is_there(self, topic_id: UUID, index: int) -> bool:
        topic = self._image.topics_by_id.get(topic_id)
        return topic is not None and index in topic.partitions

    def configure_all(self) -> None:
        """Keys of the broker have changed: all logs obey them, where their topic has none of its own."""
        self._settings.forget()
        for name in self._image.topics:
            self._configure(name)
        self._todo.work()

    def on_directory_failed(self, path: str) -> None:
        """A log directory is offline from now on: what lies in it is not held any more."""
        failed = [partition for partition in self._table if partition.log.parent == path]
        for partition in failed:
            self.offline[partition.topic_id, partition.index] = None
            self._table.remove(partition)
            self._upkeep.forget(partition)
            self.fetchers.leave(partition)
            partition.log.abandon()
            partition.end()
        untouched = [(topic_id, log.partition) for topic_id, log in self._table.untouched() if log.parent == path]
        for key in untouched:
            self.offline[key] = None
            self._table.forget_untouched(*key)
        logger.error("%d replicas are offline with %s", len(failed) + len(untouched), path)
        self.has_settled()

    def on_log_start_moved(self, partition: Partition) -> None:
        """DeleteRecords moved the beginning: segments before it go. The next checkpoint writes it down, as in Kafka."""
        self._upkeep.retired(partition, partition.log.retire_below_start(self._now_ms(), partition.high_watermark))
        partition.on_log_start_moved()

    def _obey_metadata(self, key: tuple[UUID, int]) -> None:
        topic_id, index = key
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:  # it was removed, perhaps by a later record of the same commit
            self._let_go(topic_id, index)
        if topic is None or not topic.has_replicas:
            return
        image = topic.partitions[index]
        partition = self._table.get(topic_id, index)
        if self._node_id not in image.replicas:
            self._let_go(topic_id, index)
        elif partition is None:
            self._hold(topic.name, index, topic_id, image)
        else:
            try:
                self._obey(partition, image)
                partition.min_insync_replicas = self._settings_of(topic.name).min_insync_replicas
            except KafkaError as error:  # it is nothing any more until it can be what it shall be
                self.fetchers.leave(partition)
                partition.resign()
                self._put_off(topic.name, index, topic_id, error)

    def _let_go(self, topic_id: UUID, index: int) -> None:
        self.misplaced.pop((topic_id, index), None)
        self.offline.pop((topic_id, index), None)
        held = self._table.get(topic_id, index)
        self._drop_untouched(topic_id, index) if held is None else self._drop(held)

    def _put_off(self, topic: str, index: int, topic_id: UUID, error: KafkaError) -> None:
        log, is_news = self._directories.logs.get((topic, index)), self._late.add((topic_id, index), error)
        if log is not None and log.is_lent:  # after all others that wait: it may be on its way out
            log.when_back(partial(asyncio.get_running_loop().call_soon, self.obey_late))
        elif is_news:
            logger.error("%s-%s: %s", topic, index, error.message)

    def obey_late(self) -> None:
        """There is room again, or a disk has done what a log waited for: nobody asks for a replica that follows."""
        self._todo.extend(self._late.taken())
        self._todo.work()
        self.has_settled()  # also if it did not take long: no other metadata need come

    def hold_missing(self, topic: TopicImage, index: int) -> Partition | None:
        """Try again to hold a replica whose log could not be made; None if it is not ours. Raises KafkaError."""
        image = topic.partitions[index]
        if self._node_id not in image.replicas:
            return None
        self._make(topic.name, index, topic.topic_id, image)
        return self._table.get(topic.topic_id, index)

    def _hold(self, topic: str, index: int, topic_id: UUID, image: PartitionImage) -> None:
        log = self._directories.logs.get((topic, index))
        if log is not None and self._may_wait(log, image):
            self.offline.pop((topic_id, index), None)
            log.config = self.config_of(topic)
            self._table.add_untouched(topic_id, log)
            return
        try:
            self._make(topic, index, topic_id, image)
        except KafkaError as error:
            if (topic_id, index) not in self.offline:
                self._put_off(topic, index, topic_id, error)

    def _may_wait(self, log: PartitionLog, image: PartitionImage) -> bool:
        """Until it is asked for: it has no record, is this node's alone, and the controller knows where it lies."""
        return (
            log.is_untouched
            and image.replicas == self._alone
            and not is_internal(log.topic)
            and not self._image.topics[log.topic].by_consensus
            and log.health.failure is None
            and (log.topic, log.partition) not in self._directories.futures
            and lies_elsewhere(self._directories, self._node_id, log, image) is None
        )

    def _make(self, topic: str, index: int, topic_id: UUID, image: PartitionImage) -> None:
        settings = self._settings_of(topic)
        if self._image.topics_by_id[topic_id].by_consensus:
            partition = self._by_consensus(topic, index, topic_id)
            if partition is None:
                return
        else:
            partition = self._by_isr(topic, index, topic_id, image, settings.log)
        self.offline.pop((topic_id, index), None)
        partition.log.config = settings.log
        partition.min_insync_replicas = settings.min_insync_replicas
        self.throttles.apply(partition, settings)
        self._table.add(partition)
        self._upkeep.watch(partition)
        self._obey(partition, image)
        self._upkeep.remember(partition)

    def _by_isr(self, topic: str, index: int, topic_id: UUID, image: PartitionImage, config: LogConfig) -> IsrPartition:
        log = self._directories.create(
            topic,
            index,
            topic_id,
            config,
            assigned=image.directory_of(self._node_id),
            is_new=(topic_id, index) not in self.offline,
        )
        known, keep = self._high_watermarks.pop((topic, index), 0), self._upkeep
        return IsrPartition(log, topic_id, self.in_sync, keep.flush, high_watermark=known, dirty=keep.dirty)

    def _by_consensus(self, topic: str, index: int, topic_id: UUID) -> Partition | None:
        """None until the partition's storage group has it (`on_group`)."""
        group = self._groups.group_of(topic_id)
        if group is not None and (member := group.member(topic_id, index)) is not None:
            from penstock.node.partitions.consensus_partition import ConsensusPartition  # few nodes have a group

            return ConsensusPartition(topic, index, topic_id, group, member)
        if (topic_id, index) in self.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} may lie in a log directory that is offline"
            )
        return None

    def on_group(self, topic_id: UUID, index: int) -> None:
        """The group has the partition, another log of it, or it no longer; it may be ahead of the metadata here."""
        if not self._is_there(topic_id, index):
            return
        partition = self._table.get(topic_id, index)
        if partition is not None and not partition.owns_log:
            group = self._groups.group_of(topic_id)
            member = None if group is None else group.member(topic_id, index)
            if member is None or member.committed is not partition.committed:
                self._drop(partition)
        self._todo.extend([(topic_id, index)])
        self._todo.work()

    def _obey(self, partition: Partition, image: PartitionImage) -> None:
        self._compare_directories(partition, image)
        epoch = partition.leader_epoch
        partition.obey(self._node_id, image, self._now_ms())
        partition.deliver(self._upkeep.turns)
        if not isinstance(partition, IsrPartition):
            return
        if partition.leader_epoch != epoch:
            self.awaited.led(partition)
        if partition.leader is not None or image.leader < 0:
            self.fetchers.leave(partition)
        elif partition.leader_epoch != epoch:
            self.fetchers.follow(partition, image.leader)

    def on_moved(self, partition: Partition) -> None:
        topic = self._image.topics_by_id.get(partition.topic_id)
        if topic is not None and partition.index in topic.partitions:
            self._compare_directories(partition, topic.partitions[partition.index])

    def _compare_directories(self, partition: Partition, image: PartitionImage) -> None:
        actual = lies_elsewhere(self._directories, self._node_id, partition.log, image)
        if actual is None:
            self.misplaced.pop((partition.topic_id, partition.index), None)
        else:
            self.misplaced[partition.topic_id, partition.index] = actual
            self.found_misplaced()

    def _on_topic_removed(self, topic_id: UUID, room: int) -> int:
        """How many partitions are dropped at once, of `room`; the others are by and by."""
        held = self._table.of_topic(topic_id)
        self._table.forget_name(topic_id)
        for partition in held[:room]:
            self._drop(partition)
        self._todo.extend((topic_id, partition.index) for partition in held[room:])
        self._todo.extend((topic_id, log.partition) for log in self._table.untouched_of(topic_id))
        self._late.drop(lambda key: key[0] == topic_id)
        self._todo.extend(key for key in self.offline if key[0] == topic_id)
        return min(room, len(held))

    def _drop(self, partition: Partition) -> None:
        self._table.remove(partition)
        self.dropped(partition)
        self.misplaced.pop((partition.topic_id, partition.index), None)
        if partition.owns_log:
            self._delete(partition.log, partition.topic_id)
        self._upkeep.forget(partition)
        self.fetchers.leave(partition)
        partition.end()

    def _drop_untouched(self, topic_id: UUID, index: int) -> None:
        if (log := self._table.get_untouched(topic_id, index)) is not None:
            self._table.forget_untouched(topic_id, index)
            self._delete(log, topic_id)

    def _delete(self, log: PartitionLog, topic_id: UUID) -> None:
        if log.when_back(lambda: self._delete(log, topic_id)):
            return
        try:
            if self._directories.claim(log, topic_id):
                self._directories.delete(log, self._now_ms())
        except KafkaError as error:
            logger.error("%s", error.message)

    def _configure(self, topic: str) -> None:
        settings = self._settings_of(topic)
        for partition in self._table.of_topic(topic):
            if partition.min_insync_replicas != settings.min_insync_replicas:  # in its order among changes of leaders
                self._todo.extend([(partition.topic_id, partition.index)])
            self.throttles.apply(partition, settings)
            if partition.log.config is not settings.log:
                partition.log.config = settings.log
                self._upkeep.watch(partition, due_ms=self._now_ms())
                partition.deliver(self._upkeep.turns)
        if (known := self._image.topics.get(topic)) is not None:
            for log in self._table.untouched_of(known.topic_id):
                log.config = settings.log
