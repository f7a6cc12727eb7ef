"""Fetch: limits, long poll, sessions, leader epochs, divergence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.log.transactions import append_all, ended, written
from tests.unit.node.api.broker.fetching import (
    BATCH_BYTES,
    ID,
    LEADER_EPOCH,
    long_poll,
    offsets,
    partitions_of,
    request,
    response,
)
from tests.unit.node.on_disk import Node, batch, node_on, topic_records

from penstock.log.log_slice import LogSlice
from penstock.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from penstock.node.api.fetching import FetchReader
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Later
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.protocol.messages.fetch import FetchRequest, PartitionData
from penstock.protocol.uuids import ZERO_UUID
from penstock.replication.waits import Waits


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Topic "orders" with three partitions; partition 0 has offsets 0 to 5 in three batches."""
    with node_on(tmp_path, *topic_records(partitions=3)) as node:
        for value in (b"a", b"b", b"c"):
            node.produce(value, value)
        yield node


def read(node: Node, asked: FetchRequest, version: int = 13) -> PartitionData:
    (partition,) = partitions_of(response(node, asked, version)).values()
    return partition


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_from_an_offset_on(node: Node, version: int) -> None:
    got = read(node, request((0, 2)), version)
    assert (got.error_code, got.high_watermark, got.last_stable_offset) == (ErrorCode.NONE, 6, 6)
    assert offsets(got) == [2, 3, 4, 5]
    assert got.aborted_transactions is None
    assert got.preferred_read_replica == -1


def test_a_read_from_the_middle_of_a_batch_gives_the_whole_batch(node: Node) -> None:
    assert offsets(read(node, request((0, 3)))) == [2, 3, 4, 5]


def test_read_committed_gives_a_list_of_aborted_transactions(node: Node) -> None:
    assert read(node, request((0, 0), isolation_level=1)).aborted_transactions == []


@pytest.mark.parametrize("version", [4, 5, 11, 18])
def test_readers_of_committed_records_are_told_what_is_aborted_and_stop_at_what_is_open(
    node: Node, version: int
) -> None:
    """As a Kafka broker has left it: 6 is aborted, 8 open."""
    partition = node.partition()
    append_all(partition.log, written(8, 0), ended(8, ControlType.ABORT), written(8, 1))
    node.produce(b"x")
    got = read(node, request((0, 4), isolation_level=1), version)
    assert (got.high_watermark, got.last_stable_offset, offsets(got)) == (10, 8, [4, 5, 6, 7])
    assert got.aborted_transactions is not None
    assert [(one.producer_id, one.first_offset) for one in got.aborted_transactions] == [(8, 6)]
    everything = read(node, request((0, 4)), version)
    assert (everything.last_stable_offset, offsets(everything)[-1]) == (8, 9)
    assert everything.aborted_transactions is None
    at_the_end = read(node, request((0, 10), isolation_level=1), version)
    assert (at_the_end.last_stable_offset, offsets(at_the_end)) == (8, [])


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_no_limit_stops_the_first_batch(node: Node, limit: str) -> None:
    assert offsets(read(node, request((0, 0), **{limit: 1}))) == [0, 1]  # type: ignore[arg-type]
    assert offsets(read(node, request((0, 0), **{limit: 2 * BATCH_BYTES}))) == [0, 1, 2, 3]  # type: ignore[arg-type]


def test_behind_the_first_partition_only_what_fits(node: Node) -> None:
    node.produce(b"x", b"x", index=1)
    got = partitions_of(response(node, request((0, 0), (1, 0), max_bytes=3 * BATCH_BYTES)))
    assert offsets(got[0]) == [0, 1, 2, 3, 4, 5]
    assert offsets(got[1]) == []
    got = partitions_of(response(node, request((0, 4), (1, 0), max_bytes=2 * BATCH_BYTES)))
    assert offsets(got[0]) == [4, 5]
    assert offsets(got[1]) == [0, 1]


def test_what_is_read_of_a_replica_is_counted_and_told(node: Node) -> None:
    """By consumers here; a long poll that finds nothing, and one that is refused, read nothing."""
    read(node, request((0, 0), max_bytes=2 * BATCH_BYTES))
    read(node, request((0, 4)))
    read(node, request((0, 6)))
    read(node, request((0, 7)))
    counted = node.partition().traffic
    assert (counted.bytes_out, counted.replication_bytes_out) == (3 * BATCH_BYTES, 0)
    assert (counted.fetches, counted.failed_fetches) == (4, 1)
    answer = node.ask(DescribeLogDirsRequest(topics=None), 4)
    assert isinstance(answer, DescribeLogDirsResponse)
    told = {row.partition_index: row.bytes_read for found in answer.results[0].topics for row in found.partitions}
    assert told == {0: 3 * BATCH_BYTES, 1: 0, 2: 0}


