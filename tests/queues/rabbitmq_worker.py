"""Works with pika on a quorum queue. AMQP confirms no acknowledgement: the queue is asked after them all."""

import threading
import time
from typing import Any

import pika  # type: ignore[import-not-found]
from tests.queues.working import Limit, asked, at_a_rate, job, late_ms, say, say_drained, say_late

QUEUE, AT_ONCE, LOOK_S, POLL_S = "jobs", 500, 0.1, 0.5
KEPT = pika.BasicProperties(delivery_mode=2)


def channel_to(address: str) -> Any:
    host, _, port = address.rpartition(":")
    channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    return channel


def work(channel: Any, count: int, limit_s: float) -> list[float]:
    late: list[float] = []
    limit = Limit(limit_s)
    channel.basic_qos(prefetch_count=AT_ONCE)
    for method, _, body in channel.consume(QUEUE, inactivity_timeout=POLL_S):
        if method is not None:
            late.append(late_ms(body))
            channel.basic_ack(method.delivery_tag)
        if len(late) == count or not limit.left_s:
            break
    channel.cancel()
    channel.queue_declare(QUEUE, passive=True)
    return late


def send(address: str, rate: int, seconds: int) -> None:
    channel = channel_to(address)
    for wait_s in at_a_rate(rate, seconds):
        time.sleep(wait_s)
        channel.basic_publish("", QUEUE, job(), KEPT)
    channel.connection.close()


def fill(channel: Any, jobs: int, limit_s: float) -> int:
    """How many the queue has."""
    limit = Limit(limit_s)
    for _ in range(jobs):
        channel.basic_publish("", QUEUE, job(), KEPT)
    while (filled := int(channel.queue_declare(QUEUE, passive=True).method.message_count)) < jobs and limit.left_s:
        time.sleep(LOOK_S)
    return min(filled, jobs)


def main() -> None:
    address, jobs, rate, seconds, limit_s = asked()
    channel = channel_to(address)
    sender = threading.Thread(target=send, args=(address, rate, seconds))
    sender.start()
    late = work(channel, rate * seconds, seconds + limit_s)
    sender.join()
    say_late(late, rate * seconds)
    filled = fill(channel, jobs, limit_s)
    say("filled", filled)
    begun = time.perf_counter()
    done = len(work(channel, filled, limit_s))
    say_drained(done, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
