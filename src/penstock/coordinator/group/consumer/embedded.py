"""What classic members put into the metadata of their protocols, and what they are assigned: the consumer protocol that
the classic one carries along.

Both begin with a version (int16). Later versions only add fields at the end: they are read as the newest that we know.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from penstock.coordinator.group.consumer.topics import Topics
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

NEWEST: Final = 3
_VERSION: Final = struct.Struct(">h")

Place = tuple[UUID, int]
MessageT = TypeVar("MessageT", bound=Message)


class Said(Value):
    """What a subscription says of its member."""

    topics: tuple[str, ...]
    """In ascending order."""
    owned: tuple[Place, ...]
    """Empty for a member that gives all up before it joins; topics that are gone are left out."""
    rack: str | None


def read_subscription(metadata: bytes, topics: Topics) -> Said:
    """DecodeError if these bytes are none."""
    said = _read(ConsumerProtocolSubscription, metadata)
    return Said(tuple(sorted(set(said.topics))), _places(said.owned_partitions, topics), said.rack_id)


def read_assignment(data: bytes, topics: Topics) -> tuple[Place, ...]:
    """DecodeError if these bytes are none, or have user data: an assignor of the client's own lives by that, and it
    would be lost.
    """
    if not data:
        return ()  # the member has never asked for one
    assigned = _read(ConsumerProtocolAssignment, data)
    if assigned.user_data:
        raise DecodeError("its assignor puts user data into assignments, which would be lost")
    return _places(assigned.assigned_partitions, topics)


def write_assignment(partitions: Mapping[UUID, Iterable[int]], metadata: bytes, topics: Topics) -> bytes:
    """In the version of the member's subscription."""
    version = min(_version(metadata), NEWEST)
    named = sorted((topics.name_of(topic) or "", sorted(indexes)) for topic, indexes in partitions.items())
    assigned = [TopicPartition(topic=name, partitions=indexes) for name, indexes in named if name and indexes]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
    return _VERSION.pack(version) + encode(message, version)


def _places(rows: Iterable[Any], topics: Topics) -> tuple[Place, ...]:
    named = ((topics.id_of(row.topic), row.partitions) for row in rows)
    return tuple((topic, index) for topic, indexes in named if topic is not None for index in indexes)


def _read(message: type[MessageT], data: bytes) -> MessageT:
    return decode(message, min(_version(data), NEWEST), data, _VERSION.size)[0]


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError("the consumer protocol ends before its version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"{version} is no version of the consumer protocol")
    return version
