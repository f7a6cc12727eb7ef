"""The share coordinator of a broker: a `ShareShard` on each partition of `__share_group_state` that it leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.coordinator.shards.shares import ShareShard
from penstock.coordinator.share.records import key_of
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.metadata.brokers import Endpoint
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.records import MetadataRecord, RemoveTopicRecord
from penstock.node.coordinators.host import CoordinatorHost, HostContext
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import SHARE_GROUP_STATE

SHARE_KEYS: Final = 2


class ShareCoordinator(CoordinatorHost[ShareShard]):
    """Also forgets what groups have read in topics that are gone."""

    key_type = SHARE_KEYS

    def __init__(self, config: BrokerConfig, context: HostContext) -> None:
        settings = settings_from(config)
        super().__init__(
            SHARE_GROUP_STATE,
            context,
            lambda _: ShareShard(settings, context.image),
            Compression(config.share_coordinator_state_topic_compression_codec),
            patience_ms=settings.write_timeout_ms,
        )

    def coordinator(self, key: str, listener: str) -> tuple[int, Endpoint]:
        """As of every host; KafkaError(INVALID_REQUEST) for what is no share partition."""
        try:
            key_of(key)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is not group:topicId:partition") from error
        return super().coordinator(key, listener)

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        super().on_metadata(records)
        if any(isinstance(record, RemoveTopicRecord) for record in records):
            self._forget_topics()

    def on_new_image(self) -> None:
        super().on_new_image()
        self._forget_topics()

    def _forget_topics(self) -> None:
        for hosted in self.serving():
            hosted.put(hosted.machine.topics_deleted)


def settings_from(config: BrokerConfig) -> ShareCoordinatorSettings:
    return ShareCoordinatorSettings(
        updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        cold_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
        prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        write_timeout_ms=config.share_coordinator_write_timeout_ms,
    )
