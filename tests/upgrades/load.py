"""A producer and a member of a group that go on all the time, and remember what they were told."""

import threading
from collections import Counter
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, Message, Producer

BATCH = 20
LIMIT_S = 90


class Load:
    """As a context: it runs until its end, and then has to have read all that was acknowledged."""

    def __init__(self, bootstrap: str, *topics: str) -> None:
        self._topics = topics
        self._changed = threading.Condition()
        self._ends = False
        self.acknowledged = dict.fromkeys(topics, 0)
        self.read: dict[str, Counter[bytes]] = {topic: Counter() for topic in topics}
        self.errors: list[str] = []
        heard = {
            "bootstrap.servers": bootstrap,
            "error_cb": self._heard,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self._producer = Producer(heard | {"enable.idempotence": True, "linger.ms": 2})
        self._consumer = Consumer(
            heard | {"group.id": "load", "auto.offset.reset": "earliest", "session.timeout.ms": 30_000}
        )
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.goes_on()
        finally:
            self._ends = True
            for thread in self._threads:
                thread.join(LIMIT_S)

    def goes_on(self, records: int = 200) -> None:
        """Waits until each topic has so many more records, and all of them were read."""
        with self._changed:
            wanted = {topic: count + records for topic, count in self.acknowledged.items()}
            assert self._changed.wait_for(
                lambda: bool(self.errors) or all(len(self.read[topic]) >= count for topic, count in wanted.items()),
                LIMIT_S,
            ), (wanted, self.acknowledged, {topic: len(found) for topic, found in self.read.items()})
        assert self.errors == []

    def _produce(self) -> None:
        number = 0
        while not self._ends:
            for topic in self._topics:
                for one in range(number, number + BATCH):
                    self._producer.produce(topic, b"%d" % one, key=b"%d" % (one % 7), on_delivery=self._delivered)
            number += BATCH
            self._producer.poll(0.02)
        self._producer.flush(LIMIT_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        with self._changed:
            if error is not None:
                self.errors.append(f"a record was not acknowledged: {error}")
            else:
                self.acknowledged[str(message.topic())] += 1
            self._changed.notify_all()

    def _consume(self) -> None:
        self._consumer.subscribe(list(self._topics))
        try:
            while not self._ends:
                for message in self._consumer.consume(500, 0.1):
                    with self._changed:
                        if message.error() is not None:
                            self.errors.append(f"a record was not read: {message.error()}")
                        else:
                            self.read[str(message.topic())][message.value() or b""] += 1
                        self._changed.notify_all()
        finally:
            self._consumer.close()

    def _heard(self, error: KafkaError) -> None:
        """That a connection was closed is no error: another one follows."""
        if error.fatal() or error.code() not in (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
        ):
            with self._changed:
                self.errors.append(str(error))
