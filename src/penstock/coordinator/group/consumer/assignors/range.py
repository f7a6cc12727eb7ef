"""Range: of each topic a member gets partitions that lie side by side; members with the same number in different topics
get the same numbers of partitions, so topics of the same partitioning can be joined.

Members count in the order of their instance ids, and after these in that of their member ids.
"""

from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Spec, Targets


def assign(spec: Spec) -> Targets:
    in_order = sorted(
        spec.readers.items(), key=lambda item: (item[1].instance_id is None, item[1].instance_id or item[0])
    )
    count: dict[UUID, int] = {}
    for _, reader in in_order:
        for topic in sorted(reader.topics):
            count[topic] = count.get(topic, 0) + 1
    next_one = dict.fromkeys(count, 0)
    served = dict.fromkeys(count, 0)
    targets: Targets = {}
    for member_id, reader in in_order:
        target: dict[UUID, tuple[int, ...]] = {}
        for topic in sorted(reader.topics):
            quota, extra = divmod(spec.partitions[topic], count[topic])
            begin = next_one[topic]
            end = next_one[topic] = begin + quota + (served[topic] < extra)
            served[topic] += 1
            if begin < end:
                target[topic] = tuple(range(begin, end))
        targets[member_id] = target
    return targets
