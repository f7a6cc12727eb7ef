"""What answers to Produce and Fetch have in common: how a topic begins, and where leaders are (KIP-951)."""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from penstock.protocol.varint import encode_compact, encode_uvarint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"
_TAG_0_ALONE: Final = b"\x01\x00"
_TOPICS_KEPT: Final = 1024
_LONGEST_KEPT_NAME: Final = 249


class NodeEndpoint(NamedTuple):
    """A broker's address as the client that asks can reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_endpoints_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The endpoints are under tag 0; nothing where there are none."""
    if not endpoints:
        return _NO_TAGS
    value = bytearray(encode_uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        value += _INT32.pack(node_id) + encode_string(host, flexible=True) + _INT32.pack(port)
        value += encode_string(rack, flexible=True) + _NO_TAGS
    return _TAG_0_ALONE + encode_uvarint(len(value)) + bytes(value)


def encode_string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    data = text.encode()
    return (encode_compact(len(data)) if flexible else _INT16.pack(len(data))) + data


def encode_count(count: int, flexible: bool) -> bytes:
    return encode_compact(count) if flexible else _INT32.pack(count)


def encode_topic(topic: str | UUID, flexible: bool, partitions: int) -> bytes:
    """The bytes of names that can be topics are kept: they come again and again."""
    if isinstance(topic, UUID) or len(topic) <= _LONGEST_KEPT_NAME:
        return _known_topic(topic, flexible, partitions)
    return encode_string(topic, flexible) + encode_count(partitions, flexible)


@lru_cache(_TOPICS_KEPT)
def _known_topic(topic: str | UUID, flexible: bool, partitions: int) -> bytes:
    return (topic.bytes if isinstance(topic, UUID) else encode_string(topic, flexible)) + encode_count(
        partitions, flexible
    )
