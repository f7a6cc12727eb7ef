"""Kafka Streams itself counts words by the streams protocol (KIP-1071), while an instance is killed and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import pytest
from bench.versus.kafka import MissingToolError, fetch, java
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.wire.test_cli import penstock

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

PROGRAM: Final = Path(__file__).with_name("WordCount.java")
CONFIG: Final = {
    "group.streams.initial.rebalance.delay.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.num.standby.replicas": "1",
}
WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven")
SECONDS: Final = 240.0
LINES: Final = 600


@contextmanager
def an_instance(directory: Path, name: str, servers: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the application; it is killed at the end, if it is there still."""
    jars = os.pathsep.join(map(str, fetch("kafka-streams")))
    options = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    settings = (f"bootstrap.servers={servers}", f"state.dir={directory / name}", f"application.server={name}:80")
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen([java(), *options, "-cp", jars, str(PROGRAM), *settings], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Told:
    """What the application says: the counts of each word, in their order."""

    def __init__(self, servers: str) -> None:
        settings = {"group.id": "check", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": servers, **settings})
        self._consumer.subscribe(["counts"])
        self.counts: dict[str, list[int]] = {}

    def total(self) -> int:
        for message in self._consumer.consume(500, 0.2):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                self.counts.setdefault(key.decode(), []).append(int.from_bytes(value, "big"))
        return sum(map(len, self.counts.values()))

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.soak
def test_each_word_is_counted_once_though_an_instance_is_killed(tmp_path: Path) -> None:
    try:
        fetch("kafka-streams")
        java()
    except MissingToolError as error:
        pytest.skip(str(error))
    with Cluster(config=CONFIG) as cluster, ExitStack() as stack:
        servers = cluster.bootstrap_servers
        at = ("--bootstrap-server", servers)
        topics = [NewTopic(name, 4, 1) for name in ("lines", "counts")]
        administrator = AdminClient({"bootstrap.servers": servers})
        for made in administrator.create_topics(topics).values():
            made.result()
        producer, told = Producer({"bootstrap.servers": servers}), Told(servers)
        stack.callback(told.close)
        sent = _lines(producer)
        mortal = stack.enter_context(an_instance(tmp_path, "mortal", servers))
        stack.enter_context(an_instance(tmp_path, "other", servers))
        expected = sum(islice(sent, LINES))
        wait_until(lambda: told.total() >= expected or None, SECONDS, "the first counts")
        expected += sum(islice(sent, LINES))
        mortal.send_signal(signal.SIGKILL)
        expected += sum(islice(sent, LINES))
        wait_until(lambda: told.total() >= expected or None, SECONDS, "counts of the one that lives")
        back = stack.enter_context(an_instance(tmp_path, "mortal", servers))
        expected += sum(islice(sent, LINES))
        wait_until(lambda: told.total() >= expected or None, SECONDS, "counts of both")
        wait_until(lambda: _runs_at(4, *at) or None, SECONDS, "all tasks at four members")
        assert "KSTREAM-SOURCE" in penstock("groups", "--describe", "--topology", "--group", "wordcount", *at).stdout
        back.terminate()
        assert back.wait(SECONDS) == 128 + signal.SIGTERM
        wait_until(lambda: _runs_at(2, *at) or None, SECONDS, "all tasks at the two members that are left")
        assert told.total() == expected
    assert set(told.counts) == set(WORDS)
    for word, counts in told.counts.items():
        assert counts == list(range(1, len(counts) + 1)), word


def _lines(producer: Producer) -> Iterator[int]:
    """Sends a line at a time, and says how many words it has."""
    number = 0
    while True:
        words = [WORDS[(number * 3 + place * 2) % len(WORDS)] for place in range(1 + number % 4)]
        producer.produce("lines", key=str(number), value=" ".join(words))
        producer.poll(0)
        if number % LINES == LINES - 1:
            producer.flush()
        number += 1
        yield len(words)


def _runs_at(members: int, *at: str) -> bool:
    """Whether the group is stable with so many members."""
    state = penstock("groups", "--describe", "--state", "--group", "wordcount", *at).stdout
    return "Stable" in state and str(members) in state.splitlines()[-1].split()
