"""The records in one partition's part of an answer to ShareFetch: those that the broker has acquired for this member.

The answer has whole batches, so it may have records that others got, and control records; and of what was acquired some
may not be there, as compaction took it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from penstock.client.consumer.fetched_records import FetchedRecords
from penstock.client.share.acknowledgements import GAP, AcknowledgeType, Place
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value

MOST_ACQUIRED: Final = 1_000_000
"""In one answer. A broker acquires a few thousand."""


class SharedRecord(ConsumedRecord):
    """`delivery_count` is 1 for a record that no consumer has got before."""

    delivery_count: int = 1


class Delivered(Value):
    """`others` are offsets that were acquired without a record for the application, and how to acknowledge them."""

    node_id: int
    place: Place
    records: list[SharedRecord]
    others: Mapping[int, int]
    error: DecodeError | None = None


class Acquired(Protocol):
    """Offsets from first to last."""

    first_offset: int
    last_offset: int
    delivery_count: int


def delivered(
    node_id: int,
    place: Place,
    partition: TopicPartition,
    data: bytes,
    acquired: Sequence[Acquired],
    *,
    check_crcs: bool = True,
) -> Delivered:
    """What cannot be read is released: another consumer may be luckier, and the broker's limit ends it."""
    if sum(some.last_offset - some.first_offset + 1 for some in acquired) > MOST_ACQUIRED:
        raise DecodeError(f"{partition}: more than {MOST_ACQUIRED} records are acquired at a time")
    counts = {
        offset: some.delivery_count for some in acquired for offset in range(some.first_offset, some.last_offset + 1)
    }
    if not counts:
        return Delivered(node_id, place, [], {})
    fetched = FetchedRecords(partition, data, min(counts), check_crcs=check_crcs)
    records: list[SharedRecord] = []
    error = None
    try:
        while not fetched.exhausted:
            records += [
                SharedRecord(
                    *partition,
                    record.offset,
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    record.headers,
                    record.is_log_append_time,
                    record.leader_epoch,
                    counts.pop(record.offset),
                )
                for record in fetched.take(1)
                if record.offset in counts
            ]
    except DecodeError as raised:
        error = raised
    unread = fetched.next_offset if error is not None else max(counts, default=0) + 1
    others = {offset: GAP if offset < unread else int(AcknowledgeType.RELEASE) for offset in counts}
    return Delivered(node_id, place, records, others, error)
