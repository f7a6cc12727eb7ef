"""The transaction coordinator of a broker: a `TransactionShard` on each partition of `__transaction_state` it leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.features import TRANSACTION_VERSION
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.node.coordinators.host import CoordinatorHost, HostContext
from penstock.node.coordinators.transaction_metrics import register_transactions
from penstock.node.metrics.registry import Registry
from penstock.protocol.compression import Compression
from penstock.protocol.internal_topics import TRANSACTION_STATE

TRANSACTION_KEYS: Final = 1


class TransactionCoordinator(CoordinatorHost[TransactionShard]):
    key_type = TRANSACTION_KEYS

    def __init__(self, config: BrokerConfig, context: HostContext, metrics: Registry) -> None:
        settings = settings_from(config)
        super().__init__(
            TRANSACTION_STATE,
            context,
            lambda leader_epoch: TransactionShard(settings, leader_epoch, self.version),
            Compression.NONE,
            patience_ms=settings.write_timeout_ms,
        )
        register_transactions(metrics, self.serving, self.load_time)

    @property
    def version(self) -> int:
        """The cluster's transaction.version."""
        level: int = self.context.image.features.get(TRANSACTION_VERSION, 0)
        return level

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        super().on_metadata(records)
        if any(isinstance(record, FeatureLevelRecord) for record in records):
            self._tell_version()

    def on_new_image(self) -> None:
        super().on_new_image()
        self._tell_version()

    def _tell_version(self) -> None:
        for hosted in self.led():
            hosted.machine.set_version(self.version)


def settings_from(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_ms=config.transactional_id_expiration_ms,
        expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        longest_wait_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
        write_timeout_ms=config.offsets_commit_timeout_ms,
    )
