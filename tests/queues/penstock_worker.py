"""Works with librdkafka's share consumer, which accepts each record and commits what a poll gave it."""

import threading
import time
from typing import Any

from bench.topics import GROUP, create_topic, set_config
from confluent_kafka import Producer, ShareConsumer
from tests.queues.working import asked, at_a_rate, job, late_ms, say, tell_late

QUEUE, PARTITIONS, POLL_S, LIMIT_S = "jobs", 6, 0.05, 120.0


def work(consumer: ShareConsumer, count: int) -> list[float]:
    late: list[float] = []
    while len(late) < count:
        messages: Any = consumer.poll(POLL_S) or ()
        for message in messages:
            late.append(late_ms(message.value()))
            consumer.acknowledge(message)
        if messages:
            consumer.commit_sync(LIMIT_S)
    return late


def send(producer: Producer, rate: int, seconds: int) -> None:
    for wait_s in at_a_rate(rate, seconds):
        time.sleep(wait_s)
        producer.produce(QUEUE, job())
        producer.poll(0)
    producer.flush()


def main() -> None:
    address, jobs, rate, seconds = asked()
    create_topic(address, QUEUE, PARTITIONS)
    set_config(address, QUEUE, "share.auto.offset.reset", "earliest", of=GROUP)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    for _ in range(jobs):
        producer.produce(QUEUE, job())
        producer.poll(0)
    producer.flush()
    consumer = ShareConsumer(
        {"bootstrap.servers": address, "group.id": QUEUE, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([QUEUE])
    left = jobs - len(work(consumer, 1))  # it has joined
    say("filled", left)
    begun = time.perf_counter()
    work(consumer, left)
    say("drained", time.perf_counter() - begun)
    sender = threading.Thread(
        target=send, args=(Producer({"bootstrap.servers": address, "linger.ms": 0}), rate, seconds)
    )
    sender.start()
    tell_late(work(consumer, rate * seconds))
    sender.join()
    consumer.close()


if __name__ == "__main__":
    main()
