"""Which partition a record goes to: as Kafka's clients choose, or as a partitioner of one's own says."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol, cast

from penstock.client.metadata import ClusterMetadata
from penstock.protocol.hashing import partition_for_key

KAFKAS_PACKAGE: Final = "org.apache.kafka.clients.producer."
MOST_TOPICS: Final = 10_000
"""Of which is remembered where their last record went; the others begin anew."""


class Partitioner(Protocol):
    """A partitioner of one's own, with the methods of Kafka's interface."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before all else, with the producer's settings and what else begins with `partitioner.`."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: ClusterMetadata) -> int:
        """The number of the partition. `cluster.topics[topic]` has the partitions, each with its leader."""

    def close(self) -> None:
        """The producer ends."""


class RoundRobinPartitioner:
    """Each record of a topic goes to the next partition that has a leader, whatever its key."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}

    def configure(self, settings: Mapping[str, str]) -> None: ...

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: ClusterMetadata) -> int:
        rows = cluster.topics[topic].partitions
        candidates = [number for number, row in rows.items() if row.leader >= 0] or list(rows)
        sent = self._sent[topic] = self._sent.get(topic, -1) + 1
        if len(self._sent) > MOST_TOPICS:
            del self._sent[next(iter(self._sent))]
        return candidates[sent % len(candidates)]

    def close(self) -> None: ...


def partitioner_named(name: str) -> Partitioner:
    """RoundRobinPartitioner, also by the full name of Kafka's class; or any class as `module:Class`. ValueError."""
    if name.removeprefix(KAFKAS_PACKAGE) == RoundRobinPartitioner.__name__:
        return RoundRobinPartitioner()
    module_name, colon, class_name = name.partition(":")
    if not colon:
        raise ValueError(f"partitioner.class={name}: known are RoundRobinPartitioner, and your own as module:Class")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"partitioner.class={name}: {error}") from error
    if not (isinstance(found, type) and hasattr(found, "partition")):
        raise ValueError(f"partitioner.class={name}: that is no class with a method `partition`")
    return cast("Partitioner", found())


@dataclass(slots=True)
class DefaultPartitioner:
    """As Kafka's Java producer: with a key by murmur2; without, a batch's worth to one partition (KIP-794).

    After about `batch_size` bytes the next partition is drawn among those that have a leader, so over time all get the
    same number of bytes.
    """

    batch_size: int
    random: Random
    _stuck: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)

    def partition(self, topic: str, key: bytes | None, size_bytes: int, count: int, available: Sequence[int]) -> int:
        """One of the `count` partitions. `available` are those that have a leader now; it may be empty."""
        if key is not None:
            return partition_for_key(key, count)
        partition, bytes_left = self._stuck.get(topic, (-1, 0))
        if bytes_left <= 0 or partition >= count:
            partition = self.random.choice(available) if available else self.random.randrange(count)
            bytes_left = self.batch_size
        self._stuck[topic] = (partition, bytes_left - size_bytes)
        if len(self._stuck) > MOST_TOPICS:
            del self._stuck[next(iter(self._stuck))]
        return partition
