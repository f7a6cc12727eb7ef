"""Partitions by what they are found for: those of one broker, those without a leader, those on the move.

With it, what a broker's coming or going costs depends on that broker's partitions, never on all that there are. The
`ClusterImage` keeps it up to date as records are applied; it follows from the partitions, so no record and no snapshot
holds it.

Partitions are held by topic, as a number whose bit n stands for partition n: small, and cheap to copy.
"""

from collections.abc import Iterator
from typing import Final

from penstock.metadata.topics import NO_LEADER, PartitionImage
from penstock.protocol.internal_topics import STORAGE_GROUPS

Partitions = dict[str, int]
"""The keys are names of topics; bit n of the number stands for partition n."""

_BY_BROKER: Final = ("_eligible", "_in_sync", "_led", "_preferred")
_OF_CLUSTER: Final = ("leaderless", "moved", "reassigning", "under_replicated")


class PartitionIndex:
    __slots__ = (*_BY_BROKER, *_OF_CLUSTER)

    def __init__(self) -> None:
        self._in_sync: dict[int, Partitions] = {}
        self._eligible: dict[int, Partitions] = {}
        self._led: dict[int, Partitions] = {}
        self._preferred: dict[int, Partitions] = {}
        self.leaderless: Partitions = {}
        self.moved: Partitions = {}
        """Their leader is not the first of their replicas. Partitions in a storage group go with the group, which is
        one of them.
        """
        self.reassigning: Partitions = {}
        self.under_replicated: Partitions = {}
        """They have a replica that is not in sync; none of a storage group, whose ISR does not elect its leader."""

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
            _put(self.under_replicated, topic, bit, len(after.isr) < len(after.replicas))
        _put(self.reassigning, topic, bit, bool(after.adding_replicas or after.removing_replicas))

    def removed(self, topic: str) -> None:
        for by_broker in (self._in_sync, self._eligible, self._led, self._preferred):
            for broker_id in list(by_broker):
                by_broker[broker_id].pop(topic, None)
                if not by_broker[broker_id]:
                    del by_broker[broker_id]
        for partitions in (self.leaderless, self.moved, self.reassigning, self.under_replicated):
            partitions.pop(topic, None)

    def copy(self) -> "PartitionIndex":
        other = PartitionIndex()
        for name in _BY_BROKER:
            by_broker: dict[int, Partitions] = getattr(self, name)
            setattr(other, name, {broker_id: dict(partitions) for broker_id, partitions in by_broker.items()})
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


def _follow(
    by_broker: dict[int, Partitions], topic: str, bit: int, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """The partition belongs to the brokers `after`, and no more to the others of `before`."""
    if before == after:
        return
    for broker_id in before:
        if broker_id not in after:
            partitions = by_broker[broker_id]
            _put(partitions, topic, bit, False)
            if not partitions:
                del by_broker[broker_id]
    for broker_id in after:
        if broker_id not in before:
            _put(by_broker.setdefault(broker_id, {}), topic, bit, True)


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
