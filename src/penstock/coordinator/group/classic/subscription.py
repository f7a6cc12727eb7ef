"""What the consumer protocol says of a group's members: the one place where the coordinator looks into metadata.

It does so only to protect offsets that are in use. Assignments it never reads.
"""

import struct
from collections.abc import Iterable
from typing import Final

from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NEWEST_VERSION: Final = 3
"""Later versions only add fields at the end: they are read as this one."""

_VERSION: Final = struct.Struct(">h")


def all_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """None if a subscription cannot be read."""
    topics: set[str] = set()
    for one in metadata:
        named = subscribed_topics(one)
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """None if these bytes are no subscription."""
    if len(metadata) < _VERSION.size:
        return None
    version = _VERSION.unpack_from(metadata)[0]
    if version < 0:
        return None
    try:
        return decode(ConsumerProtocolSubscription, min(version, NEWEST_VERSION), metadata, _VERSION.size)[0].topics
    except DecodeError:
        return None
