"""The limits of this broker's replication: as a leader, as a follower, and between its log directories (KIP-73).

A partition that a topic names in `leader.replication.throttled.replicas`, or in the follower's key, has the broker's
quota; any other has none, and costs nothing. In sync replicas are never held back.
"""

from __future__ import annotations

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.partitions.log_configs import TopicSettings
from penstock.node.partitions.partition import Partition
from penstock.replication.quota import ReplicationQuota


class Throttles:
    """See the module. `configure` when keys of the broker have changed, `apply` when those of a topic have."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        windows, window_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        self.leader = ReplicationQuota(windows=windows, window_ms=window_ms)
        self.follower = ReplicationQuota(windows=windows, window_ms=window_ms)
        self.directories = ReplicationQuota(
            windows=config.alter_log_dirs_replication_quota_window_num,
            window_ms=config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        )
        self.configure()

    def configure(self) -> None:
        """Take over what the broker's keys say."""
        self.leader.bytes_per_s = self._config.leader_replication_throttled_rate
        self.follower.bytes_per_s = self._config.follower_replication_throttled_rate
        self.directories.bytes_per_s = self._config.replica_alter_log_dirs_io_max_bytes_per_second

    def apply(self, partition: Partition, settings: TopicSettings) -> None:
        """Take over what the topic's keys say of a partition."""
        partition.leader_quota = self.leader if partition.index in settings.throttled_leaders else None
        partition.follower_quota = self.follower if partition.index in settings.throttled_followers else None
