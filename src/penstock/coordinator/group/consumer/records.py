"""The records of consumer groups in `__consumer_offsets`, in Kafka's layouts: keys 3 to 8, and 16.

| key | its name | what it says |
| --- | --- | --- |
| 3 | | the epoch of the group, and a hash of the topics that it reads |
| 4 | | what Kafka before 4.1 wrote in place of the hash: only ever taken away |
| 5 | member | what a member subscribes to |
| 6 | | the epoch of the assignment, and when it was worked out |
| 7 | member | the partitions that a member is to have |
| 8 | member | the partitions that a member has |
| 16 | expression | the topics whose names it matches |
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.usual_values import usual_current, usual_target
from penstock.coordinator.group.consumer.values import Current, GroupEpoch, Owned, Resolved, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.part_codec import PartCodec, PartLayout
from penstock.protocol.codec import decode
from penstock.protocol.schema import Message, array, field, none
from penstock.protocol.uuids import ZERO_UUID

GROUP: Final = 3
LEGACY: Final = 4
MEMBER: Final = 5
ASSIGNMENT: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
EXPRESSION: Final = 16

KEYS: Final = frozenset({GROUP, LEGACY, MEMBER, ASSIGNMENT, TARGET, CURRENT, EXPRESSION})

_VERSION: Final = b"\0\0"
"""Of all values."""
_SMALL_BYTES: Final = 512


class LegacyValue(Message, versions="0"):
    """Nobody reads it."""


class GroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = field("int32", "0+", default=0)
    metadata_hash: int = field("int64", "0+", default=0, tag=0, tagged="0+")


class ClassicProtocol(Message):
    name: str = field("string", "0+", default="")
    metadata: bytes = field("bytes", "0+", default=b"")


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = field("int32", "0+", default=0)
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+", default_factory=list)


class MemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = field("string", "0+", nullable="0+", default=None)
    rack_id: str | None = field("string", "0+", nullable="0+", default=None)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    subscribed_topic_names: list[str] = array("string", "0+", default_factory=list)
    subscribed_topic_regex: str | None = field("string", "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    server_assignor: str | None = field("string", "0+", nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, "0+", nullable="0+", default=None, tag=0, tagged="0+"
    )


class TargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = field("int32", "0+", default=0)
    assignment_timestamp: int = field("int64", "0+", default=0, tag=0, tagged="0+")


class TargetTopicPartitions(Message):
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)


class TargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions, "0+", default_factory=list)


class CurrentTopicPartitions(Message):
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)
    assignment_epochs: list[int] | None = array("int32", "0+", nullable="0+", default_factory=none, tag=0, tagged="0+")


class CurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = field("int32", "0+", default=0)
    previous_member_epoch: int = field("int32", "0+", default=0)
    state: int = field("int8", "0+", default=0)
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions, "0+", default_factory=list)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(
        CurrentTopicPartitions, "0+", default_factory=list
    )


class RegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array("string", "0+", default_factory=list)
    version: int = field("int64", "0+", default=0)
    timestamp: int = field("int64", "0+", default=0)


# -- to bytes ---------------------------------------------------------------------------------------------------------


def _write_member(value: Subscription) -> MemberMetadataValue:
    return MemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
        subscribed_topic_regex=value.pattern,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.assignor,
        classic_member_metadata=value.classic,
    )


def _write_target(value: Target) -> TargetAssignmentMemberValue:
    return TargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic, partitions=list(partitions)) for topic, partitions in value.items()
        ]
    )


def _write_current(value: Current) -> CurrentMemberAssignmentValue:
    return CurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        assigned_partitions=_write_owned(value.assigned),
        partitions_pending_revocation=_write_owned(value.revoking),
    )


def _write_owned(owned: Owned) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(topic_id=topic, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic, epochs in owned.items()
    ]


# -- from bytes -------------------------------------------------------------------------------------------------------


def _read_member(value: MemberMetadataValue) -> Subscription:
    return Subscription(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(sorted(value.subscribed_topic_names)),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        value.classic_member_metadata,
    )


@lru_cache(maxsize=1000)
def _kept_member(value: bytes) -> Subscription:
    return _read_member(decode(MemberMetadataValue, 0, value, len(_VERSION))[0])


def _usual_member(value: bytes) -> Subscription | None:
    """Members of a group, and of one that comes again and again, say the same: they share it. None if it is large."""
    is_usual = value.startswith(_VERSION) and len(value) <= _SMALL_BYTES
    return _kept_member(value) if is_usual else None


def _read_target(value: TargetAssignmentMemberValue) -> Target:
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in value.topic_partitions}


def _read_current(value: CurrentMemberAssignmentValue) -> Current:
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _read_owned(value.assigned_partitions, value.member_epoch),
        _read_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_owned(topics: list[CurrentTopicPartitions], member_epoch: int) -> Owned:
    """Kafka before 4.3 wrote no epochs: then that of the member counts, and 0 where it is away. So it is, in Kafka as
    well, where there are more epochs than partitions, or fewer.
    """
    owned: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


LAYOUTS: Final[Mapping[int, PartLayout]] = {
    GROUP: PartLayout(
        GroupMetadataValue,
        lambda value: GroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash),
        lambda value: GroupEpoch(value.epoch, value.metadata_hash),
    ),
    LEGACY: PartLayout(LegacyValue, lambda value: LegacyValue(), lambda value: True),
    MEMBER: PartLayout(MemberMetadataValue, _write_member, _read_member, is_named=True, usual=_usual_member),
    ASSIGNMENT: PartLayout(
        TargetAssignmentMetadataValue,
        lambda value: TargetAssignmentMetadataValue(
            assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
        ),
        lambda value: AssignmentEpoch(value.assignment_epoch, value.assignment_timestamp),
    ),
    TARGET: PartLayout(TargetAssignmentMemberValue, _write_target, _read_target, is_named=True, usual=usual_target),
    CURRENT: PartLayout(
        CurrentMemberAssignmentValue, _write_current, _read_current, is_named=True, usual=usual_current
    ),
    EXPRESSION: PartLayout(
        RegularExpressionValue,
        lambda value: RegularExpressionValue(
            topics=list(value.topics), version=value.version, timestamp=value.timestamp_ms
        ),
        lambda value: Resolved(tuple(sorted(value.topics)), value.version, value.timestamp),
        is_named=True,
    ),
}

CODEC: Final = PartCodec(LAYOUTS)
