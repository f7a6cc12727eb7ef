"""Producers and a group of consumers, real clients, that go on whatever happens; their results make a history."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka.errors import KafkaConnectionError
from kafka.errors import KafkaError as PythonError

from bench.child import Background
from bench.measure import Figures
from bench.process import AS_INSTALLED
from bench.topics import create_topic, wait_in_sync
from penstock.testing import Cluster
from penstock.testing.history import History, Outcome

KAFKA_DEFAULTS: Final = AS_INSTALLED | {
    "controller.quorum.election.backoff.max.ms": "1000",
    "broker.heartbeat.interval.ms": "2000",
}
"""Time-outs of an installation; a cluster for tests elects faster."""
KNOWN_S: Final = 1.0  # how long it takes until the death of a broker is known
ELECTION_S: Final = 4.0
"""A quorum whose leader dies elects another one within two fetch time-outs, each of 2 s by default."""
TOPIC: Final = "drill"
GROUP: Final = "drill"
PATIENCE_S: Final = 180.0
TICK_S: Final = 0.01
SESSION_MS: Final = 6_000
MAX_POLL_MS: Final = 90_000
"""As long both clients wait for a coordinator that sleeps while they join: by default for five minutes."""


class DrillError(Exception):
    """A promise was broken; the text says which."""


class Drill(Figures):
    def __init__(self, rounds: int, show: Callable[[str], None]) -> None:
        super().__init__()
        self.count, self._show, self._number = rounds, show, 0

    def rounds(self) -> Iterator[int]:
        for number in range(self.count):
            self._number = number
            yield number

    def say(self, text: str) -> None:
        self._show(f"round {self._number + 1}: {text}")


class Seen:
    """The results of all clients in one history; and every error of theirs."""

    def __init__(self) -> None:
        self.history = History()
        self.errors: list[str] = []
        self.coordinator_errors: list[str] = []
        """Failed requests to the coordinator, mostly commits, but for rebalances."""
        self.longest_s: dict[str, float] = {}
        self.acknowledged = 0
        self.values: set[bytes] = set()
        self._committed: dict[int, int] = {}
        self.lock = threading.Lock()

    def was_acknowledged(self, client: str, partition: int, offset: int, value: bytes, took_s: float) -> None:
        with self.lock:
            self.acknowledged += 1
            self.longest_s[client] = max(took_s, self.longest_s.get(client, 0.0))
            self.history.sent(client, (TOPIC, partition), value, Outcome.ACKNOWLEDGED, offset=offset)

    def refused(self, values: Iterable[bytes]) -> None:
        """Records for the first partition, which none of the clients has sent."""
        with self.lock:
            for value in values:
                self.history.sent("nobody", (TOPIC, 0), value, Outcome.REFUSED)

    def was_polled(self, client: str, partition: int, offset: int, value: bytes) -> None:
        with self.lock:
            self.values.add(value)
            self.history.polled(client, (TOPIC, partition), offset, value)

    def was_assigned(self, client: str, partition: int) -> int:
        """Returns the last known commit of the partition."""
        with self.lock:
            self.history.moved(client, (TOPIC, partition))
            return self._committed.get(partition, 0)

    def committed(self, partition: int) -> int:
        with self.lock:
            return self._committed.get(partition, 0)

    def was_committed(self, partition: int, offset: int) -> None:
        with self.lock:
            self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def failed(self, client: str, error: object, *, at_coordinator: bool = False) -> None:
        with self.lock:
            errors = self.coordinator_errors if at_coordinator else self.errors
            errors.append(f"{time.strftime('%X')} {client}: {error}")


class _Client(Background):
    """Does a little in each step; its end waits for what is under way."""

    name: str
    open: Callable[[], None]
    step: Callable[[], None]
    close: Callable[[], None]

    def __init__(self, bootstrap: str, seen: Seen, partitions: int) -> None:
        super().__init__()
        self.bootstrap, self.seen, self.partitions = bootstrap, seen, partitions
        self.patience_s = PATIENCE_S

    def run(self) -> None:
        try:
            self.open()
            while not self.is_over.is_set():
                self.step()
            self.close()
        except Exception as error:
            self.seen.failed(self.name, f"ended: {error!r}")


class LibrdkafkaProducer(_Client):
    """confluent-kafka, acks=all, idempotent: some records in each step."""

    name = "confluent"
    per_step = 5

    def open(self) -> None:
        self._numbers = itertools.count()
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": self.bootstrap, **settings})

    def step(self) -> None:
        for number in itertools.islice(self._numbers, self.per_step):
            self._producer.produce(
                TOPIC, b"c%d" % number, partition=number % self.partitions, on_delivery=self._delivered
            )
        self._producer.poll(TICK_S)

    def close(self) -> None:
        if left := self._producer.flush(self.patience_s):
            self.seen.failed(self.name, f"{left} records were never answered")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.seen.failed(self.name, error)
        else:
            self.seen.was_acknowledged(self.name, *_place(message), message.latency() or 0.0)


class PythonProducer(_Client):
    """kafka-python, acks=all, idempotent: a record in each step."""

    name = "kafka-python"

    def open(self) -> None:
        self._numbers = itertools.count()
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            reconnect_backoff_max_ms=1000,  # as Java's; its own 30 s were all that a record waited for now and then
        )

    def step(self) -> None:
        number, at = next(self._numbers), time.monotonic()
        value = b"p%d" % number
        future = self._producer.send(TOPIC, value, partition=number % self.partitions)
        future.add_callback(
            lambda told: self.seen.was_acknowledged(
                self.name, told.partition, told.offset, value, time.monotonic() - at
            )
        )
        future.add_errback(lambda error: self.seen.failed(self.name, repr(error)))
        time.sleep(TICK_S)

    def close(self) -> None:
        self._producer.close(self.patience_s)


class _Consumer(_Client):
    _consumer: Any

    def __init__(self, bootstrap: str, seen: Seen, partitions: int) -> None:
        super().__init__(bootstrap, seen, partitions)
        self._committed: dict[int, int] = {}
        """Of partitions without a read record since they were assigned."""

    def close(self) -> None:
        self._consumer.close()

    def assigned(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._committed[partition] = self.seen.was_assigned(self.name, partition)

    def polled(self, partition: int, offset: int, value: bytes) -> None:
        """The first record of a partition must not lie before what was committed when it was assigned."""
        committed = self._committed.pop(partition, 0)
        if offset < committed:
            self.seen.failed(self.name, f"partition {partition} begins at {offset} although {committed} was committed")
        self.seen.was_polled(self.name, partition, offset, value)


class LibrdkafkaConsumer(_Consumer):
    name = "confluent"

    def open(self) -> None:
        reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
        member = {"group.id": GROUP, "session.timeout.ms": SESSION_MS, "max.poll.interval.ms": MAX_POLL_MS}
        strategy = {"partition.assignment.strategy": "range"}
        self._consumer = Consumer({"bootstrap.servers": self.bootstrap, **reading, **member, **strategy})
        self._consumer.subscribe([TOPIC], on_assign=self._assigned)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned(one.partition for one in partitions)

    def step(self) -> None:
        for message in self._consumer.consume(500, TICK_S):
            if (error := message.error()) is not None:
                is_cut_off = error.code() == KafkaError._TRANSPORT  # librdkafka says so, and asks again by itself
                self.seen.failed(self.name, error, at_coordinator=is_cut_off)
            else:
                self.polled(*_place(message))
        try:
            for one in self._consumer.commit(asynchronous=False) or []:
                if one.error is not None:
                    raise KafkaException(one.error)
                self.seen.was_committed(one.partition, one.offset)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._NO_OFFSET, *REBALANCING):
                self.seen.failed(self.name, error, at_coordinator=True)


REBALANCING: Final = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError.UNKNOWN_MEMBER_ID,
)
"""Answers of any broker to a commit during a rebalance: the partition's next owner reads again."""
PYTHON_REBALANCING: Final = (
    "CommitFailedError",
    "RebalanceInProgressError",
    "IllegalGenerationError",
    "UnknownMemberIdError",
)


