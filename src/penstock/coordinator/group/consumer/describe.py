"""What ConsumerGroupDescribe says of a group: what is committed."""

from collections.abc import Mapping
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.state import GroupView
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CONSUMER = 1
CLASSIC = 0


def describe_group(
    group: ConsumerGroup | None, group_id: str, topics: Topics, assignors: tuple[str, ...]
) -> DescribedGroup:
    if group is None or group.committed.is_empty:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"There is no consumer group {group_id}.",
        )
    view = group.committed
    return DescribedGroup(
        group_id=group_id,
        group_state=view.state,
        group_epoch=view.epoch,
        assignment_epoch=view.assignment.epoch,
        assignor_name=view.preferred_assignor(assignors),
        members=[_member(view, member_id, member, topics) for member_id, member in view.members.items()],
    )


def _member(view: GroupView, member_id: str, member: Subscription, topics: Topics) -> Member:
    current = view.current(member_id)
    return Member(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(_owned(current), topics),
        target_assignment=_assignment(view.target(member_id), topics),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _owned(current: Current) -> Target:
    """Also what the member has not said that it has given up: it is responsible for that still."""
    owned: dict[UUID, tuple[int, ...]] = {}
    for topic in dict.fromkeys([*current.assigned, *current.revoking]):
        owned[topic] = tuple(sorted([*current.assigned.get(topic, ()), *current.revoking.get(topic, ())]))
    return owned


def _assignment(partitions: Mapping[UUID, tuple[int, ...]], topics: Topics) -> Assignment:
    named = [(topic, topics.name_of(topic), list(indexes)) for topic, indexes in partitions.items()]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=name, partitions=indexes)
            for topic, name, indexes in named
            if name is not None
        ]
    )
