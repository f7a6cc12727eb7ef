"""The records of `__consumer_offsets` in Kafka's layouts: committed offsets and the persisted form of a group.

A key starts with its version, which says what the record is about: 0 and 1 a committed offset, 2 a group. Keys that we
do not know (newer kinds of groups) are left alone. A value starts with its own version; none at all is a tombstone.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from penstock.coordinator.effects import KeyValue
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
GROUP_VALUE_VERSION: Final = 3
"""The newest that is not flexible, as Kafka writes it: older tools read it too."""
UNSETTLED_VALUE_VERSION: Final = 4
"""For what Kafka does not say, in tagged fields, which others pass over (KIP-915)."""
UNSETTLED_TAG: Final = 15_000
HISTORY_KEY_VERSION: Final = 15_000
"""A record of our own. Kafka passes over keys that it does not know, with a warning."""

_VERSION: Final = struct.Struct(">h")
_OFFSET_KEY: Final = _VERSION.pack(OFFSET_KEY_VERSION)
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_COMMON_VALUE: Final = struct.Struct(">hqihq")
"""A value of version 3 without metadata: version, offset, epoch, length of the metadata, time."""
_COMMON_VERSION: Final = 3
_USUAL_NAMES: Final = 512
"""Bytes of two names, with their lengths: longer ones are not remembered, as each may have 32 kB."""


class OffsetCommitKey(Message, versions="0-1"):
    group: str = field("string", "0+", default="")
    topic: str = field("string", "0+", default="")
    partition: int = field("int32", "0+", default=0)


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = field("int64", "0+", default=0)
    leader_epoch: int = field("int32", "3+", default=-1)
    metadata: str = field("string", "0+", default="")
    commit_timestamp: int = field("int64", "0+", default=0)
    expire_timestamp: int = field("int64", "1", default=-1)
    topic_id: UUID = field("uuid", "4+", default=ZERO_UUID, tag=0, tagged="4+")


class GroupMetadataKey(Message, versions="2"):
    group: str = field("string", "2+", default="")


class MemberProtocol(Message):
    name: str = field("string", "4+", default="")
    metadata: bytes = field("bytes", "4+", default=b"")


class PendingMember(Message):
    """`left_ms` is how long the id may stay unused."""

    member_id: str = field("string", "4+", default="")
    left_ms: int = field("int64", "4+", default=0)


class Unsettled(Message):
    """What a group is in the middle of, where its coordinator has handed it over: a field of our own.

    `phase` is 0 where nothing but ids is pending, 1 while members join, 2 while they wait for their assignment.
    """

    phase: int = field("int8", "4+", default=0)
    is_first: bool = field("bool", "4+", default=False)
    cause: str = field("string", "4+", default="")
    pending: list[PendingMember] = array(PendingMember, "4+", default_factory=list)


class MemberMetadata(Message):
    """`protocols` and `is_new` are fields of our own, in groups that are unsettled."""

    member_id: str = field("string", "0+", default="")
    group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
    client_id: str = field("string", "0+", default="")
    client_host: str = field("string", "0+", default="")
    rebalance_timeout: int = field("int32", "1+", default=0)
    session_timeout: int = field("int32", "0+", default=0)
    subscription: bytes = field("bytes", "0+", default=b"")
    assignment: bytes = field("bytes", "0+", default=b"")
    protocols: list[MemberProtocol] = array(MemberProtocol, "4+", default_factory=list, tag=UNSETTLED_TAG, tagged="4+")
    is_new: bool = field("bool", "4+", default=False, tag=UNSETTLED_TAG + 1, tagged="4+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A group as it last became stable or empty; or as it was handed over in the middle of something."""

    protocol_type: str = field("string", "0+", default="")
    generation: int = field("int32", "0+", default=0)
    protocol: str | None = field("string", "0+", nullable="0+", default=None)
    leader: str | None = field("string", "0+", nullable="0+", default=None)
    current_state_timestamp: int = field("int64", "2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata, "0+", default_factory=list)
    unsettled: Unsettled | None = field(Unsettled, "4+", nullable="4+", default=None, tag=UNSETTLED_TAG, tagged="4+")


class HistoryKey(Message, versions="15000"):
    group: str = field("string", "0+", default="")
    slot: int = field("int32", "0+", default=0)


class CommittedOffset(Value):
    """`expire_timestamp_ms` and `leader_epoch` are -1 where there is none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: UUID = ZERO_UUID


class OffsetRecord(Value):
    """`value` None takes it away."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None

    def encode(self) -> KeyValue:
        """The value's version is the oldest that holds what is there: 3, 1 or 4."""
        key = OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)
        key_bytes = _OFFSET_KEY + encode(key, OFFSET_KEY_VERSION)
        committed = self.value
        if committed is None:
            return key_bytes, None
        value = OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        )
        if committed.expire_timestamp_ms != -1:
            version = 1
        else:
            version = 3 if committed.topic_id == ZERO_UUID else 4
        return key_bytes, _VERSION.pack(version) + encode(value, version)


