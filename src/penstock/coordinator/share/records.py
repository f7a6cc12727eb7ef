"""The records of `__share_group_state` in Kafka's layouts: the whole state of a share partition, or what is new of it.

| key | what it says |
| --- | --- |
| 0, ShareSnapshot | all that there is, or, without a value, that there is nothing any more |
| 1, ShareUpdate | what has changed since the records before it |

So each record counts, and not only the last one of its key.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.share.batches import UNKNOWN_OFFSET, StateBatch, merged
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from penstock.protocol.value import Value

SNAPSHOT: Final = 0
UPDATE: Final = 1
_VERSION: Final = struct.Struct(">h")
_VALUE_VERSION: Final = 0
_SIZE: Final = 100
_BATCH_SIZE: Final = 36
NOT_COUNTED: Final = -1
UNREAD: Final = -1
"""The leader epoch of a state that began where another had been deleted, and that no leader has read yet."""


class SharePartitionKey(Value):
    """A partition as one group reads it."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """As FindCoordinator has it: its hash says who coordinates it."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


def key_of(text: str) -> SharePartitionKey:
    """Reverse of `SharePartitionKey.text`; ValueError for any other text."""
    group_id, topic_id, partition = text.rsplit(":", 2)
    key = SharePartitionKey(group_id, uuid_from_text(topic_id), int(partition))
    if not group_id or key.partition < 0:
        raise ValueError(f"not group:topicId:partition: {text!r}")
    return key


class ShareState(Value):
    """Kafka calls it ShareGroupOffset."""

    snapshot_epoch: int
    """How many snapshots there were before."""
    state_epoch: int
    """Of the group when it was initialized: what is older is refused."""
    leader_epoch: int
    """The highest that was heard of: an older leader is refused."""
    start_offset: int
    """`UNKNOWN_OFFSET` where the leader is to find it."""
    delivery_complete_count: int
    """Offsets from the start offset on whose delivery is complete; `NOT_COUNTED` if nobody has counted them."""
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0
    """When the last snapshot was."""
    updates: int = 0
    """Since then."""


