"""Uniform: members get the same number of partitions, or one more, and keep what they can of what they had."""

from uuid import UUID

from penstock.coordinator.group.consumer.assignors import uniform_mixed
from penstock.coordinator.group.consumer.assignors.spec import Spec, Targets, sorted_topics


def assign(spec: Spec) -> Targets:
    return _assign_alike(spec) if spec.is_homogeneous else uniform_mixed.assign(spec)


def _assign_alike(spec: Spec) -> Targets:
    """All members read the same topics."""
    owned = {
        (topic, partition)
        for reader in spec.readers.values()
        for topic, partitions in reader.target.items()
        for partition in partitions
    }
    total, size = sum(spec.partitions.values()), len(spec.readers)
    free = [
        (topic, one) for topic, count in spec.partitions.items() for one in range(count) if (topic, one) not in owned
    ]
    quota, extra = divmod(total, size) if size else (0, 0)
    kept: dict[str, dict[UUID, set[int]]] = {}
    missing: list[tuple[str, int]] = []
    for number, (member_id, reader) in enumerate(spec.readers.items()):
        has_extra = extra > 0
        left = quota + has_extra
        kept[member_id] = mine = {}
        for topic, partitions in reader.target.items():
            there = [one for one in partitions if one < spec.partitions.get(topic, 0)]
            mine[topic] = set(there[:left])
            free += [(topic, one) for one in there[left:]]
            left -= min(left, len(there))
        if left and has_extra and size - number > extra:
            left, has_extra = left - 1, False  # another member may have it, as long as some are left to take it
        extra -= has_extra
        if left:
            missing.append((member_id, left))
    rest = iter(free)
    for member_id, left in missing:
        for _, (topic, one) in zip(range(left), rest, strict=False):
            kept[member_id].setdefault(topic, set()).add(one)
    return {member_id: sorted_topics(topics) for member_id, topics in kept.items()}
