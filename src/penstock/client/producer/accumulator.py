"""Records on their way out: gathered into batches, one queue per partition. No IO and no clock.

    append -> [open batch] -> take (full, lingered or flushed) -> in flight -> done
                                    ^                                |
                                    +---------- give_back <----------+   (with a pause, in front of the queue)

At most one batch of a partition is in flight, so the order of a partition's records is never changed by a retry. What
comes meanwhile gathers in the batch behind it, which may grow to several times batch.size: one partition alone is then
not bound by the round trip.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.client.settings import ProducerSettings
from penstock.client.values import RecordMetadata, TopicPartition
from penstock.protocol.batch import HEADER_SIZE
from penstock.protocol.records import Record

RECORD_OVERHEAD = 21  # bytes that a record's own fields take at most, beside key, value and headers
OBJECT_OVERHEAD = 500  # bytes that a record takes in this process beside its data: buffer.memory is to be the truth
GROWTH = 16  # how many times batch.size a batch may grow to while another one is in flight
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1


@dataclass(slots=True)
class PendingBatch:
    """Records of one partition, and the futures of their senders. Times are the event loop's."""

    partition: TopicPartition
    created_ms: float
    records: list[Record] = field(default_factory=list)
    deliveries: list[asyncio.Future[RecordMetadata]] = field(default_factory=list)
    size_bytes: int = HEADER_SIZE
    closed: bool = False
    attempts: int = 0
    not_before_ms: float = 0.0
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    number: int = 0
    """Each has a higher one than those before it; halves keep it."""

    def split(self) -> "tuple[PendingBatch, PendingBatch]":
        """For a batch that the broker finds too large; the halves are numbered when they are sent."""
        middle = len(self.records) // 2
        halves = []
        for start, end in ((0, middle), (middle, len(self.records))):
            half = PendingBatch(self.partition, self.created_ms, self.records[start:end], self.deliveries[start:end])
            half.size_bytes += sum(size_of(record) for record in half.records)
            half.closed = True
            half.attempts = self.attempts
            half.number = self.number
            halves.append(half)
        return halves[0], halves[1]


@dataclass(slots=True)
class _Queue:
    batches: deque[PendingBatch] = field(default_factory=deque)
    in_flight: PendingBatch | None = None


