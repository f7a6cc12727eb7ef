"""What ShareGroupDescribe says of a group: what is committed."""

from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.share.group import ShareGroup
from penstock.coordinator.group.share.state import ShareGroupView
from penstock.coordinator.group.share.values import Subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

ASSIGNOR = "simple"


def describe_group(group: ShareGroup | None, group_id: str, topics: Topics) -> DescribedGroup:
    if group is None or group.committed.is_empty:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"There is no share group {group_id}.",
        )
    view = group.committed
    return DescribedGroup(
        group_id=group_id,
        group_state=view.state,
        group_epoch=view.epoch,
        assignment_epoch=view.assignment.epoch,
        assignor_name=ASSIGNOR,
        members=[_member(view, member_id, member, topics) for member_id, member in view.members.items()],
    )


def _member(view: ShareGroupView, member_id: str, member: Subscription, topics: Topics) -> Member:
    current = view.current(member_id)
    named = [(topic, topics.name_of(topic), list(indexes)) for topic, indexes in current.assigned.items()]
    return Member(
        member_id=member_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic, topic_name=name, partitions=indexes)
                for topic, name, indexes in named
                if name is not None
            ]
        ),
    )
