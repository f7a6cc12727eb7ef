"""Limits of replication that were set for moves end with these, whatever became of the client that set them (KIP-73).

`penstock.replication.throttled.until.moved` says that the limits are of this kind. Once nothing has been on the move
for a while, the rates of brokers, the lists of topics, and that key are taken away. Clients set limits before a
move begins, and may move one batch after the other, so nothing is taken away sooner. A topic's list that stands for all
its replicas stays: it is set by hand, for what is no move.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import ConfigRecord, MetadataRecord

UNTIL_MOVED = "penstock.replication.throttled.until.moved"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
ALL_REPLICAS: Final = "*"
AT_ONCE: Final = 1_000
"""Records of one decision."""


class MoveLimits:
    """Soft state: until when the limits, that have nothing to limit, stay all the same."""

    def __init__(self, unused_ms: int) -> None:
        self._unused_ms = unused_ms
        self._end_ms: int | None = None

    def deadline_ms(self, image: ClusterImage) -> int | None:
        if _are_unused(image) != (self._end_ms is not None):
            return 0
        return self._end_ms

    def due(self, image: ClusterImage, now_ms: int) -> list[MetadataRecord]:
        if not _are_unused(image):
            self._end_ms = None
        elif self._end_ms is None:
            self._end_ms = now_ms + self._unused_ms
        elif now_ms >= self._end_ms:
            return list(islice(_ended(image), AT_ONCE))
        return []


def _are_unused(image: ClusterImage) -> bool:
    return image.config_of(ResourceType.BROKER, "").get(UNTIL_MOVED) == "true" and not image.index.reassigning


def _ended(image: ClusterImage) -> Iterator[MetadataRecord]:
    """The key that says so comes last: what is too much for one decision is in the next one."""
    for resource, values in image.configs.items():
        of_moves = {ResourceType.TOPIC: LISTS, ResourceType.BROKER: RATES}.get(resource.resource_type, ())
        for key in of_moves:
            if key in values and values[key] != ALL_REPLICAS:
                yield _without(resource.resource_type, resource.name, key)
    yield _without(ResourceType.BROKER, "", UNTIL_MOVED)


def _without(resource_type: ResourceType, name: str, key: str) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=None)
