"""Partitions by what they are found for: those of one broker, those without a leader, those on the move.

With it, what a broker's coming or going costs depends on that broker's partitions, never on all that there are. The
`ClusterImage` keeps it up to date as records are applied; it follows from the partitions, so no record and no snapshot
holds it.

Partitions are held by topic, as a number whose bit n stands for partition n: small, and cheap to copy.
"""

from collections.abc import Iterator

from penstock.metadata.topics import NO_LEADER, PartitionImage

Partitions = dict[str, int]
"""Partitions by the name of their topic; bit n of the number stands for partition n."""


class PartitionIndex:
    """Partitions by broker and by state."""

    __slots__ = ("_in_sync", "leaderless", "moved", "reassigning")

    def __init__(self) -> None:
        self._in_sync: dict[int, Partitions] = {}
        self.leaderless: Partitions = {}
        """The partitions without a leader."""
        self.moved: Partitions = {}
        """Those that another replica leads than the preferred one, which is the first."""
        self.reassigning: Partitions = {}
        """Those that are on their way to other replicas."""

    def in_sync(self, broker_id: int) -> Partitions:
        """The partitions that a broker is in sync with; also of a broker that is not registered any more."""
        return self._in_sync.get(broker_id, {})

    def brokers_in_sync(self) -> list[int]:
        """The brokers that are in sync with anything."""
        return list(self._in_sync)

    def changed(self, topic: str, index: int, before: PartitionImage | None, after: PartitionImage) -> None:
        """Notes that a partition is new, if `before` is None, or has become another one."""
        bit = 1 << index
        old_isr = before.isr if before is not None else ()
        if old_isr != after.isr:
            for broker_id in old_isr:
                if broker_id not in after.isr:
                    self._leave(broker_id, topic, bit)
            for broker_id in after.isr:
                if broker_id not in old_isr:
                    _put(self._in_sync.setdefault(broker_id, {}), topic, bit, True)
        _put(self.leaderless, topic, bit, after.leader == NO_LEADER)
        _put(
            self.moved, topic, bit, after.leader not in (NO_LEADER, after.replicas[0] if after.replicas else NO_LEADER)
        )
        _put(self.reassigning, topic, bit, bool(after.adding_replicas or after.removing_replicas))

    def removed(self, topic: str) -> None:
        """Notes that a topic is gone with its partitions."""
        for broker_id in list(self._in_sync):
            partitions = self._in_sync[broker_id]
            partitions.pop(topic, None)
            if not partitions:
                del self._in_sync[broker_id]
        for partitions in (self.leaderless, self.moved, self.reassigning):
            partitions.pop(topic, None)

    def copy(self) -> "PartitionIndex":
        """An index of its own that is equal to this one."""
        other = PartitionIndex()
        other._in_sync = {broker_id: dict(partitions) for broker_id, partitions in self._in_sync.items()}
        other.leaderless = dict(self.leaderless)
        other.moved = dict(self.moved)
        other.reassigning = dict(self.reassigning)
        return other

    def _leave(self, broker_id: int, topic: str, bit: int) -> None:
        partitions = self._in_sync[broker_id]
        _put(partitions, topic, bit, False)
        if not partitions:
            del self._in_sync[broker_id]


def each(partitions: Partitions) -> Iterator[tuple[str, int]]:
    """Each partition as its topic's name and its own number."""
    for topic, bits in partitions.items():
        while bits:
            lowest = bits & -bits
            yield topic, lowest.bit_length() - 1
            bits ^= lowest


def taken_from(partitions: Partitions) -> Iterator[tuple[str, int]]:
    """The same, and each is taken out before it is given: what is left there was not come to."""
    for topic, bits in list(partitions.items()):
        while bits:
            lowest = bits & -bits
            bits ^= lowest
            if bits:
                partitions[topic] = bits
            else:
                del partitions[topic]
            yield topic, lowest.bit_length() - 1


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
