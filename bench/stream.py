"""One producer with an even stream of records, and how long each waited for its acknowledgement."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from bench.background import Background
from penstock.testing.quorum_view import wait_until

TICK_S = 0.005
PATIENCE_S = 120.0


class Stream(Background):
    """Numbered records at an even rate, to the partitions in turn; by default idempotent and with acks=all."""

    def __init__(
        self, address: str, topic: str, partitions: int = 1, *, rate: int, size: int = 0, **settings: str | int | bool
    ) -> None:
        super().__init__()
        self.waits: list[tuple[float, float]] = []
        """When a record was sent, and how many ms it took."""
        self.sent = self.unanswered = 0
        self.refused: list[bytes] = []
        self.last_sent_s = [0.0] * partitions
        """Of each partition, when the newest acknowledged record was sent."""
        self.topic = topic
        self._rate, self._size = rate, size
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self._settings = {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0, **given}

    def run(self) -> None:
        producer = Producer(self._settings)
        next_s = begun_s = time.perf_counter()
        while not self.is_over.is_set():
            for _ in range(int((next_s - begun_s) * self._rate) - self.sent):
                self._send(producer)
            next_s += TICK_S
            while (left_s := next_s - time.perf_counter()) > 0:
                producer.poll(left_s)
        self.unanswered = producer.flush(PATIENCE_S)

    def _send(self, producer: Producer) -> None:
        value, partition = self._value(self.sent), self.sent % len(self.last_sent_s)
        self.sent += 1
        while True:
            try:
                return producer.produce(self.topic, value, partition=partition, on_delivery=self._told)
            except BufferError:  # the client's queue is full
                producer.poll(TICK_S)

    def _value(self, number: int) -> bytes:
        return b"%0*d" % (self._size, number)

    def acknowledged(self) -> set[bytes]:
        """All values but the refused ones. RuntimeError if some were never answered."""
        if self.unanswered:
            raise RuntimeError(f"{self.unanswered} records were never answered")
        return {self._value(number) for number in range(self.sent)}.difference(self.refused)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(message.value() or b"")
            return
        waited_s = message.latency() or 0.0
        sent_s = time.perf_counter() - waited_s
        self.waits.append((sent_s, waited_s * 1000))
        self.last_sent_s[message.partition() or 0] = sent_s

    def longest_ms(self, from_s: float = 0.0, to_s: float = float("inf")) -> float:
        return max(wait for sent_s, wait in self.waits if from_s <= sent_s < to_s)

    def wait_for_more(self, count: int = 500) -> None:
        wanted = len(self.waits) + count
        self._wait(lambda: len(self.waits) >= wanted)

    def wait_until_every_partition_goes_on(self) -> None:
        now_s = time.perf_counter()
        self._wait(lambda: min(self.last_sent_s) > now_s)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        wait_until(lambda: is_so() or None, PATIENCE_S, "a producer that gets on")
