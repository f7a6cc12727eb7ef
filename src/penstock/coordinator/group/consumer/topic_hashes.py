"""Hashes of topics, each made once until the topic changes, and of many topics together; very many some at a time."""

import struct
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterator, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.xxh3 import xxh3_64, xxh3_64_in_steps
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import TopicImage

AT_ONCE: Final = 400
"""Topics and partitions that are hashed at once for whoever asks, some two milliseconds. Of more a group's epoch comes
before their hash, and another with it.
"""
TOGETHER_AT_ONCE: Final = 1_000
"""Topics whose hashes are made one for whoever asks, some half a millisecond. Of more it is made as the hashes of very
many topics are, and kept.
"""
TOGETHER_KEPT: Final = 10_000
"""Some groups have the same topics; one that is forgotten is made again."""
PARTITIONS_A_STEP: Final = 128
STEPS_AT_ONCE: Final = 8
"""Each is some partitions, some bytes or the rest of a topic."""

_MAGIC: Final = b"\0"
"""The version of the hash."""
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<Q")
_HALF: Final = 1 << 63


class TopicHashes:
    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._hashes: dict[int, bytes] = {}
        """By the numbers that topic ids are: those are compared by C."""
        self._joined: OrderedDict[bytes, None] = OrderedDict()
        """Hashes of many topics, of which one is to be made."""
        self._together: OrderedDict[int, int] = OrderedDict()
        """What was made of them, by what Python's hash makes: they are long."""
        self._wanted: OrderedDict[UUID, None] = OrderedDict()  # of a dict the first is looked for from its beginning
        self._has_changed = False
        """Whether the one that is being hashed has."""
        self._steps: Iterator[None] = iter(())

    def changed(self, topic_ids: Collection[UUID] | None) -> None:
        """These, or None if it may be any."""
        if topic_ids is None:
            self._hashes.clear()
        else:
            for topic_id in topic_ids:
                self._hashes.pop(topic_id.int, None)
        self._has_changed = self._has_changed or topic_ids is None or next(iter(self._wanted), None) in topic_ids

    def of(self, topics: Sequence[TopicImage]) -> int | None:
        """Of all together, as Kafka reckons it (KIP-1101): signed, 0 for no topics. None where too many are unknown:
        `make_some` until it is done.
        """
        unknown = [topic for topic in topics if topic.topic_id.int not in self._hashes]
        if sum(1 + len(topic.partitions) for topic in unknown) > AT_ONCE:
            self._begin()
            self._wanted.update((topic.topic_id, None) for topic in unknown)
            return None
        for topic in unknown:
            self._hashes[topic.topic_id.int] = _LONG.pack(_at_once(_hashed(topic, self._image)))
        hashes = b"".join([self._hashes[topic.topic_id.int] for topic in topics])
        value = self._of_many(hashes) if len(topics) > TOGETHER_AT_ONCE else xxh3_64(hashes) if hashes else 0
        return value - 2 * _HALF if value is not None and value >= _HALF else value

    def _of_many(self, hashes: bytes) -> int | None:
        value = self._together.get(hash(hashes))
        if value is None:
            self._begin()
            self._joined[hashes] = None
        else:
            self._together.move_to_end(hash(hashes))
        return value

    def _begin(self) -> None:
        if not self._has_work:
            self._steps = self._made()

    @property
    def _has_work(self) -> bool:
        return bool(self._wanted or self._joined)

    def make_some(self) -> bool:
        """Of those that were unknown. Whether any are left."""
        for _ in islice(self._steps, STEPS_AT_ONCE):
            pass
        return self._has_work

    def _made(self) -> Iterator[None]:
        while self._has_work:
            yield from self._made_of_one() if self._wanted else self._made_of_many()
            yield

    def _made_of_one(self) -> Iterator[None]:
        topic_id = next(iter(self._wanted))
        self._has_changed = False
        topic = self._image.topics_by_id.get(topic_id)
        value = None if topic is None else (yield from _hashed(topic, self._image))
        if not self._has_changed:
            del self._wanted[topic_id]
            if value is not None:
                self._hashes[topic_id.int] = _LONG.pack(value)

    def _made_of_many(self) -> Iterator[None]:
        hashes = next(iter(self._joined))
        self._together[hash(hashes)] = yield from xxh3_64_in_steps(hashes)
        del self._joined[hashes]
        if len(self._together) > TOGETHER_KEPT:
            self._together.popitem(last=False)


def _hashed(topic: TopicImage, image: ClusterImage) -> Generator[None, None, int]:
    described = yield from _described(topic, image)
    return (yield from xxh3_64_in_steps(described))


def _described(topic: TopicImage, image: ClusterImage) -> Generator[None, None, bytes]:
    number, count = topic.topic_id.int, len(topic.partitions)
    parts = [
        _MAGIC,
        _LONG.pack(number >> 64),
        _LONG.pack(number & (1 << 64) - 1),
        _text(topic.name),
        _INT.pack(count),
    ]
    racks: dict[tuple[int, ...], bytes] = {}
    for index in range(count):
        replicas = topic.partitions[index].replicas
        if replicas not in racks:
            racks[replicas] = _racks(replicas, image)
        parts += [_INT.pack(index), racks[replicas]]
        if index % PARTITIONS_A_STEP == PARTITIONS_A_STEP - 1:
            yield
    return b"".join(parts)


def _racks(replicas: tuple[int, ...], image: ClusterImage) -> bytes:
    brokers = (image.brokers.get(replica) for replica in replicas)
    racks = sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None)
    return b"".join(_INT.pack(len(rack)) + _text(rack) for rack in racks)


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return encoded + _INT.pack(len(encoded) // 2)


def _at_once(steps: Generator[None, None, int]) -> int:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            value: int = stop.value
            return value
