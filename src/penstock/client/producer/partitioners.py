"""Which partition a record goes to. A custom partitioner is any object with this one method."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from penstock.protocol.hashing import partition_for_key


class Partitioner(Protocol):
    def partition(self, topic: str, key: bytes | None, size_bytes: int, count: int, available: Sequence[int]) -> int:
        """One of the `count` partitions. `available` are those that have a leader now; it may be empty."""


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
        if key is not None:
            return partition_for_key(key, count)
        partition, bytes_left = self._stuck.get(topic, (-1, 0))
        if bytes_left <= 0 or partition >= count:
            partition = self.random.choice(available) if available else self.random.randrange(count)
            bytes_left = self.batch_size
        self._stuck[topic] = (partition, bytes_left - size_bytes)
        return partition
