"""What an administrator was promised about topics, and what an image of the cluster says about them.

Each operation is begun, and perhaps acknowledged. One that was begun only may have happened or not, now or later, but
never by half: what stands in the image is one of the states that are possible. So may an operation that was tried more
than once: the first try may have waited in some broker, and come last.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.metadata.image import ClusterImage, ResourceType

CONFIG_KEY = "max.message.bytes"


@dataclass(slots=True)
class _Topic:
    """The possible states of a topic. Empty `values`: the setting was never made."""

    counts: set[int]
    may_exist: bool = True
    may_miss: bool = True
    may_come_again: bool = False
    values: set[str | None] = field(default_factory=lambda: {None})
    doubtful: set[str | None] = field(default_factory=set)
    version: int = 0


class TopicPromises:
    """Topic names are unique for ever."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self.counts: dict[str, int] = {}
        """Topics that certainly exist, and their least number of partitions."""

    def creating(self, name: str, count: int) -> None:
        """From now on the topic may exist."""
        self._topics[name] = _Topic(counts={count})

    def created(self, name: str, *, at_once: bool) -> None:
        topic = self._changed(name)
        topic.may_miss = False
        topic.may_come_again = not at_once
        self.counts[name] = min(topic.counts)

    def enlarging(self, name: str, count: int) -> None:
        """From now on there may be so many partitions."""
        self._changed(name).counts.add(count)

    def enlarged(self, name: str, count: int) -> None:
        topic = self._changed(name)
        topic.counts = {one for one in topic.counts if one >= count}
        if name in self.counts:
            self.counts[name] = count

    def configuring(self, name: str, value: str) -> None:
        """From now on the setting may hold."""
        topic = self._changed(name)
        topic.values.add(value)
        topic.doubtful.add(value)

    def configured(self, name: str, value: str, *, at_once: bool) -> None:
        """The setting holds; unacknowledged ones may still come."""
        topic = self._changed(name)
        if at_once:
            topic.doubtful.discard(value)
        topic.values = {value, *topic.doubtful}

    def deleting(self, name: str) -> None:
        """From now on the topic may be gone."""
        self._changed(name).may_miss = True
        self.counts.pop(name, None)

    def deleted(self, name: str) -> None:
        topic = self._changed(name)
        topic.may_exist = topic.may_come_again

    def _changed(self, name: str) -> _Topic:
        topic = self._topics[name]
        topic.version += 1
        return topic

    def versions(self) -> dict[str, int]:
        """For `broken`: what is promised at this moment."""
        return {name: topic.version for name, topic in self._topics.items()}

    def broken(self, image: ClusterImage, versions: dict[str, int] | None = None) -> Iterator[str]:
        """The promises that an image breaks which holds all that was acknowledged when `versions` was taken.

        Without `versions` it holds all that is acknowledged now.
        """
        for name, topic in self._topics.items():
            if versions is not None and versions.get(name) != topic.version:
                continue
            found = image.topics.get(name)
            if found is None:
                if not topic.may_miss:
                    yield f"topic {name} was acknowledged and is not there"
                continue
            if not topic.may_exist:
                yield f"topic {name} is there, its deletion was acknowledged"
            counts = sorted(topic.counts)
            if len(found.partitions) not in counts or sorted(found.partitions) != list(range(len(found.partitions))):
                yield f"topic {name} has the partitions {sorted(found.partitions)}, possible are {counts} of them"
            value = image.config_of(ResourceType.TOPIC, name).get(CONFIG_KEY)
            if value not in topic.values:
                yield f"topic {name} has {CONFIG_KEY}={value}, possible are {sorted(map(str, topic.values))}"