@pytest.mark.parametrize("offset", [-1, 7])
def test_an_offset_that_is_not_there(node: Node, offset: int) -> None:
    got = read(node, request((0, offset), max_wait_ms=60_000, min_bytes=1))
    assert (got.error_code, got.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (LEADER_EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER_EPOCH, ErrorCode.NONE),
        (LEADER_EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_leader_epoch_that_the_reader_knows_is_checked(node: Node, epoch: int, code: ErrorCode) -> None:
    assert read(node, request((0, 0), leader_epoch=epoch)).error_code == code


def test_unknown_topics_and_partitions(node: Node) -> None:
    assert read(node, request((9, 0))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for unknown in (UUID(int=99), ZERO_UUID):
        assert read(node, request((0, 0), topic_id=unknown)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert read(node, request((0, 0), topic="no"), 12).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.commit(PartitionChangeRecord(topic_id=ID, partition_id=0, leader=2))
    assert read(node, request((0, 0)), 10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_reader_whose_log_diverged_is_told_where(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=ID, partition_id=0, leader=1))
    node.produce(b"new term")
    got = read(node, request((0, 9), last_fetched_epoch=LEADER_EPOCH))
    assert (got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == (LEADER_EPOCH, 6)
    assert not got.records
    got = read(node, request((0, 6), last_fetched_epoch=LEADER_EPOCH))
    assert got.diverging_epoch.end_offset == -1
    assert offsets(got) == [6]


async def test_a_long_poll_ends_when_records_come(node: Node) -> None:
    poll = await long_poll(node, request((0, 6), (1, 0), min_bytes=1, max_wait_ms=60_000))
    node.partition(index=1).append(memoryview(bytearray(batch(b"x"))), acks=1, now_ms=node.now_ms)
    assert offsets(partitions_of(await poll)[1]) == [0]
    assert not node.partition(index=0).committed.waits
    assert not node.partition(index=1).committed.waits


async def test_a_followers_long_poll_ends_with_an_append_that_is_not_committed(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=ID, partition_id=1, replicas=[1, 2], isr=[1, 2]))
    follower = request((1, 0), min_bytes=1, max_wait_ms=60_000)
    follower.replica_id = 2
    poll = await long_poll(node, follower, 12)
    node.partition(index=1).append(memoryview(bytearray(batch(b"x"))), acks=1, now_ms=node.now_ms)
    assert offsets(partitions_of(await poll)[1]) == [0]
    assert node.partition(index=1).high_watermark == 0


async def test_a_long_poll_waits_for_min_bytes(node: Node) -> None:
    poll = await long_poll(node, request((1, 0), min_bytes=2 * BATCH_BYTES, max_wait_ms=60_000))
    for _ in range(2):
        assert not poll.done()
        node.partition(index=1).append(memoryview(bytearray(batch(b"x", b"x"))), acks=1, now_ms=node.now_ms)
        for _ in range(3):
            await asyncio.sleep(0)
    assert offsets(partitions_of(await poll)[1]) == [0, 1, 2, 3]


class Tier:
    """Has the records before offset 4, and needs a while for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = 0
        self.waits = Waits()
        self._read = IsrPartition.read
        monkeypatch.setattr(IsrPartition, "read", lambda *asked, **limits: self.read(*asked, **limits))

    def read(self, partition: IsrPartition, offset: int, max_bytes: int, **limits: Any) -> LogSlice | Later:
        if self.reached <= offset < 4:
            return Later(self.waits, offset + 1)
        return self._read(partition, offset, max_bytes, **limits)

    def bring(self, reached: int) -> None:
        self.reached = reached
        for woken in self.waits.take_due(reached):
            woken()


async def test_records_that_lie_elsewhere_are_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = Tier(monkeypatch)
    poll = await long_poll(node, request((0, 0), min_bytes=1, max_wait_ms=60_000))
    assert len(tier.waits) == 1
    tier.bring(4)
    assert offsets(partitions_of(await poll)[0]) == [0, 1, 2, 3, 4, 5]
    assert not tier.waits


async def test_what_lies_here_does_not_wait_for_what_lies_elsewhere(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = Tier(monkeypatch)
    assert read(node, request((0, 0))).error_code == ErrorCode.NONE
    assert offsets(read(node, request((0, 4), min_bytes=1, max_wait_ms=60_000))) == [4, 5]
    assert not tier.waits


async def test_records_that_come_too_late_leave_a_long_poll_without_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = Tier(monkeypatch)
    poll = await long_poll(node, request((0, 0), min_bytes=1, max_wait_ms=1))
    assert offsets(partitions_of(await poll)[0]) == []
    assert not tier.waits


async def test_a_long_poll_ends_in_time_with_what_there_is(node: Node) -> None:
    poll = await long_poll(node, request((0, 4), min_bytes=10_000, max_wait_ms=1))
    assert offsets(partitions_of(await poll)[0]) == [4, 5]


async def test_a_long_poll_ends_when_its_topic_is_deleted(node: Node) -> None:
    poll = await long_poll(node, request((0, 6), min_bytes=1, max_wait_ms=60_000))
    node.commit(RemoveTopicRecord(topic_id=ID))
    assert partitions_of(await poll)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_who_goes_away_is_not_waited_for(node: Node) -> None:
    found = node.dispatch(request((0, 6), min_bytes=1, max_wait_ms=60_000), 13)
    assert isinstance(found, Waiting)
    future = asyncio.ensure_future(found.answer)
    assert node.partition().committed.waits
    await asyncio.sleep(0)  # it waits
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    await asyncio.sleep(0)
    assert not node.partition().committed.waits


async def test_a_fault_while_it_waits_is_told_to_the_connection(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    found = node.dispatch(request((0, 6), min_bytes=1, max_wait_ms=60_000), 13)
    assert isinstance(found, Waiting)
    future = asyncio.ensure_future(found.answer)

    def fail(_: FetchReader, __: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FetchReader, "read", fail)
    for wake in node.partition().committed.waits.take_all():
        wake()
    async with asyncio.timeout(10):
        with pytest.raises(ZeroDivisionError):
            await future
    assert not node.partition().committed.waits
