"""How a member comes to its target: what it keeps, what it has to give up first, and what it may take.

| state | what is asked | what follows |
| --- | --- | --- |
| STABLE, at the target's epoch | | nothing, but that topics it no longer reads are taken from it |
| STABLE, at another epoch | does it have what is not in the target? | give up, or take |
| UNREVOKED_PARTITIONS | does it still own what it is to give up, or not say? | it waits, at its old epoch |
| | otherwise | give up, or take |
| UNRELEASED_PARTITIONS | | give up, or take: perhaps more is free by now |
| any other | does it say that it owns nothing? | take; otherwise FENCED_MEMBER_EPOCH |

Give up: UNREVOKED_PARTITIONS, at the old epoch. Take: what nobody has, at the target's epoch; UNRELEASED_PARTITIONS if
others still have some of the target, else STABLE.
"""

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.values import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Current,
    Owned,
)
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

Said = Mapping[UUID, Collection[int]]
"""What a member says that it owns."""


class Wanted(Value):
    """What a member is to come to."""

    epoch: int
    target: Target
    reads: Callable[[UUID], bool]
    """Whether the member subscribes to the topic."""
    is_taken: Callable[[UUID, int], bool]
    """Whether some member has the partition."""


def reconciled(member: Current, wanted: Wanted, said: Said | None, *, subscription_changed: bool) -> Current:
    """The same object if nothing changes. KafkaError(FENCED_MEMBER_EPOCH)."""
    if member.state == STABLE:
        if member.epoch != wanted.epoch:
            return _next(member, member.epoch, wanted, said)
        return _without_unread(member, wanted, said) if subscription_changed else member
    if member.state == UNREVOKED_PARTITIONS:
        if not _owns_any(said, member.revoking):
            return _next(member, member.epoch, wanted, said)
        return _without_unread(member, wanted, said) if subscription_changed else member
    if member.state == UNRELEASED_PARTITIONS:
        return _next(member, member.epoch, wanted, said)
    if said is None or said:
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "the member is in a state of a newer coordinator: rejoin")
    return _next(member, wanted.epoch, wanted, said)


def _next(member: Current, epoch: int, wanted: Wanted, said: Said | None) -> Current:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    free: list[tuple[UUID, int]] = []
    is_unreleased = False
    for topic in dict.fromkeys([*wanted.target, *member.assigned]):
        target = wanted.target.get(topic, ()) if wanted.reads(topic) else ()
        goals = frozenset(target)
        has, own = member.assigned.get(topic, {}), member.revoking.get(topic, {})
        _add(kept, topic, {partition: since for partition, since in has.items() if partition in goals})
        _add(revoking, topic, {partition: since for partition, since in has.items() if partition not in goals})
        for partition in target:
            if partition in has:
                continue
            if partition not in own and wanted.is_taken(topic, partition):
                is_unreleased = True
            else:
                free.append((topic, partition))
    if revoking and _owns_any(said, revoking):
        return Current(epoch, member.epoch, UNREVOKED_PARTITIONS, kept, revoking)
    for topic, partition in free:
        kept.setdefault(topic, {})[partition] = wanted.epoch
    return Current(wanted.epoch, member.epoch, UNRELEASED_PARTITIONS if is_unreleased else STABLE, kept)


def _without_unread(member: Current, wanted: Wanted, said: Said | None) -> Current:
    """Topics that the member reads no longer are taken from it, before there is a new target."""
    unread = {topic: epochs for topic, epochs in member.assigned.items() if not wanted.reads(topic)}
    if not unread:
        return member
    assigned = {topic: epochs for topic, epochs in member.assigned.items() if topic not in unread}
    revoking = {topic: dict(epochs) for topic, epochs in member.revoking.items()}
    for topic, epochs in unread.items():
        revoking[topic] = revoking.get(topic, {}) | dict(epochs)
    if _owns_any(said, revoking):
        return Current(member.epoch, member.epoch, UNREVOKED_PARTITIONS, assigned, revoking)
    return member.replace(previous_epoch=member.epoch, assigned=assigned)


def _owns_any(said: Said | None, revoking: Owned) -> bool:
    """A member that does not say may own everything."""
    if said is None:
        return True
    return any(partition in revoking.get(topic, ()) for topic, partitions in said.items() for partition in partitions)


def _add(owned: dict[UUID, dict[int, int]], topic: UUID, epochs: dict[int, int]) -> None:
    if epochs:
        owned[topic] = epochs
