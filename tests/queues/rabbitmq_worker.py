"""Works with pika on a quorum queue. AMQP confirms no acknowledgement: the queue is asked after them all."""

import threading
import time
from typing import Any

import pika  # type: ignore[import-not-found]
from tests.queues.working import asked, at_a_rate, job, late_ms, say, tell_late

QUEUE, AT_ONCE, LOOK_S = "jobs", 500, 0.1
KEPT = pika.BasicProperties(delivery_mode=2)


def channel_to(address: str) -> Any:
    host, _, port = address.rpartition(":")
    channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    return channel


def work(channel: Any, count: int) -> list[float]:
    late: list[float] = []
    channel.basic_qos(prefetch_count=AT_ONCE)

    def take(_: Any, method: Any, __: Any, body: bytes) -> None:
        late.append(late_ms(body))
        channel.basic_ack(method.delivery_tag)
        if len(late) == count:
            channel.stop_consuming()

    channel.basic_consume(QUEUE, take)
    channel.start_consuming()
    channel.queue_declare(QUEUE, passive=True)
    return late


def send(address: str, rate: int, seconds: int) -> None:
    channel = channel_to(address)
    for wait_s in at_a_rate(rate, seconds):
        time.sleep(wait_s)
        channel.basic_publish("", QUEUE, job(), KEPT)
    channel.connection.close()


def main() -> None:
    address, jobs, rate, seconds = asked()
    channel = channel_to(address)
    for _ in range(jobs):
        channel.basic_publish("", QUEUE, job(), KEPT)
    while channel.queue_declare(QUEUE, passive=True).method.message_count < jobs:
        time.sleep(LOOK_S)
    say("filled", jobs)
    begun = time.perf_counter()
    work(channel, jobs)
    say("drained", time.perf_counter() - begun)
    sender = threading.Thread(target=send, args=(address, rate, seconds))
    sender.start()
    tell_late(work(channel, rate * seconds))
    sender.join()


if __name__ == "__main__":
    main()
