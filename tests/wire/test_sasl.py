"""Clients that others wrote log in with PLAIN and SCRAM, and may do what the rules say of their names."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.errors import AuthenticationFailedError, TopicAuthorizationFailedError
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from tests.certificates import Authority

from penstock.cli.main import main
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.sasl.jaas import PLAIN_MODULE
from penstock.protocol.value import Value
from penstock.testing import Cluster

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
ADMIN = f"""
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN_MODULE} required \\
    username="admin" \\
    password="hush";
"""


class Node(Value):
    """Where it listens, by which protocol, and who signed its certificate."""

    address: str
    protocol: str
    authority: Path


@pytest.fixture(scope="module", params=PROTOCOLS)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Ada may produce and consume `flights`, whatever she logs in with."""
    protocol, directory = request.param, tmp_path_factory.mktemp("clients")
    authority = Authority(directory)
    users = 'user_admin="hush" user_ada="engine, =\\"x\\""'
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:{protocol}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
    }
    with Cluster(
        config=settings | (authority.keys_of(authority.signs("node")) if protocol == "SASL_SSL" else {})
    ) as cluster:
        file = directory / "admin.properties"
        file.write_text(f"security.protocol={protocol}\nssl.truststore.location={authority.certificate_file}\n{ADMIN}")
        password = file.with_name("password")
        password.write_text(PASSWORD)
        for mechanism in MECHANISMS[1:]:
            by = ("--mechanism", mechanism, "--password-file", str(password))
            penstock(cluster, file, "users", "--set-password", "--user", "ada", *by)
        for role in (("--producer",), ("--consumer", "--group", "readers")):
            penstock(cluster, file, "acls", "--add", *role, "--topic", "flights", "--allow-principal", "User:ada")
        penstock(cluster, file, "topics", "--create", "--topic", "flights", "--partitions", "1")
        penstock(cluster, file, "topics", "--create", "--topic", "gates", "--partitions", "1")
        yield Node(cluster.bootstrap_servers, protocol, authority.certificate_file)


PASSWORD = 'engine, ="x"'


def penstock(node: Cluster, file: Path, *arguments: str) -> Result:
    common = ("--bootstrap-server", node.bootstrap_servers, "--command-config", str(file))
    result = CliRunner().invoke(main, [*arguments, *common])
    assert result.exit_code == 0, result.output
    return result


def librdkafka(node: Node, mechanism: str, password: str = PASSWORD, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.address,
        "security.protocol": node.protocol,
        "ssl.ca.location": str(node.authority),
        "sasl.mechanism": mechanism,
        "sasl.username": "ada",
        "sasl.password": password,
        **more,
    }


def python(node: Node, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap_servers": node.address,
        "security_protocol": node.protocol,
        "ssl_context": ssl.create_default_context(cafile=str(node.authority)),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ada",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(node: Node, mechanism: str) -> None:
    told: dict[Any, Any] = {}
    producer = Producer(librdkafka(node, mechanism))
    for topic in ("flights", "gates"):
        producer.produce(topic, mechanism.encode(), on_delivery=lambda error, it: told.update({it.topic(): error}))
    assert producer.flush(30) == 0
    assert told["flights"] is None
    assert told["gates"].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(librdkafka(node, mechanism, **group))
    consumer.subscribe(["flights"])
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            if message.value() == mechanism.encode():
                break
        assert message is not None
        assert message.error() is None
    finally:
        consumer.close()


def test_librdkafka_is_told_that_the_password_is_wrong(node: Node) -> None:
    told: list[KafkaError] = []
    producer = Producer(librdkafka(node, "SCRAM-SHA-256", "guessed", error_cb=told.append))
    while not any(error.code() == KafkaError._AUTHENTICATION for error in told):
        producer.poll(1)
    assert "wrong credentials" in told[0].str()
    del producer


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(node: Node, mechanism: str) -> None:
    producer = aiokafka.AIOKafkaProducer(**python(node, mechanism))
    await producer.start()
    try:
        await producer.send_and_wait("flights", b"aiokafka " + mechanism.encode())
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("gates", b"none")
    finally:
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer("flights", auto_offset_reset="earliest", **python(node, mechanism))
    await consumer.start()
    try:
        async with asyncio.timeout(30):
            async for message in consumer:
                if message.value == b"aiokafka " + mechanism.encode():
                    break
    finally:
        await consumer.stop()


async def test_aiokafka_is_told_that_the_password_is_wrong(node: Node) -> None:
    producer = aiokafka.AIOKafkaProducer(**python(node, "PLAIN", "guessed"))
    with pytest.raises((AuthenticationFailedError, aiokafka.errors.KafkaConnectionError)):
        await producer.start()
    await producer.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(node: Node, mechanism: str) -> None:
    producer = KafkaProducer(**python(node, mechanism))
    producer.send("flights", b"kafka-python " + mechanism.encode()).get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(
        "flights", auto_offset_reset="earliest", consumer_timeout_ms=30_000, **python(node, mechanism)
    )
    assert any(message.value == b"kafka-python " + mechanism.encode() for message in consumer)
    consumer.close()


def test_kafka_python_is_told_that_the_password_is_wrong(node: Node) -> None:
    with pytest.raises(PythonKafkaError):
        KafkaProducer(**python(node, "SCRAM-SHA-512", "guessed"), bootstrap_timeout_ms=1000)
