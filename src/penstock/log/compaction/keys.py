"""The last offset of each key, and which records it leaves: what both ways to look at records have in common.

`data` is always what the records of one batch are without compression. Nonsense in it is a DecodeError.
"""

from typing import NamedTuple, Protocol

from penstock.protocol.batch import BatchHeader
from penstock.protocol.varint import Buffer


class Kept(NamedTuple):
    data: Buffer
    records: int
    has_tombstones: bool
    max_timestamp: int


class Keys(Protocol):
    """At most `capacity` keys, each known by a hash of 128 bits, with their last offsets."""

    capacity: int

    def __len__(self) -> int: ...

    def index(self, data: Buffer, header: BatchHeader, first_offset: int) -> bool:
        """From `first_offset` on; False if there was no room for all keys."""
        ...

    def keep(self, data: Buffer, header: BatchHeader, latest_offset: int, drops_tombstones: bool) -> Kept:
        """Leave out, up to `latest_offset`, each record whose key comes again later, or which has none."""
        ...
