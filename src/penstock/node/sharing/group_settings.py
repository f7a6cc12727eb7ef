"""What holds for the share partitions of a group: what was set for it, within the bounds of this broker."""

from __future__ import annotations

from typing import Final

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.features import SHARE_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.value import Value
from penstock.sharing.values import NO_RATE, ShareSettings

NOTHING: Final[dict[str, str]] = {}
LONGEST_BACKOFF_MS: Final = 60_000
SINCE: Final = 2
"""The level of share.version that has dead letters."""


class OfGroup(Value):
    partitions: ShareSettings
    reads_committed: bool
    begins: str
    """share.auto.offset.reset"""
    dead_letter_topic: str = ""
    copies_dead_letters: bool = False


class GroupSettings:
    """Worked out once for what was set, which is another dict whenever something else is.

    Of groups of which nothing was set nothing is kept: whoever asks may make up as many as he likes. Nor is it of those
    that have no share partition here: who makes one has them kept, until `forget`.
    """

    def __init__(self, config: BrokerConfig, image: ClusterImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[str, tuple[dict[str, str], int, OfGroup]] = {}
        """With what it was worked out from."""
        self._of_others: OfGroup | None = None

    def __len__(self) -> int:
        """Groups of which something is kept."""
        return len(self._known)

    def of(self, group_id: str, *, keeps: bool = False) -> OfGroup:
        said = self._image.configs.get(ConfigResource(ResourceType.GROUP, group_id), NOTHING)
        if said is NOTHING:
            self._known.pop(group_id, None)
            if self._of_others is None:
                self._of_others = self._work_out(NOTHING)
            return self._of_others
        known, share_version = self._known.get(group_id), self._image.features.get(SHARE_VERSION, 0)
        if known is not None and known[0] is said and known[1] == share_version:
            return known[2]
        settings = self._work_out(said, share_version)
        if keeps or known is not None:
            self._known[group_id] = said, share_version, settings
        return settings

    def forget(self, group_id: str) -> None:
        self._known.pop(group_id, None)

    def _work_out(self, said: dict[str, str], share_version: int = 0) -> OfGroup:
        config = self._config
        topic = said.get("errors.deadletterqueue.topic.name", "")
        lock_ms = int(said.get("share.record.lock.duration.ms", config.group_share_record_lock_duration_ms))
        limit = int(said.get("share.delivery.count.limit", config.group_share_delivery_count_limit))
        locks = int(said.get("share.partition.max.record.locks", config.group_share_partition_max_record_locks))
        return OfGroup(
            ShareSettings(
                record_lock_duration_ms=_within(
                    lock_ms,
                    config.group_share_min_record_lock_duration_ms,
                    config.group_share_max_record_lock_duration_ms,
                ),
                delivery_count_limit=_within(
                    limit, config.group_share_min_delivery_count_limit, config.group_share_max_delivery_count_limit
                ),
                partition_max_record_locks=_within(
                    locks,
                    config.group_share_min_partition_max_record_locks,
                    config.group_share_max_partition_max_record_locks,
                ),
                renew_acknowledge_enable=_is_on(said.get("share.renew.acknowledge.enable", "true")),
                ordered_by_key=said.get("share.ordering") == "key",
                delivery_count_durable=_is_on(said.get("share.delivery.count.durable", "false")),
                retry_backoff_ms=int(said.get("share.retry.backoff.ms", 0)),
                retry_backoff_max_ms=int(said.get("share.retry.backoff.max.ms", LONGEST_BACKOFF_MS)),
                has_dead_letters=bool(topic) and share_version >= SINCE,
                dead_letter_max_rate=int(said.get("share.deadletter.max.rate", NO_RATE)),
            ),
            said.get("share.isolation.level") == "read_committed",
            said.get("share.auto.offset.reset", "latest").lower(),
            topic,
            _is_on(said.get("errors.deadletterqueue.copy.record.enable", "false")),
        )


def _is_on(text: str) -> bool:
    return text.strip().lower() == "true"


def _within(value: int, least: int, most: int) -> int:
    """What was set is brought within the bounds, which may have changed since."""
    return min(max(value, least), most)
