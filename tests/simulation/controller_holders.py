"""Who has all that is committed of each partition, as the brokers' logs would show it; the controller has to know it.

A leader commits only while enough replicas are in sync, and then all in sync have it and nobody else is sure to. While
too few are in sync nothing is committed, so who had all goes on having it, until it loses its records in a crash.
"""

from uuid import UUID

from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.topics import NO_LEADER

RECOVERING = 1
Key = tuple[UUID, int]


class Holders:
    """For each partition those who have all; `broken` says of a change what it promises in vain, or nothing."""

    def __init__(self) -> None:
        self._known: dict[Key, frozenset[int]] = {}

    def copy(self) -> "Holders":
        other = Holders()
        other._known = dict(self._known)
        return other

    def lose(self, broker_id: int) -> None:
        """A broker is back after a crash."""
        self._known = {key: has_all - {broker_id} for key, has_all in self._known.items()}

    def decided(
        self, key: Key, before: PartitionImage | None, now: PartitionImage, needed: int, *, by_leader: bool
    ) -> str:
        """A partition has changed; `needed` replicas must be in sync for anything to be committed. Its leader knows
        who has all, and lets nobody else in.
        """
        has_all = self._known.get(key, frozenset(now.isr))
        if by_leader:
            has_all |= frozenset(now.isr or now.eligible_leader_replicas)
        leads_anew = now.leader != NO_LEADER and (before is None or now.leader_epoch != before.leader_epoch)
        if leads_anew and now.leader not in has_all:
            if now.leader_recovery_state != RECOVERING:
                return f"{now.leader} leads and need not recover, {sorted(has_all)} have all"
            has_all = frozenset((now.leader,))
        in_vain = set(now.eligible_leader_replicas) - has_all
        has_all = frozenset(now.isr) if len(now.isr) >= needed else has_all | frozenset(now.isr)
        in_vain |= set(now.eligible_leader_replicas) - has_all
        self._known[key] = has_all
        return f"{sorted(in_vain)} cannot be eligible, {sorted(has_all)} have all" if in_vain else ""

    def trust(self, image: ClusterImage) -> None:
        """Nobody keeps track: who is in sync or eligible now is believed."""
        self._known = {
            (topic.topic_id, index): frozenset((*partition.isr, *partition.eligible_leader_replicas))
            for topic in image.topics.values()
            for index, partition in topic.partitions.items()
        }
