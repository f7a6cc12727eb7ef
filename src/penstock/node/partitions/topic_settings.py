"""From the configs of a topic to what its partitions obey: one LogConfig for all topics with the same settings."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from typing import Any, Final

from penstock.log.config import LogConfig
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigValue
from penstock.metadata.configs.effective import topic_values
from penstock.metadata.configs.without_effect import why_no_effect
from penstock.node.partitions.partition import Partition
from penstock.protocol.value import Value
from penstock.replication.quota import ReplicationQuota

logger = logging.getLogger(__name__)

_KEYS = {field: field.replace("_", ".") for field in LogConfig.__fields__}
_INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
EVERY_PARTITION: Final = range(2**31)
MOST_KNOWN: Final = 1_000
"""Of what was set of topics: most have nothing of their own, or what others have as well."""
MOST_CHARACTERS: Final = 1_000_000
"""Of what was set of these."""


Settings = tuple[tuple[str, str], ...]


class TopicSettings(Value):
    log: LogConfig
    min_insync_replicas: int
    throttled_leaders: Container[int] = ()
    throttled_followers: Container[int] = ()


class TopicSettingsTable:
    """Remembers the settings by what was set, those that were asked for last; `forget` when the broker's own change."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._known: dict[Settings, TopicSettings] = {}
        self._characters = 0
        self._told: dict[str, None] = {}

    def settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        key = tuple(sorted(overrides.items()))
        known = self._known.pop(key, None)
        if known is None:
            try:
                known = self._work_out(overrides)
            except ValueError:  # a ConfigError, or what checks of an older version did not know of
                known = self._work_out(self._understood(overrides))
            self._tell_of_no_effect(overrides)
            self._characters += _length(key)
        self._known[key] = known
        while len(self._known) > 1 and (len(self._known) > MOST_KNOWN or self._characters > MOST_CHARACTERS):
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._characters -= _length(oldest)
        return known

    def forget(self) -> None:
        self._known.clear()
        self._characters = 0

    def _understood(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Without the settings that another version of this program let in: a partition goes on without them."""
        understood = {}
        for key, value in overrides.items():
            try:
                self._work_out({key: value})
            except ValueError as error:
                logger.error("%s of a topic has no effect on this node: %s", key, error)
            else:
                understood[key] = value
        return understood

    def _tell_of_no_effect(self, overrides: Mapping[str, str]) -> None:
        for name, value in overrides.items():
            reason = why_no_effect(name)
            if reason is not None and name not in self._told:
                self._told[name] = None
                logger.warning("%s=%s of a topic has no effect: %s", name, value, reason)

    def _work_out(self, overrides: Mapping[str, str]) -> TopicSettings:
        values = topic_values(overrides, self._config.layers)
        chosen: dict[str, Any] = {name: values[key] for name, key in _KEYS.items() if key in values}
        chosen["cleanup_policy"] = frozenset(chosen["cleanup_policy"])
        chosen["producer_id_expiration_ms"] = self._config.producer_id_expiration_ms
        chosen["log_delete_delay_ms"] = self._config.log_segment_delete_delay_ms
        chosen["validates_records"] = self._config.penstock_produce_validate == "full"
        chosen["first_sequence_is_zero"] = self._config.penstock_produce_first_sequence == "zero"
        internal_segment_bytes = values[_INTERNAL_SEGMENT_BYTES]
        if internal_segment_bytes is not None:
            chosen["segment_bytes"] = internal_segment_bytes
        min_insync_replicas = values["min.insync.replicas"]
        assert isinstance(min_insync_replicas, int)
        return TopicSettings(
            LogConfig(**chosen),
            min_insync_replicas,
            self._throttled(values["leader.replication.throttled.replicas"]),
            self._throttled(values["follower.replication.throttled.replicas"]),
        )

    def _throttled(self, replicas: ConfigValue) -> Container[int]:
        """The partitions of which a list of partition:broker pairs names the replica on this node."""
        assert isinstance(replicas, tuple)
        if replicas == ("*",):
            return EVERY_PARTITION
        pairs = (pair.split(":") for pair in replicas)
        return frozenset(int(index) for index, node_id in pairs if int(node_id) == self._config.node_id)


def _length(key: Settings) -> int:
    return sum(len(name) + len(value) for name, value in key)


class Throttles:
    """The limits of this broker's replication: as a leader, as a follower, and between its log directories (KIP-73).

    A partition that a topic names in `leader.replication.throttled.replicas`, or in the follower's key, has the
    broker's quota; any other has none, and costs nothing. A replica that its leader waits for before it commits, in
    sync or about to be, is never held back. `configure` when keys of the broker have changed, `apply` when those of a
    topic have.
    """

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
        self.leader.bytes_per_s = self._config.leader_replication_throttled_rate
        self.follower.bytes_per_s = self._config.follower_replication_throttled_rate
        self.directories.bytes_per_s = self._config.replica_alter_log_dirs_io_max_bytes_per_second

    def apply(self, partition: Partition, settings: TopicSettings) -> None:
        partition.leader_quota = self.leader if partition.index in settings.throttled_leaders else None
        partition.follower_quota = self.follower if partition.index in settings.throttled_followers else None
