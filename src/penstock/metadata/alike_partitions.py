"""Reads what a snapshot says of partitions: most are like another one, and what is alike is read once.

The frame of a PartitionRecord has the partition's number and the id of its topic in front, in places that never change;
all behind them is the state, and a node with very many partitions has few different ones.
"""

from typing import Final

from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import FRAME_VERSION, decode_record
from penstock.metadata.records import PartitionRecord
from penstock.metadata.topics import MAX_SHARED, PartitionImage
from penstock.protocol.uuids import uuid_of

_FRAMES: Final = frozenset(
    bytes((FRAME_VERSION, PartitionRecord.record_type, version)) for version in PartitionRecord.version_range()
)
_INDEX: Final = slice(3, 7)
_TOPIC: Final = slice(7, 23)


class AlikePartitions:
    """Applies the records of a snapshot, as bytes, to an image: as `image.apply(decode_record(value))`, but sooner."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._known: dict[tuple[bytes, bytes], PartitionImage] = {}
        """Partitions by what their records say of them, with the version of the layout."""

    def apply(self, value: bytes) -> None:
        """Raises DecodeError, UnsupportedMetadataError."""
        frame = value[: _INDEX.start]
        if frame not in _FRAMES:
            self._image.apply(decode_record(value))
            return
        state = frame, value[_TOPIC.stop :]
        known = self._known.get(state)
        if known is not None:
            index = int.from_bytes(value[_INDEX], signed=True)
            self._image.put_partition(uuid_of(value[_TOPIC]), index, known)
            return
        record = decode_record(value)
        assert isinstance(record, PartitionRecord)
        self._image.apply(record)
        if len(self._known) < MAX_SHARED:
            self._known[state] = self._image.topics_by_id[record.topic_id].partitions[record.partition_id]
