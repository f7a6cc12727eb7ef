"""The records of share groups in `__consumer_offsets`, in Kafka's layouts: keys 10 to 15.

| key | its name | what it says |
| --- | --- | --- |
| 10 | member | what a member subscribes to |
| 11 | | the epoch of the group, and a hash of the topics that it reads |
| 12 | | the epoch of the assignment, and when it was worked out |
| 13 | member | the partitions that a member is to have |
| 14 | member | the partitions that a member has |
| 15 | | the partitions that are initialized at the share coordinator, are about to be, or are to be deleted there |
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.values import GroupEpoch
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.part_codec import PartCodec, PartLayout
from penstock.coordinator.group.share.values import Current, Initialized, OfTopic, StatePartitions, Subscription
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID

MEMBER: Final = 10
GROUP: Final = 11
ASSIGNMENT: Final = 12
TARGET: Final = 13
CURRENT: Final = 14
PARTITIONS: Final = 15

KEYS: Final = frozenset({MEMBER, GROUP, ASSIGNMENT, TARGET, CURRENT, PARTITIONS})


class MemberMetadataValue(Message, versions="0", flexible="0+"):
    rack_id: str | None = field("string", "0+", nullable="0+", default=None)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = array("string", "0+", default_factory=list)


class GroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = field("int32", "0+", default=0)
    metadata_hash: int = field("int64", "0+", default=0)


class TargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = field("int32", "0+", default=0)
    assignment_timestamp: int = field("int64", "0+", default=0, tag=0, tagged="0+")


class TopicPartitions(Message):
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)


class TargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", default_factory=list)


class CurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = field("int32", "0+", default=0)
    previous_member_epoch: int = field("int32", "0+", default=0)
    state: int = field("int8", "0+", default=0)
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", default_factory=list)


class TopicPartitionsInfo(Message):
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class TopicInfo(Message):
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    topic_name: str = field("string", "0+", default="")


class StatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+", default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+", default_factory=list)
    deleting_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)


def _write_target(target: Target) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic, partitions=list(partitions)) for topic, partitions in target.items()]


def _read_target(topics: list[TopicPartitions]) -> Target:
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in topics}


def _write_topics(topics: Initialized) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic, topic_name=found.name, partitions=list(found.partitions))
        for topic, found in topics.items()
    ]


def _read_topics(topics: list[TopicPartitionsInfo]) -> Initialized:
    return {topic.topic_id: OfTopic(topic.topic_name, tuple(sorted(topic.partitions))) for topic in topics}


_LAYOUTS: Final[Mapping[int, PartLayout]] = {
    MEMBER: PartLayout(
        MemberMetadataValue,
        lambda value: MemberMetadataValue(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=list(value.topics),
        ),
        lambda value: Subscription(
            value.rack_id, value.client_id, value.client_host, tuple(sorted(value.subscribed_topic_names))
        ),
        is_named=True,
    ),
    GROUP: PartLayout(
        GroupMetadataValue,
        lambda value: GroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash),
        lambda value: GroupEpoch(value.epoch, value.metadata_hash),
    ),
    ASSIGNMENT: PartLayout(
        TargetAssignmentMetadataValue,
        lambda value: TargetAssignmentMetadataValue(
            assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
        ),
        lambda value: AssignmentEpoch(value.assignment_epoch, value.assignment_timestamp),
    ),
    TARGET: PartLayout(
        TargetAssignmentMemberValue,
        lambda value: TargetAssignmentMemberValue(topic_partitions=_write_target(value)),
        lambda value: _read_target(value.topic_partitions),
        is_named=True,
    ),
    CURRENT: PartLayout(
        CurrentMemberAssignmentValue,
        lambda value: CurrentMemberAssignmentValue(
            member_epoch=value.epoch,
            previous_member_epoch=value.previous_epoch,
            state=value.state,
            assigned_partitions=_write_target(value.assigned),
        ),
        lambda value: Current(
            value.member_epoch,
            value.previous_member_epoch,
            value.state,
            _read_target(value.assigned_partitions),
        ),
        is_named=True,
    ),
    PARTITIONS: PartLayout(
        StatePartitionMetadataValue,
        lambda value: StatePartitionMetadataValue(
            initializing_topics=_write_topics(value.initializing),
            initialized_topics=_write_topics(value.initialized),
            deleting_topics=[TopicInfo(topic_id=topic, topic_name=name) for topic, name in value.deleting.items()],
        ),
        lambda value: StatePartitions(
            _read_topics(value.initializing_topics),
            _read_topics(value.initialized_topics),
            {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
        ),
    ),
}

CODEC: Final = PartCodec(_LAYOUTS)
