"""What a partition of a storage group takes over from other replicas, and by which rules it takes batches."""

from typing import Any
from uuid import UUID

import pytest

from penstock.log.config import LogConfig
from penstock.log.producer_state import Producers
from penstock.log.validation import CLIENT
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch, iterate_batches
from penstock.replication.storage_groups.entries import PartitionId

ORDERS = PartitionId(UUID(int=10), 3)


class Log:
    """One that ends at 5."""

    def __init__(self) -> None:
        self.config, self.producers, self.log_end_offset = LogConfig(), Producers(), 5
        self.done: list[tuple[object, ...]] = []

    def append_as_follower(self, batches: memoryview) -> None:
        headers = [header for _, header in iterate_batches(batches)]
        self.done.append(("append", headers[0].base_offset, headers[-1].last_offset))

    def truncate_fully_and_start_at(self, offset: int, *, durable: bool) -> None:
        self.done.append(("start", offset, durable))


def partition() -> tuple[GroupPartition, Log]:
    log: Any = Log()
    return GroupPartition(ORDERS, "orders", log, 9), log


@pytest.mark.parametrize(
    ("start", "first", "done"),
    [
        (6, 6, [("start", 6, True)]),
        (5, 5, [("append", 5, 7)]),
        (0, 5, [("append", 5, 7)]),
        (0, 3, [("append", 3, 5)]),
        (0, 2, []),
        (0, 6, []),
        (0, None, []),
    ],
    ids=[
        "others begin later",
        "none before",
        "what comes next",
        "a batch half of which is here",
        "it is here",
        "too far",
        "nothing",
    ],
)
def test_what_another_replica_has_behind_the_end_is_taken_over(
    start: int, first: int | None, done: list[object]
) -> None:
    found, log = partition()
    batches = b"" if first is None else bytes(encode_batch([Record(value=b"x")] * 3, base_offset=first))
    assert found.copy(start, batches) is bool(done)
    assert log.done == done


def test_a_batch_is_checked_as_the_topic_wants_it_by_now() -> None:
    found, log = partition()
    batch = memoryview(encode_batch([Record(value=b"x" * 100)]))
    rules = found._rules
    found.check(batch, 0, CLIENT)
    assert found._rules is rules
    log.config = LogConfig(max_message_bytes=50)
    with pytest.raises(KafkaError) as refused:
        found.check(batch, 0, CLIENT)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_partition_says_who_it_is() -> None:
    found, _ = partition()
    assert (found.id, found.topic, found.since, repr(found)) == (ORDERS, "orders", 9, "GroupPartition(orders-3)")
    assert (found.end_offset, found.committed.high_watermark) == (5, 5)
