"""Groups of the consumer protocol with the client that speaks it, librdkafka, on a node whose group.version is 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.cli.main import main
from penstock.testing import Cluster

MOST_POLLS = 1_000
"""Each takes up to 20 ms."""
CONFIG = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with Cluster(config=CONFIG) as cluster:
        address: str = cluster.bootstrap_servers
        run("features", "upgrade", "--feature", "group.version=1", "--bootstrap-server", address)
        yield address


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def records(node: str, topic: str) -> str:
    """A topic with ten records in each of its four partitions."""
    admin = AdminClient({"bootstrap.servers": node})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": node})
    for number in range(40):
        producer.produce(topic, str(number), partition=number % 4)
    producer.flush()
    return topic


class Member:
    def __init__(self, node: str, group: str, topic: str, **settings: Any) -> None:
        defaults = {"group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer({"bootstrap.servers": node, "group.id": group} | defaults | settings)
        self.consumer.subscribe([topic])
        self.values: list[bytes] = []

    @property
    def partitions(self) -> list[int]:
        return sorted(place.partition for place in self.consumer.assignment())

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            self.values.append(message.value() or b"")


def until(holds: Callable[[], bool], *members: Member) -> None:
    for _ in range(MOST_POLLS):
        if holds():
            return
        for member in members:
            member.poll()
    pytest.fail(f"{[member.partitions for member in members]}")


def test_members_share_commit_and_go_on_where_others_were(node: str, records: str) -> None:
    first = Member(node, records, records)
    until(lambda: len(first.values) == 40, first)
    first.consumer.commit(asynchronous=False)
    second = Member(node, records, records, **{"group.instance.id": "two"})
    until(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
    admin = AdminClient({"bootstrap.servers": node})
    described = admin.describe_consumer_groups([records])[records].result()
    assert described.type is ConsumerGroupType.CONSUMER
    shown = json.loads(
        run("groups", "--describe", "--members", "--group", records, "--json", "--bootstrap-server", node)
    )
    assert sorted(row["partitions"] for row in shown) == [2, 2]
    listed = json.loads(run("groups", "--list", "--type", "consumer", "--json", "--bootstrap-server", node))
    assert {"group": records, "protocol": "consumer", "state": "Stable", "type": "consumer"} in listed
    first.consumer.close()
    until(lambda: len(second.partitions) == 4, second)
    assert second.values == []
    committed = second.consumer.committed([TopicPartition(records, index) for index in range(4)])
    assert [place.offset for place in committed] == [10] * 4
    kept = second.partitions
    second.consumer.close()
    again = Member(node, records, records, **{"group.instance.id": "two"})
    until(lambda: again.partitions == kept, again)
    again.consumer.close()


def test_our_own_consumer_takes_part(node: str, records: str) -> None:
    other = Member(node, records, records, **{"auto.offset.reset": "latest"})
    until(lambda: len(other.partitions) == 4, other)
    arguments = ("--topic", records, "--group", records, "--from-beginning", "--max-messages", "20")
    properties = ("--consumer-property", "group.protocol=consumer", "--bootstrap-server", node)
    with ThreadPoolExecutor(1) as pool:
        printed = pool.submit(run, "consume", *arguments, *properties)
        until(printed.done, other)
    assert len(printed.result().split()) == 20
    until(lambda: len(other.partitions) == 4, other)
    other.consumer.close()


def test_an_expression_names_the_topics(node: str, records: str) -> None:
    member = Member(node, records + "-pattern", f"^{records[:-1]}.*")
    until(lambda: len(member.values) == 40, member)
    member.consumer.close()
