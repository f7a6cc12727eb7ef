"""What a loop over a consumer has come to, its positions say: no more and no less, whoever stops when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.client.fake_broker import Reply, fake_broker
from tests.unit.client.fake_cluster import TOPIC, FakeCluster

from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import ConsumerInterceptor
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
PATIENCE_S = 30  # a loop that comes to nothing would wait for ever
ENOUGH = 100_000
"""Polls that each give the event loop a turn."""
COUNT, EPOCH = 5, 3
ALL = list(range(COUNT))


class Log(FakeCluster):
    """Each partition has five records, of leader epoch 3, in one batch; `end` says what a fetch behind them is told."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.committed: list[tuple[int, int, int]] = []
        self.end = PartitionData(high_watermark=COUNT)
        self.on_committed: Callable[[], None] = lambda: None
        """Called when the group's position, which is 2, is looked up."""

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if isinstance(request, OffsetCommitRequest):
            self.committed += [
                (row.partition_index, row.committed_offset, row.committed_leader_epoch)
                for topic in request.topics
                for row in topic.partitions
            ]
            return OffsetCommitResponse()
        if isinstance(request, OffsetFetchRequest):
            self.on_committed()
            places = [OffsetFetchResponsePartitions(partition_index=0, committed_offset=2)]
            groups = [
                OffsetFetchResponseGroup(
                    group_id="g", topics=[OffsetFetchResponseTopics(name=TOPIC, partitions=places)]
                )
            ]
            return OffsetFetchResponse(groups=groups)
        if isinstance(request, FetchRequest):
            (topic,) = request.topics
            rows = [self._fetched(row) for row in topic.partitions]
            return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=rows)])
        return super().__call__(header, request)

    def fetched_from(self) -> set[int]:
        asked = [request for request in self.asked(ApiKey.FETCH) if isinstance(request, FetchRequest)]
        return {row.fetch_offset for request in asked for topic in request.topics for row in topic.partitions}

    def _fetched(self, row: FetchPartition) -> PartitionData:
        if row.fetch_offset >= COUNT:
            return self.end.replace(partition_index=row.partition)
        records = encode_batch([Record(value=b"%d" % n) for n in ALL], base_offset=0, partition_leader_epoch=EPOCH)
        return PartitionData(partition_index=row.partition, records=bytes(records), high_watermark=COUNT)


@asynccontextmanager
async def reading(
    log: Log, *interceptors: ConsumerInterceptor, partitions: Sequence[TopicPartition] = (P0,), **others: Any
) -> AsyncIterator[Consumer]:
    settings = ConsumerSettings(group_id="g", retry_backoff_ms=1, **{"enable_auto_commit": False} | others)
    async with fake_broker(log) as log.broker, Consumer([log.broker.address], settings, interceptors) as consumer:
        await consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        async with asyncio.timeout(PATIENCE_S):
            yield consumer


async def first(consumer: Consumer, count: int) -> list[int]:
    """The offsets of so many records of a loop that stops then."""
    offsets: list[int] = []
    async for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == count:
            break
    return offsets


async def test_a_commit_after_a_loop_that_stops_is_of_what_it_came_to_and_the_next_loop_goes_on_there() -> None:
    log = Log()
    async with reading(log) as consumer:
        assert await first(consumer, 2) == [0, 1]
        await consumer.commit()
        assert log.committed == [(0, 2, EPOCH)]
        assert await first(consumer, 1) == [2], "though nobody has closed the first loop"
        assert [record.offset for record in await consumer.poll()] == [3, 4]
        assert await consumer.position(P0) == COUNT


async def test_what_a_loop_has_not_come_to_is_not_fetched_again() -> None:
    """Behind it a fetch is under way already, and would have to be waited for."""
    log = Log()
    async with reading(log) as consumer:
        assert [await first(consumer, 1) for _ in ALL] == [[offset] for offset in ALL]
        assert log.fetched_from() <= {0, COUNT}


async def test_a_poll_has_as_many_of_what_a_loop_has_not_come_to_as_it_wants() -> None:
    log = Log()
    async with reading(log) as consumer:
        await first(consumer, 1)
        assert [record.offset for record in await consumer.poll(max_records=2)] == [1, 2]
        await consumer.commit()
        assert [record.offset for record in await consumer.poll()] == [3, 4]
        await consumer.commit()
    assert log.committed == [(0, 3, EPOCH), (0, COUNT, EPOCH)]
    assert log.fetched_from() <= {0, COUNT}


async def test_a_poll_whose_time_is_over_leaves_what_a_loop_has_not_come_to() -> None:
    log = Log(2)
    async with reading(log) as consumer:
        await first(consumer, 1)
        log.on_committed = lambda: consumer.seek(P1, COUNT)
        await consumer.assign([P0, P1])
        assert await consumer.poll(timeout_ms=0) == [], "the position of the other partition is not known yet"
        assert consumer.positions() == {P0: OffsetAndMetadata(1, "", EPOCH)}
        assert [record.offset for record in await consumer.poll()] == [1, 2, 3, 4]


