"""Quotas by `penstock configs`, and as librdkafka, aiokafka and kafka-python meet them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from penstock.cli.main import main
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"num.partitions": "1"}) as cluster:
        yield cluster


def configs(node: Cluster, *arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["configs", *arguments, "--bootstrap-server", node.bootstrap_servers])
    assert result.exit_code == exit_code, result.output
    return result


def described(node: Cluster, *entity: str) -> list[tuple[str, ...]]:
    rows: list[dict[str, str]] = json.loads(configs(node, "--describe", *entity, "--json").stdout)
    return [tuple(row.values()) for row in rows]


def test_quotas_are_set_shown_and_removed_as_by_kafkas_tool(node: Cluster) -> None:
    ada = ("--entity-type", "users", "--entity-name", "ada")
    adas_clients = (*ada, "--entity-type", "clients", "--entity-default")
    configs(node, "--alter", *ada, "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2097152")
    configs(node, "--alter", *adas_clients, "--add-config", "request_percentage=12.5")
    configs(node, "--alter", "--user-defaults", "--client", "app", "--add-config", "controller_mutation_rate=3")
    configs(node, "--alter", "--client-defaults", "--add-config", "producer_byte_rate=5e9")
    configs(node, "--alter", "--ip", "10.0.0.1", "--add-config", "connection_creation_rate=7")
    configs(node, "--alter", "--ip-defaults", "--add-config", "connection_creation_rate=100000")

    rates = [("ada", "consumer_byte_rate=2097152"), ("ada", "producer_byte_rate=1048576")]
    assert described(node, *ada) == rates
    assert described(node, "--entity-type", "users") == rates
    assert described(node, "--user-defaults") == []
    assert described(node, "--entity-type", "users", "--entity-type", "clients") == [
        ("<default>", "app", "controller_mutation_rate=3"),
        ("ada", "<default>", "request_percentage=12.5"),
    ]
    assert described(node, *adas_clients) == [("ada", "<default>", "request_percentage=12.5")]
    assert described(node, "--entity-type", "clients") == [("<default>", "producer_byte_rate=5000000000")]
    assert described(node, "--entity-type", "ips") == [
        ("10.0.0.1", "connection_creation_rate=7"),
        ("<default>", "connection_creation_rate=100000"),
    ]

    configs(node, "--alter", *ada, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    configs(node, "--alter", *adas_clients, "--delete-config", "request_percentage")
    configs(node, "--alter", "--user-defaults", "--client", "app", "--delete-config", "controller_mutation_rate")
    configs(node, "--alter", "--client-defaults", "--delete-config", "producer_byte_rate")
    configs(node, "--alter", "--ip", "10.0.0.1", "--delete-config", "connection_creation_rate")
    configs(node, "--alter", "--ip-defaults", "--delete-config", "connection_creation_rate")
    assert "no user with a configuration" in configs(node, "--describe", *ada).output


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("--user", "ada", "--add-config", "producer_byte_rate=fast"), 2, "producer_byte_rate is a number, not 'fast'"),
        (("--user", "ada", "--add-config", "producer_byte_rate=0"), 1, "must be greater than 0"),
        (("--user", "ada", "--add-config", "connection_creation_rate=1"), 1, "Invalid configuration key"),
        (("--user", "ada", "--ip", "10.0.0.1", "--add-config", "connection_creation_rate=1"), 2, "quota of an ip"),
        (("--user", "ada", "--topic", "t", "--add-config", "producer_byte_rate=1"), 2, "not of topics besides"),
        (
            ("--user", "ada", "--entity-type", "users", "--add-config", "producer_byte_rate=1"),
            2,
            "not of users besides",
        ),
        (("--entity-type", "users", "--add-config", "producer_byte_rate=1"), 2, "--alter needs a name or the default"),
        (("--user", "ada"), 2, "--add-config or --delete-config"),
        (("--user-defaults", "--add-config", "SCRAM-SHA-256=[password=x]"), 2, "say whose with --entity-name"),
        (("--entity-name", "ada", "--add-config", "producer_byte_rate=1"), 2, "go with an --entity-type each"),
    ],
)
def test_what_is_refused_and_why(node: Cluster, arguments: tuple[str, ...], exit_code: int, words: str) -> None:
    assert words in configs(node, "--alter", *arguments, exit_code=exit_code).output


async def sent(node: Cluster, topic: str) -> None:
    """300 KB, by a client without quotas."""
    producer = AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers)
    await producer.start()
    try:
        for number in range(6):
            await producer.send_and_wait(topic, bytes(50_000), key=b"%d" % number)
    finally:
        await producer.stop()


def test_librdkafka_hears_for_how_long_it_must_wait(node: Cluster) -> None:
    told: list[float] = []
    configs(
        node, "--alter", "--client", "rdkafka", "--add-config", "producer_byte_rate=200000,consumer_byte_rate=200000"
    )
    settings: Any = {
        "bootstrap.servers": node.bootstrap_servers,
        "client.id": "rdkafka",
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    producer = Producer(settings)
    producer.produce("librdkafka", bytes(300_000))
    assert producer.flush(30) == 0
    while not any(told):
        producer.poll(1)
    assert max(told) == pytest.approx(0.5, abs=0.2)

    told.clear()
    consumer = Consumer(settings | {"group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    while (message := consumer.poll(1)) is None or message.error():
        pass
    assert len(message.value() or b"") == 300_000
    while not any(told):
        consumer.poll(1)
    assert max(told) == pytest.approx(0.5, abs=0.2)
    consumer.close()


def test_kafka_python_hears_for_how_long_it_must_wait(node: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    configs(node, "--alter", "--client", "python", "--add-config", "producer_byte_rate=200000")
    producer = KafkaProducer(bootstrap_servers=node.bootstrap_servers, client_id="python")
    producer.send("python", bytes(300_000)).get(30)
    (said,) = [message for message in caplog.messages if "throttled by broker" in message]
    assert int(said.rpartition("(")[2].removesuffix(" ms)")) == pytest.approx(500, abs=200)
    producer.close()


async def test_aiokafka_gets_everything_in_spite_of_empty_answers(node: Cluster) -> None:
    await sent(node, "aiokafka")
    await asyncio.to_thread(
        configs,
        node,
        "--alter",
        "--client",
        "aio",
        "--add-config",
        "consumer_byte_rate=400000,request_percentage=50",
    )
    consumer = AIOKafkaConsumer(
        "aiokafka",
        bootstrap_servers=node.bootstrap_servers,
        client_id="aio",
        group_id="aiokafka",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=100_000,
    )
    await consumer.start()
    try:
        keys = [(await consumer.getone()).key for _ in range(6)]
    finally:
        await consumer.stop()
    assert keys == [b"0", b"1", b"2", b"3", b"4", b"5"]
