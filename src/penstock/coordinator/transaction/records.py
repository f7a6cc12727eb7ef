"""The records of `__transaction_state` in Kafka's layouts: a transactional id, and what its transaction has come to.

Values of version 0 are written at transaction.version 0. Version 1 (KIP-890) is flexible and also has the producer ids
before and after, and the version of the client.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.transaction.transaction import NO_EPOCH, NO_PRODUCER_ID, Partitions, State, Transaction
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, array, field
from penstock.protocol.value import Value

KEY_VERSION: Final = 0
_VERSION: Final = struct.Struct(">h")


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = field("string", "0+", default="")


class PartitionsSchema(Message):
    topic: str = field("string", "0+", default="")
    partition_ids: list[int] = array("int32", "0+", default_factory=list)


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int = field("int64", "0+", default=0)
    previous_producer_id: int = field("int64", "1+", default=NO_PRODUCER_ID, tag=0, tagged="1+")
    next_producer_id: int = field("int64", "1+", default=NO_PRODUCER_ID, tag=1, tagged="1+")
    producer_epoch: int = field("int16", "0+", default=0)
    next_producer_epoch: int = field("int16", "1+", default=NO_EPOCH, tag=3, tagged="1+")
    transaction_timeout_ms: int = field("int32", "0+", default=0)
    transaction_status: int = field("int8", "0+", default=0)
    transaction_partitions: list[PartitionsSchema] | None = array(
        PartitionsSchema, "0+", nullable="0+", default_factory=list
    )
    transaction_last_update_timestamp_ms: int = field("int64", "0+", default=0)
    transaction_start_timestamp_ms: int = field("int64", "0+", default=0)
    client_transaction_version: int = field("int16", "1+", default=0, tag=2, tagged="1+")


class TransactionRecord(Value):
    """`value` None takes the id away. `version` is that of the layout."""

    transactional_id: str
    value: Transaction | None
    version: int = 1

    def encode(self) -> KeyValue:
        key = _VERSION.pack(KEY_VERSION) + encode(TransactionLogKey(transactional_id=self.transactional_id), 0)
        known = self.value
        if known is None:
            return key, None
        value = TransactionLogValue(
            producer_id=known.producer_id,
            previous_producer_id=known.previous_producer_id,
            next_producer_id=known.next_producer_id,
            next_producer_epoch=known.next_producer_epoch,
            producer_epoch=known.producer_epoch,
            transaction_timeout_ms=known.timeout_ms,
            transaction_status=known.state,
            transaction_partitions=None if known.state is State.EMPTY else _by_topic(known.partitions),
            transaction_last_update_timestamp_ms=known.updated_ms,
            transaction_start_timestamp_ms=known.start_ms,
            client_transaction_version=known.client_version,
        )
        return key, _VERSION.pack(self.version) + encode(value, self.version)


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """None for an unknown kind of key. DecodeError if it is not what it claims."""
    if _version(key) != KEY_VERSION:
        return None
    log_key, _ = decode(TransactionLogKey, KEY_VERSION, key, _VERSION.size)
    transactional_id = log_key.transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    version = _version(value)
    if version not in TransactionLogValue.version_range():
        raise DecodeError(f"{transactional_id} was written in version {version}, which we do not know")
    found, _ = decode(TransactionLogValue, version, value, _VERSION.size)
    if found.transaction_status not in _STATES:
        raise DecodeError(f"{transactional_id} is in state {found.transaction_status}, which we do not know")
    return TransactionRecord(transactional_id, _transaction(found), version)


_STATES: Final = frozenset(set(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE})
_UNUSED: Final[Partitions] = {}


def _transaction(value: TransactionLogValue) -> Transaction:
    topics = value.transaction_partitions
    partitions = {(it.topic, index): None for it in topics for index in it.partition_ids} if topics else _UNUSED
    return Transaction(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        State(value.transaction_status),
        partitions,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.next_producer_epoch,
        NO_EPOCH,
        value.client_transaction_version,
    )


def _by_topic(partitions: Partitions) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def _version(buffer: bytes) -> int:
    if len(buffer) < _VERSION.size:
        raise DecodeError("a record of __transaction_state ends before its version")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version
