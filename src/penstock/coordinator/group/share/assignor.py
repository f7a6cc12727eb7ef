"""The simple assignor: each partition has so many members that all members have something, and nobody much more.

A topic's partitions go to the members that read it. Where all read the same topics, these are looked at together; else
each topic by itself. Members keep what they have, as far as it is not too much.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target, Targets
from penstock.protocol.value import Value

Partition = tuple[UUID, int]


class Reader(Value):
    """`topics` are those that exist."""

    topics: frozenset[UUID]
    target: Target
    """As it was before."""


class Spec(Value):
    readers: Mapping[str, Reader]
    partitions: Mapping[UUID, tuple[int, ...]]
    """What can be assigned."""

    @property
    def size(self) -> int:
        """Members and partitions together, which is what it takes."""
        return len(self.readers) + sum(map(len, self.partitions.values()))


def assign(spec: Spec) -> Targets:
    """To each member."""
    shares: dict[str, dict[Partition, None]] = {member_id: {} for member_id in spec.readers}
    subscriptions = {reader.topics for reader in spec.readers.values()}
    if len(subscriptions) == 1:
        (topics,) = subscriptions
        places = [(topic, index) for topic in spec.partitions if topic in topics for index in spec.partitions[topic]]
        _share_out(list(spec.readers), places, spec, shares)
    else:
        for topic, indexes in spec.partitions.items():
            members = [member_id for member_id, reader in spec.readers.items() if topic in reader.topics]
            _share_out(members, [(topic, index) for index in indexes], spec, shares)
    return {member_id: _target(share) for member_id, share in shares.items()}


def _share_out(
    members: Sequence[str], places: Sequence[Partition], spec: Spec, shares: dict[str, dict[Partition, None]]
) -> None:
    """These places among these members, which all read them."""
    if not members or not places:
        return
    sharing = -(-len(members) // len(places))
    wanted = _counts(sharing * len(places), len(members))
    left = dict.fromkeys(places, sharing)
    room = dict(zip(members, wanted, strict=True))
    for member_id in members:  # what it has, as far as it may
        for place in _had(spec.readers[member_id].target, left):
            if not room[member_id]:
                break
            if left[place]:
                shares[member_id][place] = None
                left[place] -= 1
                room[member_id] -= 1
    _fill(left, {member_id: count for member_id, count in room.items() if count}, shares)


def _fill(left: Mapping[Partition, int], room: dict[str, int], shares: dict[str, dict[Partition, None]]) -> None:
    """Members in turn. A place that all who have room have already is left with fewer."""
    waiting = list(room)
    for place, count in left.items():
        passed: list[str] = []
        while count and waiting:
            member_id = waiting.pop(0)
            if place in shares[member_id]:
                passed.append(member_id)
                continue
            shares[member_id][place] = None
            room[member_id] -= 1
            count -= 1
            if room[member_id]:
                passed.append(member_id)
        waiting += passed


def _counts(all_in_all: int, members: int) -> list[int]:
    """What each of them is to have, as Kafka divides it."""
    ends = [-(-all_in_all * number // members) for number in range(members + 1)]
    return [end - begin for begin, end in pairwise(ends)]


def _had(target: Target, left: Mapping[Partition, int]) -> list[Partition]:
    return [(topic, index) for topic, indexes in target.items() for index in indexes if (topic, index) in left]


def _target(share: Mapping[Partition, None]) -> Target:
    target: dict[UUID, list[int]] = {}
    for topic, index in share:
        target.setdefault(topic, []).append(index)
    return {topic: tuple(sorted(indexes)) for topic, indexes in target.items()}
