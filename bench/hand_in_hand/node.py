"""A node of either system over one folder; what clients do with it, and what they must find again."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bench.process import Process, free_ports, said_by
from bench.topics import Address, admin_of, coming_to, create_topic, read_all
from bench.versus.kafka import kafka_class, server_settings, write_properties
from bench.versus.systems import KAFKA, PENSTOCK
from penstock.testing import Cluster
from penstock.testing.layout import replica_settings
from penstock.testing.secured.folder import TRUSTED

CLUSTER_ID: Final = "YkJwr6RESgSJv-sxa1R1mA"
HEAP: Final = ("-Xmx400M", "-Xms64M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Little memory, and a quick start rather than much speed."""
START_LIMIT_S: Final = 600.0
STOP_LIMIT_S: Final = 300.0
PAUSE_S: Final = 0.2
Say = Callable[[str], None]


class HandError(Exception):
    """The text says what went wrong, and where its output is."""


class Node:
    """`system` is the program that runs the node, or did so last."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data = Path(settings["log.dirs"])
        self.properties = write_properties(folder / "server.properties", settings)
        self.system = ""
        self._process: Process | None = None
        self._stints = 0

    def format(self, system: str, *options: str) -> None:
        tool = kafka_class("kafka.tools.StorageTool", *HEAP) if system == KAFKA else penstock("storage")
        said_by([*tool, "format", "--cluster-id", CLUSTER_ID, "-c", str(self.properties), *options])

    def start(self, system: str) -> None:
        self.system = system
        self._stints += 1
        program = kafka_class("kafka.Kafka", *HEAP) if system == KAFKA else penstock("start")
        output = self.folder / f"{self._stints:02d}-{system}.out"
        self._process = Process([*program, str(self.properties)], output)

    @contextmanager
    def serving(self, system: str, address: str) -> Iterator[None]:
        self.start(system)
        try:
            wait_until_up(address, self)
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and not process.stop(STOP_LIMIT_S):
            raise HandError(f"{self.system} did not stop within {STOP_LIMIT_S:g} s: {process.last_words()}")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def check(self) -> None:
        if self._process is not None and self._process.exit_code is not None:
            raise HandError(f"{self.system} has ended by itself ({self._process.exit_code}): {self.last_words()}")

    def last_words(self, lines: int = 15) -> str:
        return self._process.last_words(lines) if self._process is not None else ""


def single_node(folder: Path, more: Mapping[str, str] | None = None) -> tuple[Node, str]:
    """A broker that is its own quorum, and its address."""
    port, controller_port = free_ports(2)
    settings = {
        **server_settings(1, folder / "data", port, controller_port, {1: controller_port}),
        **replica_settings(1),
        "offsets.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        **(more or {}),
    }
    return Node(folder, settings), f"127.0.0.1:{port}"


def penstock(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("penstock")), *words]


def wait_until(
    what: str, is_so: Callable[[], bool], nodes: Sequence[Node] = (), limit_s: float = START_LIMIT_S
) -> None:
    """Raises HandError if that takes too long, or a node ends."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        for node in nodes:
            node.check()
        if time.monotonic() > deadline:
            words = "".join(f"\n{node.system}:{node.last_words(5)}" for node in nodes)
            raise HandError(f"{what}: not within {limit_s:g} s{words}")
        time.sleep(PAUSE_S)


def other_than(system: str) -> str:
    return PENSTOCK if system == KAFKA else KAFKA


PARTITIONS: Final = 3
RETENTION_MS: Final = "604800001"
LIMIT_S: Final = 300.0
"""Time is not measured here: a busy machine is no failure."""
NOT_YET: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)
GROUPS: Final = ("readers", "billing-service", "g", "a.group-with_a.long.name.2026", "café")
"""Names whose hash codes are positive and negative, so that they lie in different partitions."""


@dataclass
class Promise:
    """All acknowledged data, on any node: each system has to find all of it."""

    topic: str
    records: dict[bytes, bytes] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    """By group: its commit for partition 0."""


def wait_until_up(address: str, node: Node) -> None:
    wait_until(f"{node.system} serves", lambda: count(address) > 0, [node])


def count(address: str) -> int:
    """The number of brokers by a node; 0 if it does not answer."""
    try:
        return len(admin_of(address).list_topics(timeout=2).brokers)
    except Exception:
        return 0


def create(address: str, topic: str) -> None:
    create_topic(address, topic, PARTITIONS, config={"retention.ms": RETENTION_MS}, limit_s=LIMIT_S)


def librdkafka(cluster: Cluster) -> dict[str, str]:
    """As whom it comes to a cluster, under its own keys."""
    java = ("sasl.jaas.config", "ssl.truststore.type", TRUSTED)
    keys = cluster.client_properties()
    renamed = {"ssl.ca.pem": keys[TRUSTED]} if TRUSTED in keys else {}
    return {key: value for key, value in keys.items() if key not in java} | renamed


def produce(address: str, promise: Promise, stint: int, count: int = 300) -> None:
    """All acknowledged, in batches of the codecs in turn."""
    codec = ("none", "gzip", "lz4", "zstd")[stint % 4]
    records = {f"{stint}-{index}".encode(): f"value {index} of stint {stint}".encode() for index in range(count)}
    produce_all(address, promise.topic, records.items(), {"enable.idempotence": True, "compression.type": codec})
    promise.records.update(records)


def produce_all(
    address: Address,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    settings: Mapping[str, str | int | bool] | None = None,
    *,
    partitions: int = 0,
    headers: list[tuple[str, str | bytes | None]] | None = None,
) -> None:
    """All acknowledged; with `partitions`, to these in turn. Raises HandError."""
    producer = Producer({**coming_to(address), **(settings or {})})
    failed: list[object] = []
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic,
            value,
            key,
            partition=number % partitions if partitions else -1,
            headers=headers or [],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    if producer.flush(LIMIT_S) or failed:
        raise HandError(f"not all records were acknowledged: {failed[:3]}")


def commit(address: str, promise: Promise, stint: int) -> None:
    for index, group in enumerate(GROUPS):
        consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
        places = [TopicPartition(promise.topic, 0, 1 + stint * 10 + index)]
        _patiently(consumer.commit, offsets=places, asynchronous=False)
        consumer.close()
        promise.committed[group] = places[0].offset


def check(address: str, promise: Promise) -> None:
    """All that was acknowledged is there, once. Raises HandError."""
    found = sorted(_patiently(read_all, address, promise.topic))
    if found != sorted(promise.records.items()):
        raise HandError(f"{len(promise.records)} records were acknowledged, {len(found)} were read, or they differ")
    admin = admin_of(address)
    for group, offset in promise.committed.items():
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(promise.topic, 0)])
        answer = _patiently(
            lambda asked, group: admin.list_consumer_group_offsets([asked])[group].result(LIMIT_S), asked, group
        )
        seen = [partition.offset for partition in answer.topic_partitions]
        if seen != [offset]:
            raise HandError(f"group {group} committed {offset}, and {seen} was found")
    resource = ConfigResource(ResourceType.TOPIC, promise.topic)
    settings = admin.describe_configs([resource])[resource].result(LIMIT_S)
    if settings["retention.ms"].value != RETENTION_MS:
        raise HandError(f"retention.ms of the topic is {settings['retention.ms'].value}")


def _patiently(ask: Callable[..., Any], *arguments: object, **options: object) -> Any:
    """Repeats until the node leads its partitions and its coordinators have loaded theirs."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return ask(*arguments, **options)
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S)