class Accumulator:
    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._queues: dict[TopicPartition, _Queue] = {}
        self._count = 0
        self.flushing = 0
        """While anybody waits for what is here, nothing lingers."""
        self.buffered_bytes = 0
        self._grown_bytes = max(settings.batch_size, min(GROWTH * settings.batch_size, settings.max_request_size))

    def __bool__(self) -> bool:
        """Whether anything is still on its way."""
        return bool(self._queues)

    def __contains__(self, partition: TopicPartition) -> bool:
        """Whether anything is still on its way there."""
        return partition in self._queues

    def waiting(self) -> list[tuple[TopicPartition, int]]:
        """The partitions with anything on its way, and the number of the last batch of each."""
        lasts = (
            (where, queue.batches[-1] if queue.batches else queue.in_flight) for where, queue in self._queues.items()
        )
        return [(where, last.number) for where, last in lasts if last is not None]

    def holds(self, partition: TopicPartition, number: int) -> bool:
        """Whether a batch up to that number is still on its way there."""
        queue = self._queues.get(partition)
        if queue is None:
            return False
        first = queue.in_flight or queue.batches[0]
        return first.number <= number

    def has_room(self, size_bytes: int) -> bool:
        """Whether this much fits in; what is larger than the whole buffer fits when it is empty."""
        return not self.buffered_bytes or self.buffered_bytes + size_bytes <= self._settings.buffer_memory

    def append(
        self,
        partition: TopicPartition,
        record: Record,
        size_bytes: int,
        delivery: asyncio.Future[RecordMetadata],
        now_ms: float,
    ) -> bool:
        """Add a record; whether the sender has something new to look at: a batch that begins or one that is full."""
        queue = self._queues.setdefault(partition, _Queue())
        last = queue.batches[-1] if queue.batches else None
        news = False
        limit = self._settings.batch_size if queue.in_flight is None else self._grown_bytes
        if last is None or last.closed or last.size_bytes + size_bytes > limit:
            if last is not None:
                last.closed = True
            self._count += 1
            last = PendingBatch(partition, now_ms, number=self._count)
            queue.batches.append(last)
            news = True
        last.records.append(record)
        last.deliveries.append(delivery)
        last.size_bytes += size_bytes
        self.buffered_bytes += size_bytes + OBJECT_OVERHEAD
        if last.size_bytes >= limit:
            last.closed = news = True
        return news

    def ready(self, now_ms: float) -> list[TopicPartition]:
        """The partitions whose first batch should go now."""
        return [partition for partition, at_ms in self._due() if at_ms <= now_ms]

    def next_ready_ms(self) -> float | None:
        """When the next batch should go, if none comes before."""
        return min((at_ms for _, at_ms in self._due()), default=None)

    def _due(self) -> Iterator[tuple[TopicPartition, float]]:
        for partition, queue in self._queues.items():
            if queue.in_flight is None and queue.batches:
                first = queue.batches[0]
                is_full = first.closed or first.size_bytes >= self._settings.batch_size or len(queue.batches) > 1
                waits = not (is_full or self.flushing)
                lingered_ms = first.created_ms + self._settings.linger_ms if waits else 0.0
                yield partition, max(first.not_before_ms, lingered_ms)

    def first(self, partition: TopicPartition) -> PendingBatch:
        """The batch that would go next."""
        return self._queues[partition].batches[0]

    def is_next(self, batch: PendingBatch) -> bool:
        """Whether it still is the batch that would go next to its partition."""
        queue = self._queues.get(batch.partition)
        return queue is not None and queue.in_flight is None and queue.batches[0] is batch

    def take(self, partition: TopicPartition) -> PendingBatch:
        """It is in flight from now on."""
        queue = self._queues[partition]
        assert queue.in_flight is None
        queue.in_flight = queue.batches.popleft()
        queue.in_flight.closed = True
        return queue.in_flight

    def give_back(self, batch: PendingBatch, not_before_ms: float) -> None:
        """Put a batch that was in flight in front again."""
        queue = self._landed(batch)
        batch.not_before_ms = not_before_ms
        queue.batches.appendleft(batch)

    def replace(self, batch: PendingBatch) -> None:
        queue = self._landed(batch)
        queue.batches.extendleft(reversed(batch.split()))

    def done(self, batch: PendingBatch) -> None:
        """Acknowledged or failed."""
        queue = self._landed(batch)
        self._release(batch)
        if not queue.batches:
            del self._queues[batch.partition]

    def drop_expired(self, now_ms: float) -> list[PendingBatch]:
        """Take out the batches that have waited for longer than delivery.timeout.ms."""
        limit_ms = now_ms - self._settings.delivery_timeout_ms
        return self._drop(lambda batch: batch.created_ms <= limit_ms)

    def drop_all(self) -> list[PendingBatch]:
        """Without those in flight."""
        return self._drop(lambda batch: True)

    def clear(self) -> list[PendingBatch]:
        """All batches, also those in flight: nobody waits for an answer any more."""
        in_flight = [queue.in_flight for queue in self._queues.values() if queue.in_flight is not None]
        for batch in in_flight:
            self.done(batch)
        return in_flight + self.drop_all()

    def _drop(self, is_over: Callable[[PendingBatch], bool]) -> list[PendingBatch]:
        dropped: list[PendingBatch] = []
        for partition, queue in list(self._queues.items()):
            while queue.batches and is_over(queue.batches[0]):
                batch = queue.batches.popleft()
                self._release(batch)
                dropped.append(batch)
            if not queue.batches and queue.in_flight is None:
                del self._queues[partition]
        return dropped

    def _release(self, batch: PendingBatch) -> None:
        self.buffered_bytes -= batch.size_bytes - HEADER_SIZE + OBJECT_OVERHEAD * len(batch.records)

    def _landed(self, batch: PendingBatch) -> _Queue:
        queue = self._queues[batch.partition]
        assert queue.in_flight is batch
        queue.in_flight = None
        return queue


def size_of(record: Record) -> int:
    """About how many bytes a record takes in a batch, before compression; never too few."""
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    return size + sum(10 + 4 * len(name) + len(value or b"") for name, value in record.headers)
