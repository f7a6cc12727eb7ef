"""Works with librdkafka's share consumer, which accepts each record and commits what a poll gave it."""

import threading
import time
from typing import Any

from bench.topics import GROUP, create_topic, set_config
from confluent_kafka import Producer, ShareConsumer
from tests.queues.working import Limit, asked, at_a_rate, job, late_ms, say, say_drained, say_late

QUEUE, PARTITIONS, POLL_S, COMMIT_S, JOIN_S = "jobs", 6, 0.05, 60.0, 60.0


def work(consumer: ShareConsumer, count: int, limit_s: float) -> list[float]:
    late: list[float] = []
    limit = Limit(limit_s)
    while len(late) < count and limit.left_s:
        messages: Any = consumer.poll(POLL_S) or ()
        for message in messages:
            late.append(late_ms(message.value()))
            consumer.acknowledge(message)
        if messages:
            consumer.commit_sync(COMMIT_S)
    return late


def send(producer: Producer, rate: int, seconds: int) -> None:
    for wait_s in at_a_rate(rate, seconds):
        time.sleep(wait_s)
        producer.produce(QUEUE, job())
        producer.poll(0)


def fill(producer: Producer, jobs: int, limit_s: float) -> int:
    """How many are acknowledged."""
    done: list[Any] = []
    limit = Limit(limit_s)
    for _ in range(jobs):
        producer.produce(QUEUE, job(), callback=lambda error, _: None if error else done.append(None))
        producer.poll(0)
    producer.flush(limit.left_s)
    filled = len(done)
    producer.purge()
    producer.flush(limit_s)
    return filled


def main() -> None:
    address, jobs, rate, seconds, limit_s = asked()
    create_topic(address, QUEUE, PARTITIONS)
    set_config(address, QUEUE, "share.auto.offset.reset", "earliest", of=GROUP)
    each = Producer({"bootstrap.servers": address, "linger.ms": 0})
    consumer = ShareConsumer(
        {"bootstrap.servers": address, "group.id": QUEUE, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([QUEUE])
    each.produce(QUEUE, job())
    if not work(consumer, 1, JOIN_S):
        raise RuntimeError("the consumer has nothing from its group")
    sender = threading.Thread(target=send, args=(each, rate, seconds))
    sender.start()
    late = work(consumer, rate * seconds, seconds + limit_s)
    sender.join()
    each.purge()
    each.flush(limit_s)
    say_late(late, rate * seconds)
    filled = fill(Producer({"bootstrap.servers": address, "linger.ms": 5}), jobs, limit_s)
    say("filled", filled)
    begun = time.perf_counter()
    done = len(work(consumer, filled, limit_s))
    say_drained(done, time.perf_counter() - begun)
    consumer.close()


if __name__ == "__main__":
    main()
