"""Kafka's MirrorMaker between two secured clusters of Penstock: records once, places of groups, and who may read them.

It is killed while records come. What it copies, it copies exactly once; a group goes on at the target without a gap.
"""

from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.hand_in_hand.kafkas_tools import Tools
from bench.hand_in_hand.node import HEAP, HandError, Say, librdkafka, produce_all, wait_until
from bench.process import Process
from bench.topics import LIMIT_S, read_all
from bench.versus.kafka import java_command, write_properties
from penstock.testing import Cluster

CLASS: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
SETTINGS: Final = Path(__file__).with_name("mirror.properties").read_text()
RECORDS, PARTITIONS, COMMITTED = 3_000, 3, 700
"""In each of three parts; and how many of a partition the group has read."""
TOPIC, COPY = "flights", "source.flights"


def mirror_a_cluster(folder: Path, say: Say) -> None:
    with Cluster(process=True, secure=True) as source, Cluster(process=True, secure=True) as target:
        clusters, settings = {"source": source, "target": target}, dict[str, str]()
        for name, one in clusters.items():
            keys = one.client_properties()
            write_properties(folder / name, keys)
            settings |= {f"{name}.{key}": value for key, value in keys.items()}
        properties = write_properties(folder / "mirror.properties", settings)
        with properties.open("a") as file:
            file.write(SETTINGS)
        steps = Path(__file__).with_name("mirror.steps")
        at = {name: Tools(one, say, "connect", steps, folder=folder) for name, one in clusters.items()}
        at["source"].do("topic")
        _write(source, 0)
        at["source"].do("committed")
        program = [*java_command("connect", CLASS, *HEAP), str(properties)]
        mirror = Process(program, folder / "mirror-1.out")
        try:
            _expect(target, 1)
            _write(source, 1)
            wait_until("the next part comes", lambda: len(_found(target)) > RECORDS, limit_s=LIMIT_S)
            mirror.kill()
            _write(source, 2)
            mirror = Process(program, folder / "mirror-2.out")
            _expect(target, 3)
            say(f"{3 * RECORDS} records are in the copy once, and in their order; MirrorMaker was killed once")
            at["source"].do("offsets")
            at["target"].do("mirrored")
            say(f"of {COMMITTED} records of a partition that a group had read it reads {_again(target)} again")
        finally:
            mirror.kill()


def _write(source: Cluster, part: int) -> None:
    numbers = range(part * RECORDS, (part + 1) * RECORDS)
    records = [(str(number % PARTITIONS).encode(), str(number).encode()) for number in numbers]
    produce_all(librdkafka(source), TOPIC, records, partitions=PARTITIONS)


def _expect(target: Cluster, parts: int) -> None:
    """Raises HandError unless all records of so many parts come, once and each partition's in their order."""
    wanted = [[str(number) for number in range(key, parts * RECORDS, PARTITIONS)] for key in range(PARTITIONS)]
    wait_until(f"{parts * RECORDS} records are copied", lambda: len(_found(target)) >= parts * RECORDS, limit_s=LIMIT_S)
    found = _found(target)
    if [[value.decode() for of, value in found if of == str(key).encode()] for key in range(PARTITIONS)] != wanted:
        raise HandError("the records of the copy are not those of the source, once and in their order")


def _found(target: Cluster) -> list[tuple[bytes, bytes]]:
    try:
        return read_all(librdkafka(target), COPY)
    except KafkaException:  # it is not there yet
        return []


def _again(target: Cluster) -> list[int]:
    """How many records of each partition the group would read twice. Raises HandError if it would miss one."""
    consumer = Consumer({**librdkafka(target), "group.id": "readers", "enable.auto.commit": False})
    again = list[int]()
    for place in consumer.committed([TopicPartition(COPY, number) for number in range(PARTITIONS)], LIMIT_S):
        consumer.assign([place])
        message = consumer.poll(LIMIT_S)
        again.append(COMMITTED - int(message.value() or b"") // PARTITIONS if message else -1)
    consumer.close()
    if min(again) < 0 or max(again) >= COMMITTED:
        raise HandError(f"a group misses records at the target, or has no place: {again}")
    return again
