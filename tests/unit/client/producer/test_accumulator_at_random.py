"""A producer's batches beside plain lists of what was added: the same limits, order, times and bytes."""

import asyncio
from random import Random

import pytest

from penstock.client.producer.accumulator import Accumulator, PendingBatch
from penstock.client.settings import ProducerSettings
from penstock.client.values import RecordMetadata, TopicPartition
from penstock.protocol.records import Record

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
SIZE, GROWN, MEMORY, LINGER_MS, EXPIRES_MS = 161, 600, 9_000, 10, 100
HEADER, PER_RECORD = 61, 500
OPERATIONS = [*["append"] * 6, *["take"] * 3, *["done"] * 2, "give back", "replace", "flush", "expire"]


class Plain:
    """A batch: the sizes of its records by their numbers."""

    def __init__(self, place: TopicPartition, created_ms: float) -> None:
        self.place, self.created_ms, self.not_before_ms = place, created_ms, 0.0
        self.sizes: dict[int, int] = {}
        self.closed = False
        self.attempts = 0

    @property
    def bytes(self) -> int:
        return HEADER + sum(self.sizes.values())


class Model:
    def __init__(self) -> None:
        self.waiting: dict[TopicPartition, list[Plain]] = {}
        self.flying: dict[TopicPartition, Plain] = {}
        self.flushing = False

    def all(self) -> list[Plain]:
        return [*(one for of in self.waiting.values() for one in of), *self.flying.values()]

    def buffered(self) -> int:
        return sum(size + PER_RECORD for one in self.all() for size in one.sizes.values())

    def append(self, place: TopicPartition, number: int, size: int, now_ms: float) -> bool:
        batches = self.waiting.setdefault(place, [])
        limit = GROWN if place in self.flying else SIZE
        begins = not batches or batches[-1].closed or batches[-1].bytes + size > limit
        if begins:
            for one in batches:
                one.closed = True
            batches.append(Plain(place, now_ms))
        batches[-1].sizes[number] = size
        if batches[-1].bytes >= limit:
            batches[-1].closed = True
        return begins or batches[-1].closed

    def due(self) -> dict[TopicPartition, float]:
        found = {}
        for place, batches in self.waiting.items():
            if batches and place not in self.flying:
                first = batches[0]
                at_once = self.flushing or first.closed or len(batches) > 1 or first.bytes >= SIZE
                found[place] = max(first.not_before_ms, 0.0 if at_once else first.created_ms + LINGER_MS)
        return found

    def halves(self, one: Plain) -> list[Plain]:
        numbers = list(one.sizes)
        found = []
        for part in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
            half = Plain(one.place, one.created_ms)
            half.sizes = {number: one.sizes[number] for number in part}
            half.closed, half.attempts = True, one.attempts
            found.append(half)
        return found

    def forget(self) -> None:
        for place in [place for place, batches in self.waiting.items() if not batches and place not in self.flying]:
            del self.waiting[place]

    def dropped(self, before_ms: float) -> list[list[int]]:
        """Oldest first, as far as they are that old."""
        gone = []
        for batches in self.waiting.values():
            while batches and batches[0].created_ms <= before_ms:
                gone.append(list(batches.pop(0).sizes))
        self.forget()
        return gone


