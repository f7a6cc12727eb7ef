"""Keys and their last offsets in plain Python: what runs without numba, and the oracle for the compiled twin."""

from hashlib import md5

from penstock.log.compaction.keys import Kept
from penstock.log.compaction.places import Place, places
from penstock.protocol.batch import BatchHeader
from penstock.protocol.varint import Buffer

BYTES_PER_KEY = 192
"""Of a key in a dictionary: the hash, the offset, and the table when it has just grown."""


class PlainKeys:
    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        self.capacity = max(1, int(buffer_bytes * load_factor) // BYTES_PER_KEY)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def index(self, data: Buffer, header: BatchHeader, first_offset: int) -> bool:
        offsets, base_offset = self._offsets, header.base_offset
        for place in places(data, header.record_count):
            offset = base_offset + place.offset_delta
            if place.key_length < 0 or offset < first_offset:
                continue
            if len(offsets) >= self.capacity:
                return False
            offsets[_hash(data, place)] = offset
        return True

    def keep(self, data: Buffer, header: BatchHeader, latest_offset: int, drops_tombstones: bool) -> Kept:
        kept: list[Place] = []
        for place in places(data, header.record_count):
            offset = header.base_offset + place.offset_delta
            if offset <= latest_offset:
                if place.key_length < 0:
                    continue
                if self._offsets.get(_hash(data, place), -1) > offset or (drops_tombstones and place.value_length < 0):
                    continue
            kept.append(place)
        return Kept(
            data if len(kept) == header.record_count else b"".join([data[one.begin : one.end] for one in kept]),
            len(kept),
            any(one.value_length < 0 for one in kept),
            header.base_timestamp + max((one.timestamp_delta for one in kept), default=0),
        )


def _hash(data: Buffer, place: Place) -> bytes:
    key = data[place.key_begin : place.key_begin + place.key_length]
    return md5(key, usedforsecurity=False).digest()
