"""A group member in a process of its own, so that a test can kill it.

`python -m tests.wire.group_member CLIENT ADDRESS GROUP TOPIC` prints a line of JSON at each new assignment,
`{"assigned": [0, 1]}`, and one for each record, `{"record": [partition, offset]}`. SIGTERM makes it leave the group
as a well-behaved consumer does.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterable

SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_INTERVAL_MS = 300
POLL_MS = 100

stopped = False


def say(**fact: object) -> None:
    print(json.dumps(fact), flush=True)


def stop(*_: object) -> None:
    global stopped
    stopped = True


def say_assigned(partitions: Iterable[int], last: list[int] | None) -> list[int]:
    now = sorted(partitions)
    if now != last:
        say(assigned=now)
    return now


def confluent(address: str, group: str, topic: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "auto.commit.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    assigned: list[int] | None = None
    while not stopped:
        message = consumer.poll(POLL_MS / 1000)
        assigned = say_assigned((at.partition for at in consumer.assignment()), assigned)
        if message is not None and message.error() is None:
            say(record=[message.partition(), message.offset()])
    consumer.close()


def kafka_python(address: str, group: str, topic: str) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_commit_interval_ms=200,
    )
    assigned: list[int] | None = None
    while not stopped:
        batches = consumer.poll(timeout_ms=POLL_MS)
        assigned = say_assigned((at.partition for at in consumer.assignment()), assigned)
        for records in batches.values():
            for record in records:
                say(record=[record.partition, record.offset])
    consumer.close()


async def aiokafka_member(address: str, group: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_commit_interval_ms=200,
    )
    await consumer.start()
    assigned: list[int] | None = None
    while not stopped:
        batches = await consumer.getmany(timeout_ms=POLL_MS)
        assigned = say_assigned((at.partition for at in consumer.assignment()), assigned)
        for records in batches.values():
            for record in records:
                say(record=[record.partition, record.offset])
    await consumer.stop()


def aiokafka(address: str, group: str, topic: str) -> None:
    asyncio.run(aiokafka_member(address, group, topic))


CLIENTS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    CLIENTS[sys.argv[1]](*sys.argv[2:])