class Beside:
    """Both of them, told the same."""

    def __init__(self, seed: int) -> None:
        self.random, self.now_ms, self.count = Random(seed), 1_000.0, 0
        settings = ProducerSettings(
            linger_ms=LINGER_MS,
            batch_size=SIZE,
            max_request_size=GROWN,
            buffer_memory=MEMORY,
            delivery_timeout_ms=EXPIRES_MS,
        )
        self.real, self.plain = Accumulator(settings), Model()
        self.flying: dict[TopicPartition, PendingBatch] = {}
        self.drawn: set[str] = set()

    def append(self) -> None:
        place = self.random.choice(PLACES)
        record = Record(timestamp_ms=self.count, value=bytes(self.random.choice((0, 8, 9, 29, 79, 200))))
        size = 21 + len(record.value or b"")
        delivery: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        news = self.real.append(place, record, size, delivery, self.now_ms)
        assert news == self.plain.append(place, self.count, size, self.now_ms)
        self.count += 1

    def take(self) -> None:
        due = self.plain.due()
        if due:
            place = self.random.choice(list(due))
            self.flying[place] = self.real.take(place)
            self.plain.flying[place] = self.plain.waiting[place].pop(0)
            self.plain.flying[place].closed = True

    def land(self, how: str) -> None:
        if not self.flying:
            return
        place = self.random.choice(list(self.flying))
        if how == "replace" and len(self.plain.flying[place].sizes) == 1:
            return
        batch, plain = self.flying.pop(place), self.plain.flying.pop(place)
        waiting = self.plain.waiting[place]
        if how == "done":
            self.real.done(batch)
        elif how == "give back":
            plain.not_before_ms = self.now_ms + self.random.choice((0, 0, 5, 30))
            batch.attempts = plain.attempts = plain.attempts + 1
            self.real.give_back(batch, plain.not_before_ms)
            waiting.insert(0, plain)
        else:
            self.real.replace(batch)
            waiting[:0] = self.plain.halves(plain)
        self.drawn.add(how)
        self.plain.forget()

    def expire(self) -> None:
        dropped = [numbers(batch) for batch in self.real.drop_expired(self.now_ms)]
        self.drawn |= {"expired"} if dropped else set()
        assert dropped == self.plain.dropped(self.now_ms - EXPIRES_MS)

    def do(self, operation: str) -> None:
        if operation == "append":
            self.append()
        elif operation == "take":
            self.take()
        elif operation == "expire":
            self.expire()
        elif operation == "flush":
            self.real.flushing = self.plain.flushing = self.random.random() < 0.3
        else:
            self.land(operation)

    def compare(self) -> None:
        real, plain, due = self.real, self.plain, self.plain.due()
        assert bool(real) == bool(plain.waiting)
        assert real.buffered_bytes == plain.buffered()
        for size in (MEMORY - plain.buffered(), MEMORY - plain.buffered() + 1):
            assert real.has_room(size) == (size + plain.buffered() <= MEMORY or not plain.buffered())
        for at_ms in (self.now_ms, *due.values()):
            assert real.ready(at_ms) == [place for place, ready_ms in due.items() if ready_ms <= at_ms]
        assert real.next_ready_ms() == min(due.values(), default=None)
        for place in due:
            assert told(real.first(place)) == told_plainly(plain.waiting[place][0])
        for place, queue in real._queues.items():
            for number, batch in enumerate(queue.batches):
                assert real.is_next(batch) == (place in due and number == 0)
        for batch in self.flying.values():
            assert told(batch) == told_plainly(plain.flying[batch.partition])
            assert not real.is_next(batch)


def numbers(batch: PendingBatch) -> list[int]:
    return [record.timestamp_ms for record in batch.records]


def told(batch: PendingBatch) -> tuple[object, ...]:
    assert len(batch.deliveries) == len(batch.records)
    bounds = batch.closed, batch.attempts, batch.created_ms, batch.not_before_ms
    return batch.partition, numbers(batch), batch.size_bytes, *bounds


def told_plainly(one: Plain) -> tuple[object, ...]:
    return one.place, list(one.sizes), one.bytes, one.closed, one.attempts, one.created_ms, one.not_before_ms


@pytest.mark.parametrize("seed", range(6))
async def test_batches_are_those_of_plain_lists(seed: int) -> None:
    both = Beside(seed)
    for _ in range(250):
        both.now_ms += both.random.choice((0, 0, 1, 4, 10))
        both.do(both.random.choice(OPERATIONS))
        both.compare()
    assert both.drawn == {"done", "give back", "replace", "expired"}
    in_flight = [list(one.sizes) for place in both.plain.waiting for one in [both.plain.flying.get(place)] if one]
    left = [list(one.sizes) for of in both.plain.waiting.values() for one in of]
    assert [numbers(batch) for batch in both.real.clear()] == in_flight + left
    assert (bool(both.real), both.real.buffered_bytes) == (False, 0)


def test_a_batch_is_full_at_its_size_and_grows_sixteenfold_within_a_request() -> None:
    for batch_size, largest, grown in ((100, 10_000, 1_600), (100, 1_599, 1_599), (100, 50, 100)):
        settings = ProducerSettings(batch_size=batch_size, max_request_size=largest)
        assert Accumulator(settings)._grown_bytes == grown


def test_a_batch_of_which_nothing_is_there_is_not_next() -> None:
    assert not Accumulator(ProducerSettings()).is_next(PendingBatch(PLACES[0], 0.0))