class ShareRecord(Value):
    """`after` says what there is once it counts; None is nothing."""

    key: SharePartitionKey

    def after(self, before: ShareState | None) -> ShareState | None:
        raise NotImplementedError

    def encode(self) -> KeyValue:
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Bytes that it takes at most."""
        return len(self.key.group_id.encode()) + _SIZE + _BATCH_SIZE * self.batch_count

    @property
    def batch_count(self) -> int:
        return 0


class Snapshot(ShareRecord):
    state: ShareState | None

    def after(self, before: ShareState | None) -> ShareState | None:
        state = self.state
        if state is None:
            return None
        return state if before is None else state.replace(leader_epoch=max(before.leader_epoch, state.leader_epoch))

    def encode(self) -> KeyValue:
        state = self.state
        if state is None:
            return _key_bytes(SNAPSHOT, self.key), None
        return _key_bytes(SNAPSHOT, self.key), _VERSION.pack(_VALUE_VERSION) + encode(_layout(state), _VALUE_VERSION)

    @property
    def batch_count(self) -> int:
        return 0 if self.state is None else len(self.state.batches)

    @property
    def layout(self) -> Message | None:
        return None if self.state is None else _layout(self.state)


class Update(ShareRecord):
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]

    def after(self, before: ShareState | None) -> ShareState:
        """Where nothing was before, the log was cut behind the snapshot: a later one follows, or the end of it all."""
        if before is None:
            counted = self.delivery_complete_count
            before = ShareState(self.snapshot_epoch, 0, self.leader_epoch, UNKNOWN_OFFSET, counted)
        start_offset = before.start_offset if self.start_offset == UNKNOWN_OFFSET else self.start_offset
        return before.replace(
            leader_epoch=max(before.leader_epoch, self.leader_epoch),
            start_offset=start_offset,
            delivery_complete_count=self.delivery_complete_count,
            batches=merged(before.batches, self.batches, start_offset),
            updates=before.updates + 1,
        )

    def encode(self) -> KeyValue:
        return _key_bytes(UPDATE, self.key), _VERSION.pack(_VALUE_VERSION) + encode(self.layout, _VALUE_VERSION)

    @property
    def batch_count(self) -> int:
        return len(self.batches)

    @property
    def layout(self) -> Message:
        return ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=_written(self.batches),
        )


class TakenBack(ShareRecord):
    """Puts what was there before a record that failed; it is in no log."""

    state: ShareState | None

    def after(self, before: ShareState | None) -> ShareState | None:
        return self.state


# -- layouts ----------------------------------------------------------------------------------------------------------


class ShareKey(Message, versions="0"):
    group_id: str = field("string", "0+", default="")
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    partition: int = field("int32", "0+", default=0)


class StateBatchData(Message):
    """The tagged field is ours: Kafka passes over it."""

    first_offset: int = field("int64", "0+", default=0)
    last_offset: int = field("int64", "0+", default=0)
    delivery_state: int = field("int8", "0+", default=0)
    delivery_count: int = field("int16", "0+", default=0)
    held_until_ms: int = field("int64", "0+", default=0, tag=10_000, tagged="0+")


class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    snapshot_epoch: int = field("int32", "0+", default=0)
    state_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "0+", default=NOT_COUNTED, tag=0, tagged="0+")
    create_timestamp: int = field("int64", "0+", default=0)
    write_timestamp: int = field("int64", "0+", default=0)
    state_batches: list[StateBatchData] = array(StateBatchData, "0+", default_factory=list)


class ShareUpdateValue(Message, versions="0", flexible="0+"):
    snapshot_epoch: int = field("int32", "0+", default=0)
    leader_epoch: int = field("int32", "0+", default=0)
    start_offset: int = field("int64", "0+", default=0)
    delivery_complete_count: int = field("int32", "0+", default=NOT_COUNTED, tag=0, tagged="0+")
    state_batches: list[StateBatchData] = array(StateBatchData, "0+", default_factory=list)


def _layout(state: ShareState) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_written(state.batches),
    )


def _key_bytes(version: int, key: SharePartitionKey) -> bytes:
    layout = ShareKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return _VERSION.pack(version) + encode(layout, 0)


def _written(batches: Sequence[StateBatch]) -> list[StateBatchData]:
    return [
        StateBatchData(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
            held_until_ms=batch.held_until_ms,
        )
        for batch in batches
    ]


def _read(batches: Sequence[StateBatchData]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count, batch.held_until_ms
        )
        for batch in batches
    )


def decode_record(key: bytes, value: bytes | None) -> Snapshot | Update | None:
    """None for an unknown kind of key. DecodeError if it is not what it claims."""
    kind = _version(key)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    layout, _ = decode(ShareKey, 0, key, _VERSION.size)
    name = SharePartitionKey(layout.group_id, layout.topic_id, layout.partition)
    if value is None:
        return Snapshot(name, None)
    version = _version(value)
    if version != _VALUE_VERSION:
        raise DecodeError(f"{name.text} was written in version {version}, which we do not know")
    return _snapshot(name, value) if kind == SNAPSHOT else _update(name, value)


def _snapshot(key: SharePartitionKey, data: bytes) -> Snapshot:
    value, _ = decode(ShareSnapshotValue, _VALUE_VERSION, data, _VERSION.size)
    state = ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        merged((), _read(value.state_batches), value.start_offset),
        value.create_timestamp,
        value.write_timestamp,
    )
    return Snapshot(key, state)


def _update(key: SharePartitionKey, data: bytes) -> Update:
    value, _ = decode(ShareUpdateValue, _VALUE_VERSION, data, _VERSION.size)
    return Update(
        key,
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _read(value.state_batches),
    )


def _version(buffer: bytes) -> int:
    if len(buffer) < _VERSION.size:
        raise DecodeError("a record of __share_group_state ends before its version")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version