class PendingRecord(Value):
    """An offset that counts once the producer's transaction is committed: an `OffsetRecord` in a batch of that."""

    producer_id: int
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset

    def encode(self) -> KeyValue:
        return self.come_true().encode()

    def come_true(self) -> OffsetRecord:
        return OffsetRecord(self.group_id, self.topic, self.partition, self.value)


class KindRecord(Value):
    """About a group, of whatever kind; `value` None takes it away, or a part of it.

    `groups` are those of its kind: records of two kinds about one group, which goes from one to the other, have other
    keys, and know nothing of each other.
    """

    group_id: str
    value: Any

    kind = ""
    """Of the group, as `Group.kind`."""

    def encode(self) -> KeyValue:
        raise NotImplementedError

    def apply_to(self, groups: dict[str, Any]) -> Any:
        """Decided; returns what was there before."""
        raise NotImplementedError

    def undoing(self, before: Any) -> "KindRecord":
        """What takes it back."""
        return self.replace(value=before)

    def count_in(self, groups: dict[str, Any]) -> None:
        """Committed."""
        raise NotImplementedError


class GroupRecord(KindRecord):
    """Is of the classic protocol: `value` is a `GroupMetadataValue`."""

    kind = "classic"

    def encode(self) -> KeyValue:
        key = _VERSION.pack(GROUP_KEY_VERSION) + encode(GroupMetadataKey(group=self.group_id), GROUP_KEY_VERSION)
        if self.value is None:
            return key, None
        version = GROUP_VALUE_VERSION if self.value.unsettled is None else UNSETTLED_VALUE_VERSION
        return key, _VERSION.pack(version) + encode(self.value, version)

    def apply_to(self, groups: dict[str, Any]) -> Any:
        if self.value is None:
            return groups.pop(self.group_id, None)
        before = groups.get(self.group_id)
        groups[self.group_id] = self.value
        return before

    def count_in(self, groups: dict[str, Any]) -> None:
        """A group of the classic protocol tells clients nothing that is not committed."""


class HistoryRecord(Value):
    """What happened in an epoch of a group (`history/`), as bytes: only who looks for it reads them. Epochs take turns
    in a number of slots, so that the log keeps the last ones.
    """

    group_id: str
    slot: int
    value: bytes | None

    def encode(self) -> KeyValue:
        key = encode(HistoryKey(group=self.group_id, slot=self.slot), HISTORY_KEY_VERSION)
        return _VERSION.pack(HISTORY_KEY_VERSION) + key, self.value


AnyRecord = OffsetRecord | PendingRecord | KindRecord | HistoryRecord

TOMBSTONES_AT_ONCE: Final = 1_000
BATCH_BYTES: Final = 512 * 1024
"""What goes into one batch where it may as well be several: names of groups have up to 32 kB."""
_OTHER_NAMES: Final = 300
"""Of a topic, and what else a key has."""


def in_batches(records: Iterable[AnyRecord]) -> Iterator[list[AnyRecord]]:
    """Tombstones and histories, so that no batch is too large."""
    some: list[AnyRecord] = []
    size = 0
    for record in records:
        told = len(record.value or b"") if isinstance(record, HistoryRecord) else 0
        takes = len(record.group_id.encode()) + _OTHER_NAMES + told
        if some and (len(some) == TOMBSTONES_AT_ONCE or size + takes > BATCH_BYTES):
            yield some
            some, size = [], 0
        some.append(record)
        size += takes
    if some:
        yield some


def decode_record(key: bytes, value: bytes | None) -> OffsetRecord | GroupRecord | HistoryRecord | None:
    """None for an unknown kind of key. DecodeError if it is not what it claims."""
    key_version = key_version_of(key)
    decoder = DECODERS.get(key_version)
    return None if decoder is None else decoder(key_version, key, value)


