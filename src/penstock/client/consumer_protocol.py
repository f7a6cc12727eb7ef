"""What the members of a classic consumer group say to each other: subscriptions and assignments.

Both begin with a version (int16) of their own. The coordinator hands them on and does not look inside; Kafka's tools
and other implementations of clients do.
"""

import struct
from collections.abc import Collection, Sequence
from typing import Final

from penstock.client.assignors import GroupMember
from penstock.client.values import TopicPartition, numbers_by_topic
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.schema import Message, array, field

PROTOCOL_TYPE: Final = "consumer"
SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 3
_VERSION = struct.Struct(">h")
_COUNT = struct.Struct(">i")


class _StickyTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class _StickyUserData(Message, versions="0-1"):
    topics: list[_StickyTopic] = array(_StickyTopic, "0+", default_factory=list)
    generation: int = field("int32", "1+", default=-1)


def encode_subscription(
    topics: Collection[str],
    owned: Collection[TopicPartition] = (),
    generation: int = -1,
    *,
    user_data: bytes | None = None,
    rack: str | None = None,
) -> bytes:
    """The topics and what the member owned in the last generation that it took part in."""
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            consumer_protocol_subscription.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(owned)
        ],
        generation_id=generation,
        rack_id=rack,
    )
    return _VERSION.pack(SUBSCRIPTION_VERSION) + encode(message, SUBSCRIPTION_VERSION)


def decode_subscription(member_id: str, instance_id: str | None, data: bytes) -> GroupMember:
    """The member that wrote this; DecodeError. Older clients say what they owned, or when, in their user data."""
    version = min(_version_of(data), SUBSCRIPTION_VERSION)
    message, _ = decode(ConsumerProtocolSubscription, version, data, _VERSION.size)
    owned = tuple(TopicPartition(row.topic, number) for row in message.owned_partitions for number in row.partitions)
    generation = message.generation_id
    if owned and generation < 0 and message.user_data and len(message.user_data) == _COUNT.size:
        (generation,) = _COUNT.unpack(message.user_data)
    elif not owned and message.user_data:
        owned, generation = decode_sticky_user_data(message.user_data)
    return GroupMember(member_id, frozenset(message.topics), instance_id, owned, generation)


def encode_assignment(partitions: Collection[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol_assignment.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(partitions)
        ],
        user_data=None,
    )
    return _VERSION.pack(ASSIGNMENT_VERSION) + encode(message, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Sorted; no bytes at all mean no partitions; DecodeError."""
    if not data:
        return []
    version = min(_version_of(data), ASSIGNMENT_VERSION)
    message, _ = decode(ConsumerProtocolAssignment, version, data, _VERSION.size)
    return sorted(TopicPartition(row.topic, number) for row in message.assigned_partitions for number in row.partitions)


def encode_sticky_user_data(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """The sticky assignor's own layout (version 1), which carries what a member owned: array of topics, then int32."""
    topics = [_StickyTopic(name=name, partitions=numbers) for name, numbers in numbers_by_topic(owned)]
    return encode(_StickyUserData(topics=topics, generation=generation), 1)


def encode_generation(generation: int) -> bytes:
    """What the cooperative sticky assignor says beside the subscription: when the member owned what it owns."""
    return _COUNT.pack(generation)


def decode_sticky_user_data(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """What a sticky member owned, and in which generation (-1 in version 0 of the layout, which does not say)."""
    for version in (1, 0):
        try:
            found, _ = decode(_StickyUserData, version, data)
        except DecodeError:
            continue
        owned = (TopicPartition(topic.name, number) for topic in found.topics for number in topic.partitions)
        return tuple(owned), found.generation
    return (), -1  # another assignor's data: not ours to read


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes where the version of a consumer's protocol was due")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version} of a consumer's protocol")
    return version
