"""Producers and a group of consumers, real clients, that go on whatever happens; what they see makes a history."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol, Self

import kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka.errors import KafkaConnectionError
from kafka.errors import KafkaError as PythonError

from penstock.testing.history import Anomaly, History, Outcome

GROUP: Final = "drill"
PATIENCE_S: Final = 180.0
TICK_S: Final = 0.01
SESSION_MS: Final = 6_000


class Seen:
    """What all clients were told, in one history; and every error that one of them was given."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.history = History()
        self.errors: list[str] = []
        self.coordinator_errors: list[str] = []
        self.longest_s: dict[str, float] = {}
        self.sent = self.acknowledged = 0
        self._values: set[bytes] = set()
        self._committed: dict[int, int] = {}
        self._lock = threading.Lock()

    def was_acknowledged(self, producer: str, partition: int, offset: int, value: bytes, took_s: float) -> None:
        with self._lock:
            self.acknowledged += 1
            self.longest_s[producer] = max(took_s, self.longest_s.get(producer, 0.0))
            self.history.sent(producer, (self.topic, partition), value, Outcome.ACKNOWLEDGED, offset=offset)

    def refused(self, producer: str, partition: int, value: bytes) -> None:
        with self._lock:
            self.history.sent(producer, (self.topic, partition), value, Outcome.REFUSED)

    def was_polled(self, consumer: str, partition: int, offset: int, value: bytes) -> None:
        with self._lock:
            self._values.add(value)
            self.history.polled(consumer, (self.topic, partition), offset, value)

    def was_assigned(self, consumer: str, partition: int) -> None:
        with self._lock:
            self.history.moved(consumer, (self.topic, partition))

    def failed(self, client: str, error: object) -> None:
        with self._lock:
            self.errors.append(f"{time.strftime('%X')} {client}: {error}")

    def coordinator_failed(self, client: str, error: object) -> None:
        """Nothing came of a request to the coordinator, a commit mostly, and not for a rebalance."""
        with self._lock:
            self.coordinator_errors.append(f"{time.strftime('%X')} {client}: {error}")

    def was_committed(self, partition: int, offset: int) -> None:
        """The group was told that this is its committed offset."""
        with self._lock:
            self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def begins(self, consumer: str, partition: int, committed: int, offset: int) -> None:
        """A consumer's first record of a partition it was assigned when `committed` was the last commit known."""
        if offset < committed:
            self.failed(consumer, f"partition {partition} begins at {offset} although {committed} was committed")

    def committed(self, partition: int) -> int:
        with self._lock:
            return self._committed.get(partition, 0)

    def anomalies(self) -> list[Anomaly]:
        """What the checker finds in what all of them were told until now."""
        with self._lock:
            return self.history.anomalies()

    @property
    def read(self) -> int:
        """So many different values were read."""
        with self._lock:
            return len(self._values)


class _Client(Protocol):
    def step(self) -> None:
        """Do a little."""

    def close(self, patience_s: float) -> None:
        """The end: what is under way is waited for, but not longer than this."""


class LibrdkafkaProducer:
    """confluent-kafka, acks=all, idempotent: some records in each step."""

    def __init__(self, bootstrap: str, seen: Seen, partitions: int, per_step: int) -> None:
        self._seen, self._partitions, self._per_step = seen, partitions, per_step
        self._numbers = itertools.count()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

    def step(self) -> None:
        for number in itertools.islice(self._numbers, self._per_step):
            at = time.monotonic()
            self._producer.produce(
                self._seen.topic,
                b"c%d" % number,
                partition=number % self._partitions,
                on_delivery=lambda error, message, at=at: self._delivered(error, message, at),  # type: ignore[misc]
            )
            self._seen.sent += 1
        self._producer.poll(TICK_S)

    def close(self, patience_s: float) -> None:
        left = self._producer.flush(patience_s)
        if left:
            self._seen.failed("producer", f"{left} records were never answered")

    def _delivered(self, error: KafkaError | None, message: Message, at: float) -> None:
        if error is not None:
            self._seen.failed("producer", error)
            return
        partition, offset, value = _place(message)
        self._seen.was_acknowledged("confluent", partition, offset, value, time.monotonic() - at)


class PythonProducer:
    """kafka-python, acks=all, idempotent."""

    def __init__(self, bootstrap: str, seen: Seen, partitions: int, per_step: int) -> None:
        self._seen, self._partitions, self._per_step = seen, partitions, per_step
        self._numbers = itertools.count()
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            reconnect_backoff_max_ms=1000,  # as Java's; its own 30 s were all that a record waited for now and then
        )

    def step(self) -> None:
        for number in itertools.islice(self._numbers, self._per_step):
            at, value = time.monotonic(), b"p%d" % number
            future = self._producer.send(self._seen.topic, value, partition=number % self._partitions)
            future.add_callback(
                lambda told, value=value, at=at: self._seen.was_acknowledged(
                    "kafka-python", told.partition, told.offset, value, time.monotonic() - at
                )
            )
            future.add_errback(lambda error: self._seen.failed("kafka-python's producer", repr(error)))
            self._seen.sent += 1
        time.sleep(TICK_S)

    def close(self, patience_s: float) -> None:
        self._producer.close(patience_s)


