"""The group coordinator of one broker: hosts a `GroupShard` on each partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from penstock.coordinator.group.settings import (
    Bounded,
    ConsumerSettings,
    GroupSettings,
    MigrationPolicy,
    ShareSettings,
    StreamsSettings,
)
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.node.coordinators.host import CoordinatorHost, HostContext
from penstock.node.coordinators.hosted import Hosted
from penstock.node.partitions.partition import Partition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS

MINUTE_MS: Final = 60_000
GROUP_KEYS: Final = 0
UNLIMITED: Final = 2**31 - 1
MOVE_MS: Final = 1_500
"""The part of a hand-over's time that is not for the members' commits: to hear of it, and to make it."""

OF_TOPICS: Final = (TopicRecord, PartitionRecord, RemoveTopicRecord)
"""What changes a topic that groups look at."""

Rebalances = Mapping[str, tuple[int, int]]

logger = logging.getLogger(__name__)


class GroupCoordinator(CoordinatorHost[GroupShard]):
    """Also forgets offsets in topics that are gone."""

    key_type = GROUP_KEYS

    def __init__(self, config: BrokerConfig, context: HostContext, random: Random) -> None:
        settings = settings_from(config)
        compression = Compression(config.offsets_topic_compression_codec)
        super().__init__(
            CONSUMER_OFFSETS,
            context,
            lambda _: GroupShard(settings, random, context.image),
            compression,
            patience_ms=settings.write_timeout_ms,
        )
        self._past: dict[str, tuple[int, int]] = {}
        self._racks = _racks(context.image)
        self._commits_ms = max(config.leader_handover_timeout_ms - MOVE_MS, 0) if config.handover_commit_first else 0

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        super().on_metadata(records)
        gone = [record.topic_id for record in records if isinstance(record, RemoveTopicRecord)]
        if gone:
            names = self.context.image.gone_names or {}  # nor are they known where a new image came meanwhile
            self._forget([names[topic_id] for topic_id in gone if topic_id in names])

        racks, self._racks = self._racks, _racks(self.context.image)
        topic_ids = _changed(records) if racks == self._racks else None
        if topic_ids is None or topic_ids:
            new_topics = any(isinstance(record, TopicRecord) for record in records)
            self._tell_of_topics(topic_ids, new_topics=new_topics)

    def on_new_image(self) -> None:
        super().on_new_image()
        self._racks = _racks(self.context.image)
        self._tell_of_topics(None, new_topics=True)
        self._forget(None)

    async def before_departure(self, partition: Partition) -> None:
        """Members commit what they have processed, if configured; what they do not commit in time is read again."""
        hosted = self.hosted(partition.index) if self._commits_ms else None
        if hosted is None or not hosted.is_serving:
            return
        answer = hosted.ask(hosted.machine.have_members_commit, self._commits_ms)
        missing = await answer if isinstance(answer, asyncio.Future) else answer
        if missing:
            logger.info("%s: %d members have not committed within %d ms", hosted, missing, self._commits_ms)

    def rebalances(self) -> dict[str, tuple[int, int]]:
        """By kind, how many epochs of groups have ended here, and how many milliseconds they took together."""
        found = self._past
        for hosted in self.led():
            found = _sum(found, hosted.machine.rebalances())
        return found

    def _resign(self, index: int) -> None:
        hosted = self.hosted(index)
        if hosted is not None:
            self._past = _sum(self._past, hosted.machine.rebalances())
        super()._resign(index)

    def begins_to_serve(self, hosted: Hosted[GroupShard]) -> None:
        """Topics may have gone meanwhile, or while another node served it that did not come to it."""
        hosted.put(partial(hosted.machine.forget_topics, None))

    def _tell_of_topics(self, topic_ids: Collection[UUID] | None, *, new_topics: bool) -> None:
        for hosted in self.led():
            hosted.machine.topics_changed(topic_ids, new_topics=new_topics)

    def _forget(self, names: Sequence[str] | None) -> None:
        for hosted in self.serving():
            hosted.put(partial(hosted.machine.forget_topics, names))


def _sum(one: Rebalances, other: Rebalances) -> dict[str, tuple[int, int]]:
    kinds = dict.fromkeys([*one, *other])
    pairs = {kind: (one.get(kind, (0, 0)), other.get(kind, (0, 0))) for kind in kinds}
    return {kind: (a + c, b + d) for kind, ((a, b), (c, d)) in pairs.items()}


def _changed(records: Sequence[MetadataRecord]) -> set[UUID]:
    """The topics that are not as they were, in what groups look at."""
    return {
        record.topic_id
        for record in records
        if isinstance(record, OF_TOPICS) or (isinstance(record, PartitionChangeRecord) and record.replicas is not None)
    }


def _racks(image: ClusterImage) -> dict[int, str | None]:
    """Of brokers. One that comes back with the rack that it had changes nothing that groups look at."""
    return {broker_id: broker.rack for broker_id, broker in image.brokers.items() if broker.rack is not None}


def settings_from(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        write_timeout_ms=config.offsets_commit_timeout_ms,
        consumer=ConsumerSettings(
            session_timeout=Bounded(
                config.group_consumer_session_timeout_ms,
                config.group_consumer_min_session_timeout_ms,
                config.group_consumer_max_session_timeout_ms,
            ),
            heartbeat_interval=Bounded(
                config.group_consumer_heartbeat_interval_ms,
                config.group_consumer_min_heartbeat_interval_ms,
                config.group_consumer_max_heartbeat_interval_ms,
            ),
            assignment_interval=Bounded(
                config.group_consumer_assignment_interval_ms,
                config.group_consumer_min_assignment_interval_ms,
                config.group_consumer_max_assignment_interval_ms,
            ),
            max_size=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
            migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        ),
        share=ShareSettings(
            session_timeout=Bounded(
                config.group_share_session_timeout_ms,
                config.group_share_min_session_timeout_ms,
                config.group_share_max_session_timeout_ms,
            ),
            heartbeat_interval=Bounded(
                config.group_share_heartbeat_interval_ms,
                config.group_share_min_heartbeat_interval_ms,
                config.group_share_max_heartbeat_interval_ms,
            ),
            assignment_interval=Bounded(
                config.group_share_assignment_interval_ms,
                config.group_share_min_assignment_interval_ms,
                config.group_share_max_assignment_interval_ms,
            ),
            max_size=config.group_share_max_size,
            initialize_retry_ms=config.group_share_initialize_retry_interval_ms,
        ),
        streams=_of_streams(config),
    )


def _of_streams(config: BrokerConfig) -> StreamsSettings:
    return StreamsSettings(
        session_timeout=Bounded(
            config.group_streams_session_timeout_ms,
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval=Bounded(
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        assignment_interval=Bounded(
            config.group_streams_assignment_interval_ms,
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
        task_offset_interval=Bounded(
            config.group_streams_task_offset_interval_ms, config.group_streams_min_task_offset_interval_ms, UNLIMITED
        ),
        standby_replicas=Bounded(
            config.group_streams_num_standby_replicas, 0, config.group_streams_max_standby_replicas
        ),
        initial_rebalance_delay=Bounded(config.group_streams_initial_rebalance_delay_ms, 0, UNLIMITED),
        recovery_lag=Bounded(config.group_streams_acceptable_recovery_lag, 0, 2**63 - 1),
        max_size=config.group_streams_max_size,
        assignors=_streams_assignors(config.group_streams_assignors),
        rack_aware_tags=config.group_streams_rack_aware_assignment_tags,
    )


def _streams_assignors(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of packages are loaded at once: a name that nobody offers is told at the start."""
    if not names:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "group.streams.assignors names no assignor: sticky is always there")
    if names != StreamsSettings().assignors:
        from penstock.coordinator.group.streams.assignors.registry import assignor

        for name in names:
            assignor(name, names)
    return names