class PythonConsumer(_Consumer, kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    name = "kafka-python"

    def open(self) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
            session_timeout_ms=SESSION_MS,
            max_poll_interval_ms=MAX_POLL_MS,
        )
        coordinator = self._consumer._coordinator
        self._ask = coordinator._send_offset_fetch_request
        coordinator._send_offset_fetch_request = self._ask_and_compare
        self._consumer.subscribe([TOPIC], listener=self)

    async def _ask_and_compare(self, partitions: Any) -> Any:
        """What the coordinator itself answers, whatever the client makes of it, is never behind what was committed."""
        known = {one: self.seen.committed(one.partition) for one in partitions}
        told = await self._ask(partitions)
        for one, committed in known.items():
            offset = told[one].offset if one in told else 0
            if offset < committed:
                self.seen.failed("coordinator", f"it says {offset} of {one.partition}; {committed} was committed")
        return told

    def on_partitions_revoked(self, revoked: Any) -> None:
        # kafka-python 3.0 keeps positions of partitions that it gets again, whoever has had them and read on since;
        # Java's client forgets them here.
        self._consumer._subscription.assign_from_subscribed([])

    def on_partitions_assigned(self, assigned: Any) -> None:
        # kafka-python 3.0 keeps what it asked for when a poll ends before the answer, and takes it for the committed
        # offsets of a later assignment of the same partitions.
        self._consumer._coordinator._offset_fetch_futures.clear()
        self.assigned(one.partition for one in assigned)

    def step(self) -> None:
        try:
            found = self._consumer.poll(int(TICK_S * 1000), max_records=500)
        except KafkaConnectionError as error:  # no node listens; the next poll tries again
            self.seen.failed(self.name, repr(error), at_coordinator=True)
            return
        for record in itertools.chain(*found.values()):
            self.polled(record.partition, record.offset, record.value)
        if not found:
            return
        try:
            self._consumer.commit()
        except PythonError as error:
            if type(error).__name__ not in PYTHON_REBALANCING:
                self.seen.failed(self.name, repr(error), at_coordinator=True)
        else:
            for one, records in found.items():
                self.seen.was_committed(one.partition, records[-1].offset + 1)


