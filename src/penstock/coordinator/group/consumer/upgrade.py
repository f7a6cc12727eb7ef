"""A classic group with members becomes a consumer group, when the first consumer joins it.

Its generation becomes the epoch, and its members stay: STABLE, with what they have, known by what they have said of
themselves. The consumer that joins opens the next epoch, by which they are called back. What is written is one batch,
together with the consumer.

What a member has is what it was assigned last, and what it said that it owns when it joined last, if nobody was
assigned that: a member that has not asked for its assignment yet has not given up what is not in it. Nobody else may
take that before the member has said so.
"""

from uuid import UUID

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.coordinator.group.consumer import embedded
from penstock.coordinator.group.consumer.embedded import Place, Said
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import (
    ASSIGNMENT,
    CURRENT,
    GROUP,
    MEMBER,
    TARGET,
    ClassicMemberMetadata,
    ClassicProtocol,
)
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.consumer.values import STABLE, Current, GroupEpoch, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError


def upgrade(house: ConsumerTable, draft: Draft[AnyRecord], classic: ClassicGroup) -> ConsumerGroup:
    """It is in no table yet. KafkaError(GROUP_ID_NOT_FOUND) if the group stays classic."""
    _check(house, classic)
    group_id, epoch = classic.group_id, max(classic.generation, 1)
    said = {member.member_id: _said(house, classic, member) for member in classic.members.values()}
    assigned = _assigned(house, classic)
    owned = _owned(said, assigned)
    if house.table.image.group(classic.kind, group_id) is not None:
        for record in classic.tombstones():
            draft.put(record)
    group = house.new_group(group_id)
    for member_id, member in classic.members.items():
        put(draft, group_id, MEMBER, member_id, _subscription(member, said[member_id]))
    put(draft, group_id, GROUP, "", GroupEpoch(epoch, house.topics.hash_of(group.state.topics, 0)))
    for member_id in classic.members:
        target = {topic: tuple(sorted(indexes)) for topic, indexes in _by_topic(assigned[member_id]).items()}
        put(draft, group_id, TARGET, member_id, target)
    put(draft, group_id, ASSIGNMENT, "", AssignmentEpoch(epoch, 0))
    for member_id in classic.members:
        has = {topic: dict.fromkeys(indexes, epoch) for topic, indexes in _by_topic(owned[member_id]).items()}
        put(draft, group_id, CURRENT, member_id, Current(epoch, epoch, STABLE, has))
    return group


def _check(house: ConsumerTable, classic: ClassicGroup) -> None:
    if not house.settings.migration_policy.upgrades:
        raise _refused(classic, "group.consumer.migration.policy does not let it become one")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(classic, f"its members are of the type {classic.protocol_type}")
    if len(classic.members) > house.settings.max_size:
        raise _refused(classic, f"it has more members than group.consumer.max.size={house.settings.max_size}")


def _refused(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {classic.group_id} is no consumer group: {why}")


def _said(house: ConsumerTable, classic: ClassicGroup, member: Member) -> Said:
    metadata = member.metadata(classic.protocol_name) or member.protocols[0][1]
    try:
        return embedded.read_subscription(metadata, house.topics)
    except DecodeError as error:
        raise _refused(classic, f"the subscription of {member.member_id} cannot be read ({error})") from error


def _assigned(house: ConsumerTable, classic: ClassicGroup) -> dict[str, tuple[Place, ...]]:
    holders: dict[Place, str] = {}
    found: dict[str, tuple[Place, ...]] = {}
    for member_id, member in classic.members.items():
        try:
            found[member_id] = embedded.read_assignment(member.assignment, house.topics)
        except DecodeError as error:
            raise _refused(classic, f"the assignment of {member_id} cannot be taken over: {error}") from error
        for place in found[member_id]:
            if holders.setdefault(place, member_id) != member_id:
                raise _refused(classic, f"{member_id} and {holders[place]} are assigned the same partition")
    return found


def _owned(said: dict[str, Said], assigned: dict[str, tuple[Place, ...]]) -> dict[str, dict[Place, None]]:
    owned = {member_id: dict.fromkeys(places) for member_id, places in assigned.items()}
    taken = {place for places in assigned.values() for place in places}
    for member_id, one in said.items():
        for place in one.owned:
            if place not in taken:
                taken.add(place)
                owned[member_id][place] = None
    return owned


def _by_topic(places: tuple[Place, ...] | dict[Place, None]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return topics


def _subscription(member: Member, said: Said) -> Subscription:
    return Subscription(
        member.instance_id,
        said.rack,
        member.client_id,
        member.client_host,
        said.topics,
        None,
        member.rebalance_timeout_ms,
        None,
        classic_metadata(member.session_timeout_ms, member.protocols),
    )


def classic_metadata(session_timeout_ms: int, protocols: list[tuple[str, bytes]]) -> ClassicMemberMetadata:
    """What a classic member is known by."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )
