"""What a group needs of the cluster's topics: their ids and partitions, and a hash that changes when these do."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.topic_hashes import TopicHashes
from penstock.coordinator.timers import Timer, Timers
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType

SLICE_MS: Final = 1
"""Between some hashes of very many topics and the next ones."""
_NO_CONFIGS: Final[Mapping[str, str]] = {}
_GROUP: Final = ResourceType.GROUP


class Topics:
    """The image changes under it: say so (`changed`)."""

    def __init__(self, image: ClusterImage, timers: Timers) -> None:
        self._image = image
        self._timers = timers
        self._hashes = TopicHashes(image)
        self._is_hashing = False
        self.version = 0
        """Grows with each change, and when the hashes of very many topics are there."""
        self.new_topics_offset = image.offset
        """Of the metadata that last had a new topic."""

    def changed(self, topic_ids: Collection[UUID] | None, *, new_topics: bool) -> None:
        """These, or None if it may be any."""
        self.version += 1
        self._hashes.changed(topic_ids)
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

    def hash_of(self, names: Iterable[str], known: int) -> int:
        """Of topics in ascending order of their names. It is the one that is `known` until all of very many are hashed:
        then there is another version.
        """
        found = self._hashes.of([topic for topic in map(self._image.topics.get, names) if topic])
        if found is None and not self._is_hashing:
            self._is_hashing = True
            self._timers.set(Timer(self._hash_some), 0)
        return known if found is None else found

    def _hash_some(self, now_ms: int) -> None:
        self._is_hashing = self._hashes.make_some()
        if self._is_hashing:
            self._timers.set(Timer(self._hash_some), now_ms + SLICE_MS)
        else:
            self.version += 1