@pytest.mark.parametrize("paused", [P0, P1])
async def test_what_is_paused_after_a_loop_comes_when_it_is_resumed(paused: TopicPartition) -> None:
    async with reading(Log(2), partitions=[P0, P1]) as consumer:
        found = await anext(aiter(consumer))
        seen = [(found.topic_partition, found.offset)]
        consumer.pause([paused])
        async for record in consumer:
            seen.append((record.topic_partition, record.offset))
            assert record.topic_partition != paused or not consumer.paused()
            if [it for it, _ in seen if it != paused] == [it for it in (P0, P1) if it != paused] * COUNT:
                consumer.resume([paused])
            if len(seen) == 2 * COUNT:
                break
        assert sorted(seen) == [(partition, offset) for partition in (P0, P1) for offset in ALL]


async def test_what_a_loop_has_not_come_to_is_gone_where_its_position_is_another_or_nobodys() -> None:
    async with reading(Log(2)) as consumer:
        await first(consumer, 1)
        consumer.seek(P0, 3)
        assert [record.offset for record in await consumer.poll(PATIENCE_S * 1000)] == [3, 4]
        consumer.seek(P0, 0)
        await first(consumer, 1)
        await consumer.assign([P1])
        consumer.seek(P1, 4)
        found = await consumer.poll(PATIENCE_S * 1000)
        assert [(record.topic_partition, record.offset) for record in found] == [(P1, 4)]


async def test_an_interceptor_sees_each_record_once_whoever_stops_when() -> None:
    seeing = Seeing()
    async with reading(Log(), seeing) as consumer:
        for _ in ALL:
            await first(consumer, 1)
    assert seeing.offsets == ALL


async def test_a_commit_within_a_loop_is_of_what_it_came_to() -> None:
    log = Log()
    async with reading(log) as consumer:
        async for record in consumer:
            await consumer.commit()
            if record.offset == COUNT - 1:
                break
    assert log.committed == [(0, offset + 1, EPOCH) for offset in ALL]


async def test_closing_commits_what_a_loop_came_to() -> None:
    log = Log()
    async with reading(log, enable_auto_commit=True) as consumer:
        await first(consumer, 2)
    assert log.committed == [(0, 2, EPOCH)]


async def test_a_position_that_is_sought_within_a_loop_is_where_it_goes_on() -> None:
    async with reading(Log()) as consumer:
        offsets: list[int] = []
        async for record in consumer:
            offsets.append(record.offset)
            if len(offsets) == 2:
                consumer.seek(P0, 4)
            if record.offset == 4:
                break
        assert offsets == [0, 1, 4]


async def test_what_is_given_up_within_a_loop_it_does_not_come_to() -> None:
    async with reading(Log(2), partitions=[P0, P1]) as consumer:
        while not (records := await consumer.poll(max_records=1)):
            pass
        kept = P1 if records[0].partition == 0 else P0
        seen: list[TopicPartition] = []
        async for record in consumer:
            seen.append(record.topic_partition)
            await consumer.assign([kept])
            if seen.count(kept) == COUNT:
                break
        assert seen[0] != kept
        assert seen[1:] == [kept] * COUNT


async def test_two_loops_share_what_there_is() -> None:
    async with reading(Log()) as consumer:
        one, other = aiter(consumer), aiter(consumer)
        offsets = [(await anext(each)).offset for each in (one, other, other, one, one)]
        assert offsets == ALL


@pytest.mark.parametrize(
    "end",
    [
        PartitionData(diverging_epoch=EpochEndOffset(epoch=2, end_offset=4)),
        PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
    ids=["cut", "out of range"],
)
async def test_what_a_fetch_ahead_tells_takes_nothing_from_a_loop(end: PartitionData) -> None:
    log = Log()
    log.end = end
    async with reading(log) as consumer:
        offsets: list[int] = []
        async for record in consumer:
            offsets.append(record.offset)
            while consumer._fetcher._requests:  # the fetch behind the last record is answered
                await consumer.cluster.refresh([])
            if len(offsets) == COUNT:
                break
        assert offsets == ALL


async def test_who_polls_without_a_time_out_gets_records() -> None:
    async with reading(Log()) as consumer:
        for _ in range(ENOUGH):
            if records := await consumer.poll(timeout_ms=0):
                break
        assert [record.offset for record in records] == ALL


async def test_a_position_that_is_sought_while_it_is_looked_up_is_where_it_goes_on() -> None:
    log = Log()
    async with reading(log) as consumer:
        log.on_committed = lambda: consumer.seek(P0, 4)
        await consumer.assign([])
        await consumer.assign([P0])
        assert [record.offset for record in await consumer.poll(PATIENCE_S * 1000)] == [4]


class Seeing(ConsumerInterceptor):
    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        self.offsets += [record.offset for record in records]
        return records


class Failing(ConsumerInterceptor):
    def __init__(self) -> None:
        self.failures = 1

    async def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        return records


async def test_records_that_an_interceptor_failed_on_come_again() -> None:
    log = Log()
    async with reading(log, Failing()) as consumer:
        with pytest.raises(RuntimeError, match="not now"):
            await consumer.poll(30_000)
        assert consumer.positions()[P0].offset == 0
        assert [record.offset for record in await consumer.poll(30_000)] == ALL
