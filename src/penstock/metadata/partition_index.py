"""Partitions by what they are found for: those of one broker, those without a leader, those on the move.

With it, what a broker's coming or going costs depends on that broker's partitions, never on all that there are. The
`ClusterImage` keeps it up to date as records are applied; it follows from the partitions, so no record and no snapshot
holds it.

Partitions are held by topic, as a number whose bit n stands for partition n: small, and cheap to copy.
"""

from collections.abc import Iterator
from typing import Final, TypeVar
from uuid import UUID

from penstock.metadata.topics import NO_LEADER, PartitionImage
from penstock.protocol.internal_topics import STORAGE_GROUPS

Partitions = dict[str, int]
"""The keys are names of topics; bit n of the number stands for partition n."""

Place = tuple[int, UUID]
"""A broker, and a directory of it."""

_KeyT = TypeVar("_KeyT", int, Place)

_BY_PLACE: Final = ("_eligible", "_in_sync", "_led", "_preferred", "behind")
_OF_CLUSTER: Final = ("leaderless", "moved", "reassigning")


class PartitionIndex:
    __slots__ = (*_BY_PLACE, *_OF_CLUSTER)

    def __init__(self) -> None:
        self._in_sync: dict[int, Partitions] = {}
        self._eligible: dict[int, Partitions] = {}
        self._led: dict[int, Partitions] = {}
        self._preferred: dict[int, Partitions] = {}
        self.behind: dict[Place, Partitions] = {}
        """Replicas that are not in sync; none of a storage group, whose ISR does not elect its leader."""
        self.leaderless: Partitions = {}
        self.moved: Partitions = {}
        """Their leader is not the first of their replicas. Partitions in a storage group go with the group, which is
        one of them.
        """
        self.reassigning: Partitions = {}

    def in_sync(self, broker_id: int) -> Partitions:
        """The broker may not be registered any more."""
        return self._in_sync.get(broker_id, {})

    def eligible(self, broker_id: int) -> Partitions:
        return self._eligible.get(broker_id, {})

    def led_by(self, broker_id: int) -> Partitions:
        return self._led.get(broker_id, {})

    def preferred(self, broker_id: int) -> Partitions:
        """The broker is the first of their replicas; storage groups count, the partitions in them do not."""
        return self._preferred.get(broker_id, {})

    def preferred_brokers(self) -> list[int]:
        return list(self._preferred)

    def brokers_in_sync(self) -> list[int]:
        return list(self._in_sync)

    def changed(
        self,
        topic: str,
        index: int,
        before: PartitionImage | None,
        after: PartitionImage,
        *,
        by_consensus: bool = False,
    ) -> None:
        """`before` is None for a new partition. `by_consensus`: a storage group elects its leader: no replica is
        preferred.
        """
        if before is not None and (
            before.leader == after.leader
            and before.isr == after.isr
            and before.replicas == after.replicas
            and before.directories == after.directories
            and before.eligible_leader_replicas == after.eligible_leader_replicas
            and before.adding_replicas == after.adding_replicas
            and before.removing_replicas == after.removing_replicas
        ):
            return  # for example a new epoch of the same leader
        bit = 1 << index
        _follow(self._in_sync, topic, bit, () if before is None else before.isr, after.isr)
        old_eligible = () if before is None else before.eligible_leader_replicas
        _follow(self._eligible, topic, bit, old_eligible, after.eligible_leader_replicas)
        old_leader = () if before is None or before.leader == NO_LEADER else (before.leader,)
        _follow(self._led, topic, bit, old_leader, () if after.leader == NO_LEADER else (after.leader,))
        _put(self.leaderless, topic, bit, after.leader == NO_LEADER)
        if not by_consensus or topic == STORAGE_GROUPS:
            _follow(self._preferred, topic, bit, () if before is None else before.replicas[:1], after.replicas[:1])
            preferred = after.replicas[0] if after.replicas else NO_LEADER
            _put(self.moved, topic, bit, after.leader not in (NO_LEADER, preferred))
        if not by_consensus:
            _follow(self.behind, topic, bit, _behind(before), _behind(after))
        _put(self.reassigning, topic, bit, bool(after.adding_replicas or after.removing_replicas))

    def removed(self, topic: str) -> None:
        for name in _BY_PLACE:
            by_place: dict[object, Partitions] = getattr(self, name)
            for place in list(by_place):
                by_place[place].pop(topic, None)
                if not by_place[place]:
                    del by_place[place]
        for name in _OF_CLUSTER:
            getattr(self, name).pop(topic, None)

    def copy(self) -> "PartitionIndex":
        other = PartitionIndex()
        for name in _BY_PLACE:
            by_place: dict[object, Partitions] = getattr(self, name)
            setattr(other, name, {place: dict(partitions) for place, partitions in by_place.items()})
        for name in _OF_CLUSTER:
            setattr(other, name, dict(getattr(self, name)))
        return other


def each(partitions: Partitions) -> Iterator[tuple[str, int]]:
    """Pairs of topic name and partition."""
    for topic, bits in partitions.items():
        while bits:
            lowest = bits & -bits
            yield topic, lowest.bit_length() - 1
            bits ^= lowest


def taken_from(partitions: Partitions, first: Partitions) -> Iterator[tuple[str, int]]:
    """As `each`, those in `first` before the others. Each is removed from `partitions` just before it is given."""
    for topic, bits in list(first.items()):
        yield from _taken(partitions, topic, partitions.get(topic, 0) & bits)
    for topic, bits in list(partitions.items()):
        yield from _taken(partitions, topic, bits)


def _taken(partitions: Partitions, topic: str, bits: int) -> Iterator[tuple[str, int]]:
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        _put(partitions, topic, lowest, False)
        yield topic, lowest.bit_length() - 1


def _behind(partition: PartitionImage | None) -> tuple[Place, ...]:
    if partition is None or len(partition.isr) == len(partition.replicas):
        return ()
    lacking = (node for node in partition.replicas if node not in partition.isr)
    return tuple((node, partition.directory_of(node)) for node in lacking)


def _follow(
    by_place: dict[_KeyT, Partitions], topic: str, bit: int, before: tuple[_KeyT, ...], after: tuple[_KeyT, ...]
) -> None:
    """The partition belongs to the places `after`, and no more to the others of `before`."""
    if before == after:
        return
    for place in before:
        if place not in after:
            partitions = by_place[place]
            _put(partitions, topic, bit, False)
            if not partitions:
                del by_place[place]
    for place in after:
        if place not in before:
            _put(by_place.setdefault(place, {}), topic, bit, True)


def _put(partitions: Partitions, topic: str, bit: int, is_one: bool) -> None:
    bits = partitions.get(topic, 0)
    if is_one:
        partitions[topic] = bits | bit
    elif bits & bit:
        bits ^= bit
        if bits:
            partitions[topic] = bits
        else:
            del partitions[topic]
