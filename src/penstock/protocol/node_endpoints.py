"""Where leaders are, as answers to Produce and Fetch tell clients that asked another node (KIP-951)."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.protocol.varint import encode_uvarint

_INT32: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"
_TAG_0_ALONE: Final = b"\x01\x00"


class NodeEndpoint(NamedTuple):
    """A broker, and where the client that asks can reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_endpoints_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields at the end of a response: the endpoints under tag 0, nothing where there are none."""
    if not endpoints:
        return _NO_TAGS
    value = bytearray(encode_uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        value += _INT32.pack(node_id) + _string(host) + _INT32.pack(port)
        value += (b"\x00" if rack is None else _string(rack)) + _NO_TAGS
    return _TAG_0_ALONE + encode_uvarint(len(value)) + bytes(value)


def _string(text: str) -> bytes:
    data = text.encode()
    return encode_uvarint(len(data) + 1) + data
