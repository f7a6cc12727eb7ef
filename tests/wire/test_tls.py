"""Clients over TLS, ours and others'."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from click.testing import CliRunner
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from kafka import KafkaConsumer, KafkaProducer
from tests.certificates import SECRET
from tests.wire.connect_workers import Workers
from tests.wire.raw_client import RawClient, batch_of, fetch_request
from tests.wire.tls_node import Trust, address, authority, names_of_clients, node, ours

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.properties import with_properties
from penstock.client.security import Security
from penstock.client.settings import ClientSettings
from penstock.node.environment.event_loop import new_event_loop
from penstock.node.serving.connection import Connection
from penstock.protocol.address import parse_bootstrap_servers

__all__ = ["authority"]
pytestmark = pytest.mark.timeout(60)
RECORDS = [b"x" * 200_000, b"small", b""]


@pytest.mark.parametrize("mutual", [False, True])
async def test_librdkafka(mutual: bool, authority: Trust, tmp_path: Path) -> None:
    def run(bootstrap: str) -> list[bytes]:
        config = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority.certificate_file),
        }
        if mutual:
            config |= {"ssl.keystore.location": str(authority.ada.p12), "ssl.keystore.password": SECRET}
        producer = LibrdkafkaProducer(config)
        for value in RECORDS:
            producer.produce("t", value, partition=0)
        assert producer.flush(30) == 0
        consumer = LibrdkafkaConsumer(config | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        with closing(consumer):
            messages = consumer.consume(len(RECORDS), timeout=30)
            return [message.value() or b"" for message in messages]

    async with node(authority, tmp_path) as running:
        assert await asyncio.to_thread(run, address(running, "MUTUAL" if mutual else "SSL")) == RECORDS


@pytest.mark.parametrize("mutual", [False, True])
async def test_kafka_python(mutual: bool, authority: Trust, tmp_path: Path) -> None:
    def run(bootstrap: str) -> list[bytes]:
        config = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SSL",
            "ssl_cafile": str(authority.certificate_file),
            "ssl_certfile": str(authority.ada.pem) if mutual else None,
        }
        with closing(KafkaProducer(**config)) as producer:
            for value in RECORDS:
                producer.send("t", value, partition=0).get(30)
        with closing(KafkaConsumer("t", auto_offset_reset="earliest", **config)) as consumer:
            return [next(consumer).value for _ in RECORDS]

    async with node(authority, tmp_path) as running:
        assert await asyncio.to_thread(run, address(running, "MUTUAL" if mutual else "SSL")) == RECORDS


@pytest.mark.parametrize("mutual", [False, True])
async def test_aiokafka(mutual: bool, authority: Trust, tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate_file))
    if mutual:
        context.load_cert_chain(authority.ada.pem)
    async with node(authority, tmp_path) as running:
        config = {
            "bootstrap_servers": address(running, "MUTUAL" if mutual else "SSL"),
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**config) as producer:
            for value in RECORDS:
                await producer.send_and_wait("t", value, partition=0)
            assert names_of_clients(running) == {"User:CN=ada" if mutual else "User:ANONYMOUS"}
        async with AIOKafkaConsumer("t", auto_offset_reset="earliest", **config) as consumer:
            assert [(await consumer.getone()).value for _ in RECORDS] == RECORDS


@pytest.mark.parametrize("kind", ["pem", "p12", "inline"])
async def test_our_own_by_keys_of_every_kind(kind: str, authority: Trust, tmp_path: Path) -> None:
    store = {
        "pem": {},
        "p12": {"ssl.keystore.location": str(authority.ada.p12), "ssl.keystore.password": SECRET},
        "inline": {
            "ssl.keystore.key": authority.ada.locked_key_pem.replace("\n", " "),
            "ssl.keystore.certificate.chain": authority.ada.certificate_pem,
            "ssl.key.password": SECRET,
            "ssl.keystore.location": "",
            "ssl.truststore.location": "",
            "ssl.truststore.certificates": authority.certificate_pem,
        },
    }[kind]
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U, DEFAULT"}
    async with node(authority, tmp_path, **rules) as running:
        properties = ours(authority, mutual=True) | store
        where = address(running, "MUTUAL")
        async with Admin(where, with_properties(ClientSettings(), properties)) as admin:
            assert (await admin.describe_cluster()).cluster_id == running.cluster_id
            assert names_of_clients(running) == {"User:ADA"}
        blocking = ClusterSettings(
            parse_bootstrap_servers(where), security_protocol="SSL", security=Security(_ssl_of(properties))
        )
        assert await asyncio.to_thread(_all_topics, blocking) == {}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={' '.join(value.split())}\n" for key, value in properties.items()))
        words = ["topics", "--list", "--bootstrap-server", where, "--command-config", str(file)]
        result = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert result.exit_code == 0, result.output


def _ssl_of(properties: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key.startswith("ssl.")}


def _all_topics(settings: ClusterSettings) -> dict[str, list[int]]:
    with closing(BlockingCluster(settings)) as cluster:
        return cluster.all_topics()


async def test_a_worker_comes_as_its_keys_say_and_so_do_its_connectors(authority: Trust, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("one\ntwo\n")
    async with node(authority, tmp_path) as running:
        where = address(running, "MUTUAL")
        workers = Workers(where, "w", **ours(authority, mutual=True), ssl_client_auth="required")
        worker = await workers.add("127.0.0.1:1")
        try:
            await workers.create(
                {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines", "name": "c"}
            )
            context = ssl.create_default_context(cafile=str(authority.certificate_file))
            config = {"bootstrap_servers": address(running, "SSL"), "security_protocol": "SSL", "ssl_context": context}
            async with AIOKafkaConsumer("lines", auto_offset_reset="earliest", **config) as consumer:
                assert [(await consumer.getone()).value for _ in range(2)] == [b"one", b"two"]
            assert names_of_clients(running) <= {"User:CN=ada", "User:ANONYMOUS"}
        finally:
            await worker.stop()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, new_event_loop])
def test_a_large_answer_waits_in_the_file_for_a_slow_reader(
    new_loop: Callable[[], asyncio.AbstractEventLoop], authority: Trust, tmp_path: Path
) -> None:
    """On both event loops: it is encrypted as it is read, and comes whole."""

    async def run() -> None:
        async with node(authority, tmp_path) as running:
            batch = batch_of(*[os.urandom(1000)] * 900)
            plain = RawClient(address(running, "PLAINTEXT"))
            with closing(plain):
                await asyncio.to_thread(plain.create_topic, "t")
                for _ in range(24):
                    assert (await asyncio.to_thread(plain.produce, "t", batch)).error_code == 0
            context = ssl.create_default_context(cafile=str(authority.certificate_file))
            reader = RawClient(address(running, "SSL"), receive_buffer_bytes=64 * 1024)
            with closing(reader):
                reader.socket = await asyncio.to_thread(context.wrap_socket, reader.socket, server_hostname="localhost")
                limit = 64 << 20
                reader.send(fetch_request("t", 0, max_bytes=limit, partition_max_bytes=limit))
                assert running._serving is not None
                connections = running._serving.connections.active
                while not (waiting := [one for one in connections if cast("Connection", one)._out.is_blocked]):
                    await asyncio.sleep(0)
                (connection,) = (cast("Connection", one) for one in waiting)
                assert connection._out.queued_bytes > 8 << 20
                assert connection._transport is not None
                assert connection._transport.get_write_buffer_size() < 600 * 1024
                answer = await asyncio.to_thread(reader.receive)
            records = bytes(answer.responses[0].partitions[0].records)
            assert len(records) == 24 * len(batch)
            assert all(records[at * len(batch) + 61 :][: len(batch) - 61] == batch[61:] for at in range(24))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