def _decode_offset(key_version: int, key: bytes, value: bytes | None) -> OffsetRecord:
    offset_key, _ = decode(OffsetCommitKey, key_version, key, _VERSION.size)
    committed = None if value is None else _decode_offset_value(value)
    return OffsetRecord(offset_key.group, offset_key.topic, offset_key.partition, committed)


def _decode_group(key_version: int, key: bytes, value: bytes | None) -> GroupRecord:
    group_key, _ = decode(GroupMetadataKey, key_version, key, _VERSION.size)
    if value is None:
        return GroupRecord(group_key.group, None)
    version = key_version_of(value)
    if version not in GroupMetadataValue.version_range():
        raise DecodeError(f"group {group_key.group} was written in version {version}, which we do not know")
    return GroupRecord(group_key.group, decode(GroupMetadataValue, version, value, _VERSION.size)[0])


def _decode_history(key_version: int, key: bytes, value: bytes | None) -> HistoryRecord:
    history_key, _ = decode(HistoryKey, key_version, key, _VERSION.size)
    return HistoryRecord(history_key.group, history_key.slot, value)


Decoder = Callable[[int, bytes, bytes | None], OffsetRecord | GroupRecord | HistoryRecord]
"""Takes the version of the key, the key and the value. DecodeError if it is not what it claims."""

DECODERS: Final[dict[int, Decoder]] = {
    0: _decode_offset,
    OFFSET_KEY_VERSION: _decode_offset,
    GROUP_KEY_VERSION: _decode_group,
    HISTORY_KEY_VERSION: _decode_history,
}
"""By the version of the key, which says what the record is about."""


def load_offsets(
    records: Iterable[tuple[bytes, bytes | None]],
    offsets_of: Callable[[str, str], dict[int, CommittedOffset]],
    load: Callable[[bytes, bytes | None], object],
) -> None:
    """Put offsets of the form that nearly all have where those of their group and topic are, without a record of each;
    `load` the rest, in order.
    """
    names_of_last, offsets = None, dict[int, CommittedOffset]()
    for key, value in records:
        if value is not None and len(value) == _COMMON_VALUE.size and key.startswith(_OFFSET_KEY):
            version, offset, leader_epoch, metadata_length, timestamp_ms = _COMMON_VALUE.unpack(value)
            if version == _COMMON_VERSION and not metadata_length:
                names = key[_VERSION.size : -_PARTITION.size]
                if names != names_of_last and (found := two_names(names)) is not None:
                    names_of_last, offsets = names, offsets_of(*found)
                if names == names_of_last:
                    (partition,) = _PARTITION.unpack_from(key, len(key) - _PARTITION.size)
                    offsets[partition] = CommittedOffset(offset, leader_epoch, "", timestamp_ms)
                    continue
        names_of_last = None  # it may take those offsets away
        load(key, value)


def two_names(data: bytes) -> tuple[str, str] | None:
    """Two names with their lengths before them, as keys have them behind the version; None if it is anything else."""
    return _kept_names(data) if len(data) <= _USUAL_NAMES else _two_names(data)


def _two_names(data: bytes) -> tuple[str, str] | None:
    if len(data) < _LENGTH.size:
        return None
    second_at = 2 * _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if second_at < 2 * _LENGTH.size or len(data) < second_at:
        return None
    if len(data) != second_at + _LENGTH.unpack_from(data, second_at - _LENGTH.size)[0]:
        return None
    try:
        return str(data[_LENGTH.size : second_at - _LENGTH.size], "utf-8"), str(data[second_at:], "utf-8")
    except UnicodeDecodeError:
        return None


_kept_names: Final = lru_cache(maxsize=1000)(_two_names)
"""A client commits for several partitions, and a member has several records."""


def _decode_offset_value(buffer: bytes) -> CommittedOffset:
    version = key_version_of(buffer)
    if version not in OffsetCommitValue.version_range():
        raise DecodeError(f"an offset was written in version {version}, which we do not know")
    value, _ = decode(OffsetCommitValue, version, buffer, _VERSION.size)
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def key_version_of(key: bytes) -> int:
    """What the record is about; values begin with their versions, too. DecodeError if it is too short to say."""
    if len(key) < _VERSION.size:
        raise DecodeError("a record of __consumer_offsets ends before its version")
    version: int = _VERSION.unpack_from(key)[0]
    return version
