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

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.values import Current, GroupEpoch, Owned, Resolved, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
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

_VERSION: Final = struct.Struct(">h")
_VALUE_VERSION: Final = 0


class GroupKey(Message, versions="0"):
    group_id: str = field("string", "0+", default="")


class NamedKey(Message, versions="0"):
    """`name` is the id of a member, or an expression."""

    group_id: str = field("string", "0+", default="")
    name: str = field("string", "0+", default="")


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


def key_bytes(key: int, group_id: str, name: str) -> bytes:
    message = NamedKey(group_id=group_id, name=name) if key in _NAMED else GroupKey(group_id=group_id)
    return _VERSION.pack(key) + encode(message, 0)


def encoded(key: int, group_id: str, name: str, value: Any) -> KeyValue:
    written = None if value is None else _VERSION.pack(_VALUE_VERSION) + encode(_WRITTEN[key](value), _VALUE_VERSION)
    return key_bytes(key, group_id, name), written


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


_WRITTEN: Final[Mapping[int, Callable[[Any], Message]]] = {
    GROUP: lambda value: GroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash),
    MEMBER: _write_member,
    ASSIGNMENT: lambda value: TargetAssignmentMetadataValue(
        assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
    ),
    TARGET: _write_target,
    CURRENT: _write_current,
    EXPRESSION: lambda value: RegularExpressionValue(
        topics=list(value.topics), version=value.version, timestamp=value.timestamp_ms
    ),
}


# -- from bytes -------------------------------------------------------------------------------------------------------


def decoded(key: int, key_data: bytes, value: bytes | None) -> tuple[str, str, Any]:
    """The group, the name, and what the value says: None for a tombstone. DecodeError if it is not what it claims."""
    group_id, name, message = decoded_message(key, key_data, value)
    if value is None:
        return group_id, name, None
    return group_id, name, True if message is None else _READ[key][1](message)


def decoded_message(key: int, key_data: bytes, value: bytes | None) -> tuple[str, str, Message | None]:
    """As `decoded`, with the value in its layout. That of `LEGACY` nobody reads."""
    group_id, name = _decoded_key(key, key_data)
    if value is None:
        return group_id, name, None
    if len(value) < _VERSION.size:
        raise DecodeError("a record of a consumer group ends before its version")
    version = _VERSION.unpack_from(value)[0]
    if version != _VALUE_VERSION:
        raise DecodeError(f"a record of group {group_id} was written in version {version}, which we do not know")
    message = None if key == LEGACY else decode(_READ[key][0], version, value, _VERSION.size)[0]
    return group_id, name, message


def _decoded_key(key: int, data: bytes) -> tuple[str, str]:
    if key in _NAMED:
        named = decode(NamedKey, 0, data, _VERSION.size)[0]
        return named.group_id, named.name
    return decode(GroupKey, 0, data, _VERSION.size)[0].group_id, ""


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


_READ: Final[Mapping[int, tuple[type[Message], Callable[[Any], Any]]]] = {
    GROUP: (GroupMetadataValue, lambda value: GroupEpoch(value.epoch, value.metadata_hash)),
    MEMBER: (MemberMetadataValue, _read_member),
    ASSIGNMENT: (
        TargetAssignmentMetadataValue,
        lambda value: AssignmentEpoch(value.assignment_epoch, value.assignment_timestamp),
    ),
    TARGET: (TargetAssignmentMemberValue, _read_target),
    CURRENT: (CurrentMemberAssignmentValue, _read_current),
    EXPRESSION: (
        RegularExpressionValue,
        lambda value: Resolved(tuple(sorted(value.topics)), value.version, value.timestamp),
    ),
}

_NAMED: Final = frozenset({MEMBER, TARGET, CURRENT, EXPRESSION})