class Traffic:
    """Two producers and two consumers of a group, for as long as the block lasts."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self.seen = seen = Seen()
        self._producing = [kind(bootstrap, seen, partitions) for kind in (LibrdkafkaProducer, PythonProducer)]
        self._consuming = [kind(bootstrap, seen, partitions) for kind in (LibrdkafkaConsumer, PythonConsumer)]

    def __enter__(self) -> Self:
        for client in (*self._producing, *self._consuming):
            client.begin()
        self.wait_for_more()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """All acknowledged records must be read, and the checker be silent; unless the block has failed."""
        for producer in self._producing:
            producer.patience_s = PATIENCE_S if kind is None else 0.0
            producer.end()
        if kind is None:
            self._wait(lambda: len(self.seen.values) >= self.seen.acknowledged, "what is acknowledged is read")
        for consumer in self._consuming:
            consumer.end()
        if kind is None:
            self.expect_no_anomaly()

    def begin_round(self) -> None:
        """Waits of records count from now on."""
        self.seen.longest_s.clear()

    @property
    def longest_s(self) -> float:
        return max(self.seen.longest_s.values())

    def wait_for_more(self, count: int = 1000) -> None:
        seen = self.seen
        acknowledged, read = seen.acknowledged + count, len(seen.values) + count
        self._wait(lambda: seen.acknowledged >= acknowledged and len(seen.values) >= read, f"{count} more records")

    def expect_no_error(self, *, coordinator_may_fail: bool = True) -> None:
        """No client had an error; requests to a killed coordinator may fail."""
        found = self.seen.errors + ([] if coordinator_may_fail else self.seen.coordinator_errors)
        if found:
            raise DrillError("; ".join(found[:10]))

    def expect_no_anomaly(self, but: Sequence[str] = ()) -> None:
        """The checker is silent, but for what only the end can tell."""
        self.expect_no_error()
        with self.seen.lock:
            found = [one for one in self.seen.history.anomalies() if one.kind not in but]
        if found:
            raise DrillError("; ".join(map(str, found[:10])))

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                self.seen.failed("everybody", f"not within {PATIENCE_S:g} s: {what}")
                return
            time.sleep(TICK_S)


@contextmanager
def under_traffic(
    partitions: int = 6, places: Sequence[Sequence[int]] = (), topic: dict[str, str] | None = None, **cluster: Any
) -> Iterator[tuple[Cluster, Traffic]]:
    """Nodes in processes, and clients at work on a topic of theirs, with so many partitions or at these places."""
    with Cluster(process=True, **cluster) as started:
        create_topic(started.bootstrap_servers, TOPIC, partitions, 3, topic, places=places)
        wait_in_sync(started.bootstrap_servers, TOPIC, 3)
        with Traffic(started.bootstrap_servers, len(places) or partitions) as traffic:
            yield started, traffic


def _place(message: Message) -> tuple[int, int, bytes]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return partition, offset, value
