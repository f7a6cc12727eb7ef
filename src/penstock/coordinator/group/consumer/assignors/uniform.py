"""Uniform: members get the same number of partitions, or one more, and keep what they can of what they had."""

from uuid import UUID

from penstock.coordinator.group.consumer.assignors import uniform_mixed
from penstock.coordinator.group.consumer.assignors.spec import Spec, Targets, sorted_topics


def assign(spec: Spec) -> Targets:
    return _assign_alike(spec) if spec.is_homogeneous else uniform_mixed.assign(spec)


def _assign_alike(spec: Spec) -> Targets:
    """All members read the same topics. Who comes first keeps what several have: so it may be where some targets of an
    assignment were written, and the others were not.
    """
    total, size = sum(spec.partitions.values()), len(spec.readers)
    quota, extra = divmod(total, size) if size else (0, 0)
    kept: dict[str, dict[UUID, set[int]]] = {}
    taken = set[tuple[UUID, int]]()
    missing: list[tuple[str, int]] = []
    for number, (member_id, reader) in enumerate(spec.readers.items()):
        has_extra = extra > 0
        left = quota + has_extra
        kept[member_id] = mine = {}
        for topic, partitions in reader.target.items():
            count = spec.partitions.get(topic, 0)
            there = [one for one in partitions if one < count and (topic, one) not in taken]
            mine[topic] = set(there[:left])
            taken.update((topic, one) for one in there[:left])
            left -= len(mine[topic])
        if left and has_extra and size - number > extra:
            left, has_extra = left - 1, False  # another member may have it, as long as some are left to take it
        extra -= has_extra
        if left:
            missing.append((member_id, left))
    everything = ((topic, one) for topic, count in spec.partitions.items() for one in range(count))
    rest = (place for place in everything if place not in taken)
    for member_id, left in missing:
        for _, (topic, one) in zip(range(left), rest, strict=False):
            kept[member_id].setdefault(topic, set()).add(one)
    return {member_id: sorted_topics(topics) for member_id, topics in kept.items()}
