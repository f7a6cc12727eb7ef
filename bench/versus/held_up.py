"""A steady stream of records with acks=all, and what its producer was told of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

STEP_S: Final = 0.01
PATIENCE_S: Final = 120.0


class Stream:
    """A record for each partition every few milliseconds, for as long as the block lasts."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.longest_s = 0.0
        self.errors = 0
        self._address, self._topic = address, topic
        self._acknowledged: set[bytes] = set()
        self._last_sent_s = [0.0] * partitions
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def __enter__(self) -> Self:
        """It begins."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """It ends when all is answered."""
        self._is_over.set()
        self._thread.join()

    def wait_for_more(self, count: int = 500) -> None:
        """Until so many more are acknowledged."""
        wanted = len(self._acknowledged) + count
        self._wait(lambda: len(self._acknowledged) >= wanted)

    def wait_until_every_partition_goes_on(self) -> None:
        """Until of each partition a record is acknowledged that was sent from now on."""
        now_s = time.monotonic()
        self._wait(lambda: min(self._last_sent_s) > now_s)

    def lost_and_twice(self) -> tuple[int, int]:
        """What was acknowledged and is not there, and what is there more than once."""
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": "count", "log_level": 0})
        places = [TopicPartition(self._topic, index, 0) for index in range(len(self._last_sent_s))]
        left = {one.partition: consumer.get_watermark_offsets(one, timeout=60)[1] for one in places}
        consumer.assign(places)
        seen: dict[bytes, int] = {}
        count, deadline = sum(left.values()), time.monotonic() + PATIENCE_S
        while count > 0 and time.monotonic() < deadline:
            for message in consumer.consume(10_000, 1.0):
                value = message.value()
                if message.error() is None and value is not None:
                    seen[value] = seen.get(value, 0) + 1
                    count -= 1
        consumer.close()
        return len(self._acknowledged - seen.keys()), sum(times > 1 for times in seen.values())

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the producer did not get on within {PATIENCE_S:g} s")
            time.sleep(STEP_S)

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        number = 0
        while not self._is_over.is_set():
            at_s = time.monotonic()
            for partition in range(len(self._last_sent_s)):
                producer.produce(
                    self._topic,
                    b"%d" % number,
                    partition=partition,
                    on_delivery=lambda error, message, at_s=at_s: self._told(error, message, at_s),  # type: ignore[misc]
                )
                number += 1
            producer.poll(STEP_S)
        producer.flush(PATIENCE_S)

    def _told(self, error: KafkaError | None, message: Message, at_s: float) -> None:
        value, partition = message.value(), message.partition()
        if error is not None or value is None or partition is None:
            self.errors += 1
            return
        self._acknowledged.add(value)
        self.longest_s = max(self.longest_s, time.monotonic() - at_s)
        self._last_sent_s[partition] = at_s
