"""Batches on their way out: when they are ready, and that one partition's order never changes."""

import asyncio

import pytest

from penstock.client.producer.accumulator import Accumulator, PendingBatch, size_of
from penstock.client.producer.sequences import Sequences
from penstock.client.settings import ProducerSettings
from penstock.client.values import RecordMetadata, TopicPartition
from penstock.protocol.records import Record, encode_batch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = ProducerSettings(linger_ms=10, batch_size=300, buffer_memory=2_000, delivery_timeout_ms=1_000)


def add(accumulator: Accumulator, partition: TopicPartition, value: bytes, now_ms: float = 0.0) -> bool:
    record = Record(timestamp_ms=0, value=value)
    delivery: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    return accumulator.append(partition, record, size_of(record), delivery, now_ms)


def values(batch: PendingBatch) -> list[bytes | None]:
    return [record.value for record in batch.records]


async def test_a_batch_goes_when_it_has_lingered() -> None:
    accumulator = Accumulator(SETTINGS)
    assert add(accumulator, P0, b"a", now_ms=5)
    assert not add(accumulator, P0, b"b", now_ms=9)
    assert accumulator.ready(14.9) == []
    assert accumulator.next_ready_ms() == 15
    assert accumulator.ready(15) == [P0]
    assert values(accumulator.take(P0)) == [b"a", b"b"]


async def test_a_full_batch_goes_at_once_and_so_does_everything_at_a_flush() -> None:
    accumulator = Accumulator(SETTINGS)
    add(accumulator, P0, b"x" * 200)
    add(accumulator, P0, b"y" * 200)
    add(accumulator, P1, b"z")
    assert accumulator.ready(0) == [P0]
    accumulator.flushing = 1
    assert accumulator.ready(0) == [P0, P1]


async def test_one_batch_of_a_partition_is_in_flight_and_a_retry_goes_first() -> None:
    accumulator = Accumulator(SETTINGS)
    add(accumulator, P0, b"x" * 200)
    add(accumulator, P0, b"y" * 200)
    first = accumulator.take(P0)
    assert accumulator.ready(99) == []
    accumulator.give_back(first, not_before_ms=50)
    assert accumulator.ready(49) == []
    assert accumulator.take(P0) is first
    accumulator.done(first)
    assert values(accumulator.take(P0)) == [b"y" * 200]


async def test_behind_a_batch_in_flight_the_next_one_grows() -> None:
    accumulator = Accumulator(ProducerSettings(linger_ms=10, batch_size=300, buffer_memory=1_000_000))
    add(accumulator, P0, b"first" * 60)
    first = accumulator.take(P0)
    for _ in range(30):
        add(accumulator, P0, b"x" * 200)
    assert accumulator.ready(99) == []
    accumulator.done(first)
    assert accumulator.ready(0) == [P0]
    assert [len(accumulator.take(P0).records)] == [(16 * 300 - 61) // 221]


async def test_a_batch_that_was_split_goes_in_two_halves() -> None:
    accumulator = Accumulator(SETTINGS)
    for value in (b"a", b"b", b"c"):
        add(accumulator, P0, value)
    room = accumulator.buffered_bytes
    accumulator.replace(accumulator.take(P0))
    assert accumulator.buffered_bytes == room
    halves = []
    for _ in range(2):
        halves.append(accumulator.take(P0))
        accumulator.done(halves[-1])
    assert [values(half) for half in halves] == [[b"a"], [b"b", b"c"]]
    assert not accumulator
    assert accumulator.buffered_bytes == 0


async def test_the_buffer_has_an_end_but_one_record_always_fits() -> None:
    accumulator = Accumulator(SETTINGS)
    assert accumulator.has_room(5_000)
    add(accumulator, P0, b"x" * 900)
    assert accumulator.has_room(500)
    assert not accumulator.has_room(600)
    accumulator.done(accumulator.take(P0))
    assert accumulator.has_room(600)


async def test_what_waited_too_long_is_dropped() -> None:
    accumulator = Accumulator(SETTINGS)
    add(accumulator, P0, b"a", now_ms=0)
    add(accumulator, P1, b"b", now_ms=500)
    assert [values(batch) for batch in accumulator.drop_expired(1_000)] == [[b"a"]]
    assert [values(batch) for batch in accumulator.drop_all()] == [[b"b"]]
    assert not accumulator


@pytest.mark.parametrize("key", [None, b"k" * 100])
@pytest.mark.parametrize("headers", [[], [("naïve", b"v" * 300), ("n", None)]])
def test_the_size_of_a_record_is_never_too_small(key: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
    record = Record(timestamp_ms=1 << 41, key=key, value=b"v" * 70_000, headers=headers)
    assert 61 + size_of(record) >= len(encode_batch([record]))


def batch_of(count: int, partition: TopicPartition = P0) -> PendingBatch:
    return PendingBatch(partition, 0.0, [Record(timestamp_ms=0)] * count)


def test_sequences_go_on_by_partition_and_a_retry_keeps_its_own() -> None:
    sequences = Sequences()
    assert sequences.identity is None
    sequences.identity = (7, 0)
    first, second, other = batch_of(3), batch_of(2), batch_of(1, P1)
    for batch in (first, second, other, first):
        sequences.number(batch)
    assert [batch.base_sequence for batch in (first, second, other)] == [0, 3, 0]
    assert {batch.producer_id for batch in (first, second, other)} == {7}


def test_a_refused_batch_gives_its_numbers_back_but_not_after_a_retry() -> None:
    sequences = Sequences()
    sequences.identity = (7, 0)
    refused, following = batch_of(3), batch_of(1)
    sequences.number(refused)
    sequences.take_back(refused)
    sequences.number(following)
    assert following.base_sequence == 0
    retried = batch_of(1)
    sequences.number(retried)
    retried.attempts = 1
    sequences.take_back(retried)
    assert sequences.identity is None


def test_after_a_reset_a_partition_begins_anew_and_the_others_go_on() -> None:
    sequences = Sequences()
    sequences.identity = (7, 0)
    for partition in (P0, P1):
        sequences.number(batch_of(5, partition))
    sequences.reset(P0)
    sequences.identity = (8, 0)
    anew, onward = batch_of(1, P0), batch_of(1, P1)
    sequences.number(anew)
    sequences.number(onward)
    assert (anew.producer_id, anew.base_sequence) == (8, 0)
    assert (onward.producer_id, onward.base_sequence) == (7, 5)
