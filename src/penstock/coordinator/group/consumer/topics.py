"""What a group needs of the cluster's topics: their ids and partitions, and a hash that changes when these do."""

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.xxh3 import xxh3_64
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.metadata.topics import TopicImage

_MAGIC: Final = b"\0"
"""The version of the hash."""
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<Q")
_HALF: Final = 1 << 63
_NO_CONFIGS: Final[Mapping[str, str]] = {}
_GROUP: Final = ResourceType.GROUP


class Topics:
    """The image changes under it: say so (`changed`)."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._hashes: dict[UUID, int] = {}
        self.version = 0
        """Grows with each change."""
        self.new_topics_offset = image.offset
        """Of the metadata that last had a new topic."""

    def changed(self, topic_ids: Collection[UUID] | None, *, new_topics: bool) -> None:
        """These, or None if it may be any."""
        self.version += 1
        if topic_ids is None:
            self._hashes.clear()
        else:
            for topic_id in topic_ids:
                self._hashes.pop(topic_id, None)
        if new_topics:
            self.new_topics_offset = self._image.offset

    def configs_of(self, group_id: str) -> Mapping[str, str]:
        """What the group says of its own: another mapping when that changes."""
        key = _GROUP, group_id  # equals the ConfigResource that it is in the image, and each heartbeat asks
        return self._image.configs.get(key, _NO_CONFIGS)  # type: ignore[call-overload, no-any-return]

    @property
    def offset(self) -> int:
        """Of the metadata."""
        return self._image.offset

    def names(self) -> list[str]:
        return list(self._image.topics)

    def id_of(self, name: str) -> UUID | None:
        topic = self._image.topics.get(name)
        return None if topic is None else topic.topic_id

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """Those that are not there are left out."""
        return frozenset([topic.topic_id for topic in map(self._image.topics.get, names) if topic])

    def name_of(self, topic_id: UUID) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int | None:
        """None if there is no such topic."""
        topic = self._image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def partitions(self, names: Iterable[str]) -> dict[UUID, int]:
        """How many each topic has; those that are not there are left out."""
        return {topic.topic_id: len(topic.partitions) for topic in map(self._image.topics.get, names) if topic}

    def hash_of(self, names: Iterable[str]) -> int:
        """Of topics in ascending order of their names, as Kafka reckons it (KIP-1101): signed, 0 for no topics."""
        hashes = b"".join(_LONG.pack(self._hash(topic)) for topic in map(self._image.topics.get, names) if topic)
        value = xxh3_64(hashes) if hashes else 0
        return value - 2 * _HALF if value >= _HALF else value

    def _hash(self, topic: TopicImage) -> int:
        found = self._hashes.get(topic.topic_id)
        if found is None:
            found = self._hashes[topic.topic_id] = xxh3_64(_described(topic, self._image))
        return found


def _described(topic: TopicImage, image: ClusterImage) -> bytes:
    number = topic.topic_id.int
    parts = [
        _MAGIC,
        _LONG.pack(number >> 64),
        _LONG.pack(number & (1 << 64) - 1),
        _text(topic.name),
        _INT.pack(len(topic.partitions)),
    ]
    for index in range(len(topic.partitions)):
        parts.append(_INT.pack(index))
        brokers = (image.brokers.get(replica) for replica in topic.partitions[index].replicas)
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None):
            parts += [_INT.pack(len(rack)), _text(rack)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return encoded + _INT.pack(len(encoded) // 2)