class LibrdkafkaConsumer:
    """confluent-kafka: reads and commits."""

    def __init__(self, bootstrap: str, seen: Seen) -> None:
        self._seen = seen
        self._begin: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([seen.topic], on_assign=self._assigned)

    def step(self) -> None:
        for message in self._consumer.consume(500, TICK_S):
            error = message.error()
            if error is not None:
                is_cut_off = error.code() == KafkaError._TRANSPORT  # librdkafka says so, and asks again by itself
                (self._seen.coordinator_failed if is_cut_off else self._seen.failed)("consumer", error)
                continue
            partition, offset, value = _place(message)
            if partition in self._begin:
                self._seen.begins("consumer", partition, self._begin.pop(partition), offset)
            self._seen.was_polled("confluent", partition, offset, value)
        self._commit()

    def close(self, patience_s: float) -> None:
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._begin[one.partition] = self._seen.committed(one.partition)
            self._seen.was_assigned("confluent", one.partition)

    def _commit(self) -> None:
        try:
            for one in self._consumer.commit(asynchronous=False) or []:
                if one.error is not None:
                    raise KafkaException(one.error)
                self._seen.was_committed(one.partition, one.offset)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._NO_OFFSET, *REBALANCING):
                self._seen.coordinator_failed("consumer", error)


REBALANCING: Final = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError.UNKNOWN_MEMBER_ID,
)
"""What a commit in the middle of a rebalance is told, on any broker: the partition is read again by whoever has it."""


class PythonConsumer:
    """kafka-python: reads and commits."""

    def __init__(self, bootstrap: str, seen: Seen) -> None:
        self._seen = seen
        self._begin: dict[int, int] = {}
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
            session_timeout_ms=SESSION_MS,
        )
        self._consumer.subscribe([seen.topic], listener=self._listener())

    def step(self) -> None:
        try:
            found = self._consumer.poll(int(TICK_S * 1000), max_records=500)
        except KafkaConnectionError as error:  # nobody at all listens; the next poll tries again
            self._seen.coordinator_failed("kafka-python's consumer", repr(error))
            return
        for records in found.values():
            for record in records:
                if record.partition in self._begin:
                    begun = self._begin.pop(record.partition)
                    self._seen.begins("kafka-python", record.partition, begun, record.offset)
                self._seen.was_polled("kafka-python", record.partition, record.offset, record.value)
        if not found:
            return
        try:
            self._consumer.commit()
        except PythonError as error:
            if type(error).__name__ not in PYTHON_REBALANCING:
                self._seen.coordinator_failed("kafka-python's consumer", repr(error))
        else:
            for one, records in found.items():
                self._seen.was_committed(one.partition, records[-1].offset + 1)

    def close(self, patience_s: float) -> None:
        self._consumer.close()

    def _listener(self) -> kafka.ConsumerRebalanceListener:
        client = self

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                # kafka-python 3.0 keeps what it asked for when a poll ends before the answer, and takes it for the
                # committed offsets of a later assignment of the same partitions.
                client._consumer._coordinator._offset_fetch_futures.clear()
                for one in assigned:
                    client._begin[one.partition] = client._seen.committed(one.partition)
                    client._seen.was_assigned("kafka-python", one.partition)

        return Listener()


PYTHON_REBALANCING: Final = (
    "CommitFailedError",
    "RebalanceInProgressError",
    "IllegalGenerationError",
    "UnknownMemberIdError",
)


class Traffic:
    """Two producers and two consumers of a group, each in a thread of its own, for as long as the block lasts."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_step: int = 5) -> None:
        self.seen = Seen(topic)
        self._bootstrap, self._partitions, self._per_step = bootstrap, partitions, per_step
        self._patience_s = PATIENCE_S
        self._is_over = threading.Event()
        self._all_read = threading.Event()
        makers: list[tuple[str, Callable[[], _Client], threading.Event]] = [
            ("producer", lambda: LibrdkafkaProducer(bootstrap, self.seen, partitions, per_step), self._is_over),
            ("kafka-python's producer", lambda: PythonProducer(bootstrap, self.seen, partitions, 1), self._is_over),
            ("consumer", lambda: LibrdkafkaConsumer(bootstrap, self.seen), self._all_read),
            ("kafka-python's consumer", lambda: PythonConsumer(bootstrap, self.seen), self._all_read),
        ]
        self._producing = [threading.Thread(target=self._run, args=one, name=one[0]) for one in makers[:2]]
        self._consuming = [threading.Thread(target=self._run, args=one, name=one[0]) for one in makers[2:]]

    def __enter__(self) -> Self:
        for thread in (*self._producing, *self._consuming):
            thread.start()
        self.wait_for_more()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._patience_s = 0.0  # nobody wants to know any more
        self._is_over.set()
        for thread in self._producing:
            thread.join()
        try:
            if kind is None:
                self._wait(lambda: self.seen.read >= self.seen.acknowledged, "what is acknowledged is read")
        finally:
            self._all_read.set()
            for thread in self._consuming:
                thread.join()

    def wait_for_more(self, count: int = 1000) -> None:
        """Until so many more records are acknowledged and read."""
        acknowledged, read = self.seen.acknowledged + count, self.seen.read + count
        self._wait(lambda: self.seen.acknowledged >= acknowledged and self.seen.read >= read, f"{count} more records")

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                self.seen.failed("everybody", f"not within {PATIENCE_S:g} s: {what}")
                return
            time.sleep(TICK_S)

    def _run(self, name: str, make: Callable[[], _Client], is_over: threading.Event) -> None:
        try:
            client = make()
            while not is_over.is_set():
                client.step()
            client.close(self._patience_s)
        except Exception as error:
            self.seen.failed(name, f"ended: {error!r}")


def _place(message: Message) -> tuple[int, int, bytes]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return partition, offset, value
